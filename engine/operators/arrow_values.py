"""Values that tasks compute on Arrow, of rows and of groups of rows, to the bits that Spark would give.

What cannot be computed exactly on the values at hand (an overflow) raises Inexact in the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from engine.arrow import both, holds, repeated
from engine.spark_internals import arrow_type

MARK = "TIDELINE_INEXACT"
_KINDS = (
    ByteType(),
    ShortType(),
    IntegerType(),
    LongType(),
    BooleanType(),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
    StringType(),
)
ARROW_TYPES: dict[DataType, pa.DataType] = {kind: arrow_type(kind) for kind in _KINDS}
_LARGEST = float(2**63 - 2**12)


class Inexact(ArithmeticError):
    """The values at hand cannot be computed here as Spark does; MARK in its text tells the driver."""

    def __init__(self, why: object) -> None:
        super().__init__(f"{MARK}: {why}")


@dataclass(frozen=True)
class Value:
    """A typed expression: a column by name, a constant, or a function (of `_OWN` or pyarrow's) of other values."""

    kind: DataType
    function: str
    arguments: tuple[Value, ...] = ()
    name: str = ""
    constant: int | bool | str | None = None

    def over(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Return the value of each row of a batch; raises Inexact."""
        if self.function == "column":
            return batch.column(self.name)
        if self.function == "constant":
            return repeated(pa.scalar(self.constant, ARROW_TYPES[self.kind]), batch.num_rows)
        given = [argument.over(batch) for argument in self.arguments]
        try:
            if self.function == "cast":
                return given[0].cast(ARROW_TYPES[self.kind])
            function = _OWN.get(self.function) or getattr(pc, self.function)
            return function(*given)
        except pa.ArrowException as error:  # an overflow, or a type that Arrow has no kernel for
            raise Inexact(error) from error


def _same(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array(holds(pc.equal(left, right)) | both(left.is_null(), right.is_null()), pa.bool_())


def _extreme(pick: Callable[..., pa.Array[Any]]) -> Callable[..., pa.Array[Any]]:
    def of(*given: pa.Array[Any]) -> pa.Array[Any]:
        kind = given[0].type
        if not pa.types.is_timestamp(kind):
            return pick(*given)
        return pick(*(array.cast(pa.int64()) for array in given)).cast(kind)

    return of


_OWN: dict[str, Callable[..., pa.Array[Any]]] = {
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "if": lambda test, yes, no: pc.if_else(pc.fill_null(test, False), yes, no),
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
    "same": _same,
}
"""Functions that are not pyarrow's of the same name."""


@dataclass(frozen=True)
class Fold:
    """One aggregate of a group: `function` of pyarrow's grouped aggregates over a value, as the column `name`."""

    name: str
    function: str
    value: Value


@dataclass(frozen=True)
class GroupBy:
    """A body: one row a group of all batches of a task: the keys, and expressions over the group's folds."""

    keys: tuple[tuple[str, Value], ...]
    folds: tuple[Fold, ...]
    calls: tuple[tuple[str, Value], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = [*self.keys, *((fold.name, fold.value) for fold in self.folds)]
        names = [name for name, _ in values]
        gathered = [
            pa.RecordBatch.from_arrays([value.over(batch) for _, value in values], names=names)
            for batch in batches
            if batch.num_rows
        ]
        if not gathered:
            return
        rows = pa.Table.from_batches(gathered)
        for fold in self.folds:
            if fold.function == "sum":
                _refuse_overflow(rows.column(fold.name))
        some = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
        wanted: list[tuple[str, Any, pc.FunctionOptions]] = [
            (fold.name, fold.function, pc.CountOptions() if fold.function == "count" else some)
            for fold in self.folds
        ]
        try:
            grouped = rows.group_by([name for name, _ in self.keys]).aggregate(wanted)
        except pa.ArrowException as error:
            raise Inexact(error) from error
        columns = [*(name for name, _ in self.keys), *(f"{fold.name}_{fold.function}" for fold in self.folds)]
        groups = grouped.select(columns).combine_chunks().rename_columns(names).to_batches()
        for batch in groups:
            arrays = [batch.column(name) for name, _ in self.keys]
            arrays += [value.over(batch) for _, value in self.calls]
            yield pa.RecordBatch.from_arrays(
                arrays, names=[*(name for name, _ in self.keys), *(name for name, _ in self.calls)]
            )


def _refuse_overflow(column: pa.ChunkedArray[Any]) -> None:
    """Raise Inexact where a sum of whole numbers might leave 64 bits: Arrow's would wrap silently."""
    largest = max(abs(pc.min(column).as_py() or 0), abs(pc.max(column).as_py() or 0))
    if largest * len(column) > _LARGEST:
        raise Inexact(f"a sum of {len(column)} numbers up to {largest}")
