"""Python bodies of one task that follow each other are run as one: rows cross between Spark and Python once, not at each of them.

Method: operator fusion. A flow answers the few methods of a frame that operators use; what it cannot do to Arrow batches
itself (any SQL expression) it leaves to Spark, as a frame over its bodies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

SIDE = "_side"
Batches = Iterator[pa.RecordBatch]
Body = Callable[[Batches], Batches]
_NAME = r"`((?:[^`]|``)+)`"
_COLUMN = re.compile(rf"{_NAME}(?: AS {_NAME})?")
_WEIGHT = re.compile(rf"(-?\d+)L AS {_NAME}")
_NOT_BY_BITS = (FloatType, DoubleType, ArrayType, MapType, StructType, VariantType)
"""Types of which two values can be the same to SQL and not in their bits."""


@dataclass(frozen=True)
class Arrange:
    """A body: each output column is one of the input's or a 64-bit number."""

    items: tuple[tuple[str, str | int], ...]

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            arrays = [
                pa.array(np.full(batch.num_rows, what, dtype=np.int64))
                if isinstance(what, int)
                else batch.column(what)
                for _, what in self.items
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.items])


@dataclass(frozen=True)
class Keep:
    """A body: the rows for which a boolean column is true."""

    column: str

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            yield batch.filter(batch.column(self.column))


@dataclass(frozen=True)
class BothSides:
    """A body: each row twice, as it was (side 0, weight -1) and as it is (side 1, weight 1)."""

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            twice = pa.concat_batches([batch, batch])
            side = np.repeat(np.array([0, 1], dtype=np.int32), batch.num_rows)
            weight = pa.array(2 * side.astype(np.int64) - 1)
            yield pa.RecordBatch.from_arrays(
                [*twice.columns, pa.array(side), weight], names=[*batch.schema.names, SIDE, "_w"]
            )


@dataclass(frozen=True)
class Distinct:
    """A body: each row once, of all batches of a task."""

    def __call__(self, batches: Batches) -> Batches:
        gathered = [batch for batch in batches if batch.num_rows]
        if gathered:
            rows = pa.Table.from_batches(gathered)
            yield from rows.group_by(rows.column_names).aggregate([]).to_batches()


@dataclass(frozen=True)
class Chain:
    """A body: some, one after the other."""

    bodies: tuple[Body, ...]

    def __call__(self, batches: Batches) -> Batches:
        for body in self.bodies:
            batches = body(batches)
        return batches


