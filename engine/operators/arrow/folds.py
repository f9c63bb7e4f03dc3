"""Folds by group that tasks compute on Arrow, in one body, or in two with the rows of a group brought together in between.

What cannot be computed exactly on the values at hand (an overflow) raises Inexact in the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, DecimalType, LongType, StructField, StructType

from engine.arrow import group_batches, make_nulls
from engine.operators.arrow.decimals import measure_largest
from engine.operators.arrow.expressions import Inexact, Value, find_arrow_type
from engine.operators.arrow.shared_values import NamedValues
from engine.spark_internals import derive_arrow_type

_LARGEST = float(2**63 - 2**12)
FOLDED_ROWS = 65_536
"""So many rows are folded at once before rows of a group meet."""


@dataclass(frozen=True)
class Fold:
    """One aggregate of a group: `function` of pyarrow's grouped aggregates over a value, as the column `name`."""

    name: str
    function: str
    value: Value


@dataclass(frozen=True)
class GroupBy:
    """A body: one row a group of all batches of a task: the keys, and expressions over the group's folds.

    Without keys all rows are one group, also none.
    """

    keys: tuple[tuple[str, Value], ...]
    folds: tuple[Fold, ...]
    calls: tuple[tuple[str, Value], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = [self._values.evaluate(batch) for batch in batches if batch.num_rows]
        if not gathered and not self.keys:
            gathered = [_make_no_rows(self._values.items)]
        if not gathered:
            return
        for batch in _fold_groups(pa.Table.from_batches(gathered), self.keys, self.folds).to_batches():
            yield self._results.evaluate(batch)

    @cached_property
    def _values(self) -> NamedValues:
        return _list_values(self.keys, self.folds)

    @cached_property
    def _results(self) -> NamedValues:
        return NamedValues((*_list_columns(self.keys), *self.calls))

    def split_in_two(self) -> tuple[FoldAhead, GroupBy]:
        """Return the same in two bodies: what of it can be done before the rows of a group meet, and the rest."""
        again = [Fold(fold.name, *_merge_fold(fold)) for fold in self.folds]
        return FoldAhead(self.keys, self.folds), GroupBy(_list_columns(self.keys), tuple(again), self.calls)


@dataclass(frozen=True)
class FoldAhead:
    """A body: the keys and folds of each row, or of some rows of a group together, while that makes them fewer.

    Where the first ones, once folded, are more than half as many, all that follow are handed on one by one.
    """

    keys: tuple[tuple[str, Value], ...]
    folds: tuple[Fold, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        helps = True
        for rows in group_batches((batch for batch in batches if batch.num_rows), FOLDED_ROWS):
            valued = pa.Table.from_batches([self._values.evaluate(batch) for batch in rows.to_batches()])
            folded = _fold_groups(valued, self.keys, self.folds) if helps else self._fold_each_row(valued)
            helps = helps and folded.num_rows * 2 <= rows.num_rows
            yield from folded.combine_chunks().to_batches()

    @cached_property
    def _values(self) -> NamedValues:
        return _list_values(self.keys, self.folds)

    def _fold_each_row(self, rows: pa.Table) -> pa.Table:
        """Return the folds of each row by itself."""
        for fold in self.folds:
            if fold.function == "count":
                at = rows.schema.get_field_index(fold.name)
                counted: Any = rows.column(at).is_valid().cast(pa.int64())
                rows = rows.set_column(at, fold.name, counted)
        return rows

    @property
    def schema(self) -> StructType:
        """The schema of its rows."""
        counted = [(fold.name, _merge_fold(fold)[1].kind) for fold in self.folds]
        return StructType(
            [StructField(name, kind) for name, kind in [*((n, v.kind) for n, v in self.keys), *counted]]
        )


def _list_values(keys: tuple[tuple[str, Value], ...], folds: tuple[Fold, ...]) -> NamedValues:
    """Return the keys of each row, and what is folded."""
    return NamedValues((*keys, *((fold.name, fold.value) for fold in folds)))


def _make_no_rows(values: Sequence[tuple[str, Value]]) -> pa.RecordBatch:
    """Return a batch without rows of the types of named values."""
    arrays = [make_nulls(0, derive_arrow_type(value.kind)) for _, value in values]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in values])


def _list_columns(named: Sequence[tuple[str, Value]]) -> tuple[tuple[str, Value], ...]:
    """Return the columns that values have become."""
    return tuple((name, Value(value.kind, "column", name=name)) for name, value in named)


def _merge_fold(fold: Fold) -> tuple[str, Value]:
    """Return the function that folds what a fold has given, and the value that it goes over."""
    kind = LongType() if fold.function == "count" else fold.value.kind
    return "sum" if fold.function == "count" else fold.function, Value(kind, "column", name=fold.name)


def _fold_groups(rows: pa.Table, keys: Sequence[tuple[str, Value]], folds: Sequence[Fold]) -> pa.Table:
    """Return the folds of each group; raises Inexact where Arrow's are not those of Spark."""
    for fold in folds:
        if fold.function == "sum":
            _refuse_overflow(rows.column(fold.name), fold.value.kind)
    some = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    aggregates: list[tuple[str, Any, pc.FunctionOptions]] = [
        (fold.name, fold.function, pc.CountOptions() if fold.function == "count" else some) for fold in folds
    ]
    by = [name for name, _ in keys]
    try:
        grouped = rows.group_by(by, use_threads=False).aggregate(aggregates)  # a task has one core
    except pa.ArrowException as error:
        raise Inexact(error) from error
    columns = [*by, *(f"{fold.name}_{fold.function}" for fold in folds)]
    found = grouped.select(columns).combine_chunks().rename_columns([*by, *(fold.name for fold in folds)])
    for at, fold in enumerate(folds, len(by)):
        if fold.function == "sum" and isinstance(fold.value.kind, DecimalType):  # Arrow's has all digits
            column: Any = found.column(at).cast(find_arrow_type(fold.value.kind))
            found = found.set_column(at, fold.name, column)
    return found


def _refuse_overflow(column: pa.ChunkedArray[Any], kind: DataType) -> None:
    """Raise Inexact where a sum might leave its type: Arrow's would wrap silently."""
    if isinstance(kind, DecimalType):
        largest = max((measure_largest(chunk) for chunk in column.chunks), default=0)
        if largest * len(column) >= 10**kind.precision:
            raise Inexact(f"a sum of {len(column)} numbers up to {largest} units as {kind.simpleString()}")
        return
    largest = max(abs(pc.min(column).as_py() or 0), abs(pc.max(column).as_py() or 0))
    if largest * len(column) > _LARGEST:
        raise Inexact(f"a sum of {len(column)} numbers up to {largest}")