@dataclass(frozen=True)
class Union:
    """A body: the rows of several chains over the same input, with the same names, typed as the first of them are."""

    chains: tuple[Chain, ...]
    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        given = list(batches)
        schema: pa.Schema | None = None
        for chain in self.chains:
            for batch in chain(iter(given)):
                if schema is None:
                    fields = zip(self.names, batch.schema.types, strict=True)
                    schema = pa.schema([pa.field(name, kind) for name, kind in fields])
                arrays = [
                    column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class Flow:
    """Rows of `schema`: those of a frame after some bodies; `single` if the frame is one row that just starts a task."""

    base: DataFrame
    bodies: tuple[Body, ...]
    schema: StructType
    single: bool = False

    @staticmethod
    def of(rows: Rows) -> Flow:
        """Return a frame as a flow without bodies."""
        return rows if isinstance(rows, Flow) else Flow(rows, (), rows.schema)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as Spark's frame, all bodies in one."""
        if not self.bodies:
            return self.base
        body = self.bodies[0] if len(self.bodies) == 1 else Chain(self.bodies)
        return self.base.mapInArrow(body, self.schema)  # type: ignore[arg-type]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names

    def then(self, body: Body, schema: StructType) -> Flow:
        """Return what a body makes of the rows."""
        return replace(self, bodies=(*self.bodies, body), schema=schema)

    def selectExpr(self, *expressions: str) -> Rows:
        """Return the expressions over each row; columns and whole numbers need no Spark."""
        items = self._items(expressions)
        if items is None:
            return self.frame.selectExpr(*expressions)
        known = {field.name: field for field in self.schema.fields}
        fields = [
            StructField(name, LongType(), False)
            if isinstance(what, int)
            else StructField(name, known[what].dataType, known[what].nullable)
            for name, what in items
        ]
        return self.then(Arrange(items), StructType(fields))

    def where(self, condition: str) -> Rows:
        """Return the rows for which the condition is true; a column needs no Spark."""
        named = _COLUMN.fullmatch(condition)
        if not self.bodies or named is None or named[2] is not None:
            return self.frame.where(condition)
        return self.then(Keep(_unquoted(named[1])), self.schema)

    def distinct(self) -> Rows:
        """Return each row once."""
        by_bits = not any(isinstance(field.dataType, _NOT_BY_BITS) for field in self.schema.fields)
        if not self.single or not self.bodies or not by_bits:
            return self.frame.distinct()
        return self.then(Distinct(), self.schema)

    def coalesce(self, parts: int) -> Rows:
        """Return the rows in at most that many partitions."""
        return self if self.single else self.frame.coalesce(parts)

    def groupBy(self, *keys: Any) -> GroupedData:
        """Return Spark's groups of the rows."""
        return self.frame.groupBy(*keys)

    def agg(self, *calls: Column) -> DataFrame:
        """Return Spark's aggregates of all rows."""
        return self.frame.agg(*calls)

    def select(self, *columns: Any) -> DataFrame:
        """Return Spark's selection."""
        return self.frame.select(*columns)

    def _items(self, expressions: tuple[str, ...]) -> tuple[tuple[str, str | int], ...] | None:
        """Return (name, column or number) of each expression, or None if one of them is more than that."""
        if not self.bodies:
            return None
        items: list[tuple[str, str | int]] = []
        for text in expressions:
            if text == "*":
                items += [(name, name) for name in self.columns]
            elif number := _WEIGHT.fullmatch(text):
                items.append((_unquoted(number[2]), int(number[1])))
            elif text == "_w" and text in self.columns:
                items.append((text, text))
            elif named := _COLUMN.fullmatch(text):
                column = _unquoted(named[1])
                if column not in self.columns:
                    return None
                items.append((column if named[2] is None else _unquoted(named[2]), column))
            else:
                return None
        unique = len({name for name, _ in items}) == len(items) == len({name.lower() for name, _ in items})
        return tuple(items) if unique else None


Rows = DataFrame | Flow
"""What operators work on."""


def as_frame(rows: Rows) -> DataFrame:
    """Return rows as Spark's frame."""
    return rows.frame if isinstance(rows, Flow) else rows


def union(parts: list[Rows]) -> Rows:
    """Return the union by position: one task's, where all are flows of one task."""
    flows = [part for part in parts if isinstance(part, Flow) and part.single]
    if len(parts) == 1:
        return parts[0]
    if len(flows) == len(parts):
        alike = all(
            [f.dataType for f in flow.schema.fields] == [f.dataType for f in flows[0].schema.fields]
            for flow in flows
        )
        if alike:
            body = Union(tuple(Chain(flow.bodies) for flow in flows), tuple(flows[0].columns))
            return Flow(flows[0].base, (body,), flows[0].schema, single=True)
    merged = as_frame(parts[0])
    for part in parts[1:]:
        merged = merged.union(as_frame(part))
    return merged


def both_sides(rows: Rows) -> Rows:
    """Return each row twice: as of side 0, which is retracted, and as of side 1, which is inserted."""
    if isinstance(rows, Flow) and rows.bodies:
        added = [StructField(SIDE, IntegerType(), False), StructField("_w", LongType(), False)]
        return rows.then(BothSides(), StructType([*rows.schema.fields, *added]))
    sides = rows.selectExpr("*", f"explode(array(0, 1)) AS `{SIDE}`")
    return sides.selectExpr("*", f"IF(`{SIDE}` = 1, 1L, -1L) AS `_w`")


def _unquoted(name: str) -> str:
    return name.replace("``", "`")
