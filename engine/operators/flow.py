"""Python bodies of one task that follow each other are run as one: rows cross between Spark and Python once, not at each of them.

Method: operator fusion. A flow answers the few methods of a frame that operators use; what it cannot do to Arrow batches
itself (an expression that `arrow_expressions` does not know) it leaves to Spark, as a frame over its bodies.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from engine.arrow import as_values
from engine.hummock.rows.key_numbers import deduplicate
from engine.hummock.rows.row_hash import VNODES, vnode_of, xxhash64
from engine.operators.arrow.compiler import Compiler, Item
from engine.operators.arrow.expressions import Value
from engine.operators.arrow.folds import GroupBy
from engine.operators.arrow.map_in_arrow import Body, map_in_arrow
from engine.operators.arrow.shared_values import NamedValues
from engine.operators.spark_reasons import record_reason
from engine.sql.expression.nodes import Column, Expr, Literal, Unary
from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.expression.template import as_columns, fill_template

SIDE = "_side"
WEIGHT = "_w"
COMES: Item = (WEIGHT, Literal("1", "bigint"))
GOES: Item = (WEIGHT, Unary("-", Literal("1", "bigint")))
"""The weight of rows that come in, and of rows that go out."""
MOST_READERS = 8
"""Up to so many tasks, reading a change in each of them costs less than a shuffle of its rows."""
Batches = Iterator[pa.RecordBatch]
_NOT_BY_BITS = (FloatType, DoubleType, ArrayType, MapType, StructType, VariantType)
"""Types of which two values can be the same to SQL and not in their bits."""


@runtime_checkable
class ReadingBody(Protocol):
    """A body that starts a task with rows of its own."""

    def everything(self) -> Body:
        """Return the body that reads what all tasks read together."""
        ...


@dataclass(frozen=True)
class Compute:
    """A body: named values of each row."""

    items: tuple[tuple[str, Value], ...]

    def __call__(self, batches: Batches) -> Batches:
        yield from map(self._values.evaluate, batches)

    @cached_property
    def _values(self) -> NamedValues:
        return NamedValues(self.items)


@dataclass(frozen=True)
class Keep:
    """A body: the rows for which a value is true."""

    condition: Value

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            yield batch.filter(self.condition.evaluate(batch))


@dataclass(frozen=True)
class BothSides:
    """A body: each row twice, as it was (side 0, weight -1) and as it is (side 1, weight 1)."""

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            twice = [pa.concat_arrays([column, column]) for column in batch.columns]
            side = np.repeat(np.array([0, 1], dtype=np.int32), batch.num_rows)
            weight = pa.array(2 * side.astype(np.int64) - 1)
            yield pa.RecordBatch.from_arrays(
                [*twice, pa.array(side), weight], names=[*batch.schema.names, SIDE, "_w"]
            )


@dataclass(frozen=True)
class Distinct:
    """A body: each row once, of all batches of a task."""

    def __call__(self, batches: Batches) -> Batches:
        gathered = [batch for batch in batches if batch.num_rows]
        if gathered:
            yield from deduplicate(pa.Table.from_batches(gathered)).to_batches()


@dataclass(frozen=True)
class Chain:
    """A body: some, one after the other."""

    bodies: tuple[Body, ...]

    def __call__(self, batches: Batches) -> Batches:
        for body in self.bodies:
            batches = body(batches)
        return batches


@dataclass(frozen=True)
class Share:
    """A body: of rows that every one of `parts` tasks makes by `whole`, those whose vnode is among the task's.

    A task finds its number in its row: one of Spark's tasks may do the work of several.
    """

    whole: Chain
    by: tuple[str, ...]
    parts: int

    def __call__(self, batches: Batches) -> Batches:
        for task_batch in batches:
            for part in as_values(task_batch.column(0)):
                for batch in self.whole(iter([task_batch.slice(0, 1)])):
                    vnodes = vnode_of(xxhash64([batch.column(name) for name in self.by]))
                    yield batch.filter(pa.array(vnodes * self.parts // VNODES == part))


@dataclass(frozen=True)
class Union:
    """A body: the rows of several chains over the same input, with the same names, typed as the first of them are.

    What all chains begin with is done once.
    """

    chains: tuple[Chain, ...]
    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        same = self._count_common()
        shared = list(Chain(self.chains[0].bodies[:same])(batches))
        schema: pa.Schema | None = None
        for chain in self.chains:
            for batch in Chain(chain.bodies[same:])(iter(shared)):
                if schema is None:
                    fields = zip(self.names, batch.schema.types, strict=True)
                    schema = pa.schema([pa.field(name, kind) for name, kind in fields])
                arrays = [
                    column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _count_common(self) -> int:
        """Return with how many bodies all chains begin that are the same objects."""
        steps = zip(*(chain.bodies for chain in self.chains), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda step: all(one is step[0] for one in step), steps))


@dataclass(frozen=True)
class Flow:
    """Rows of `schema`: those of a frame after some bodies; `single` if the frame is one row that just starts a task.

    With `groups` such rows start a task each, which has all rows of groups of its own; what it does it does to those.

    With `exact` no expression is computed on Arrow: Spark has to say what it is.
    """

    base: DataFrame
    bodies: tuple[Body, ...]
    schema: StructType
    single: bool = False
    exact: bool = True
    groups: bool = False

    @staticmethod
    def of(rows: Rows, *, exact: bool = True) -> Flow:
        """Return a frame as a flow without bodies."""
        return rows if isinstance(rows, Flow) else Flow(rows, (), rows.schema, exact=exact)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as Spark's frame, all bodies in one."""
        if not self.bodies:
            return self.base
        body = self.bodies[0] if len(self.bodies) == 1 else Chain(self.bodies)
        return map_in_arrow(self.base, body, self.schema)

    @property
    def body(self) -> Body | None:
        """What one task does to make all rows, None if Spark or several tasks have a part in it."""
        return Chain(self.bodies) if self.single and not self.groups and self.bodies else None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names

    def then(self, body: Body, schema: StructType) -> Flow:
        """Return what a body makes of the rows."""
        return replace(self, bodies=(*self.bodies, body), schema=schema)

    def compute_items(self, items: Sequence[Item]) -> Flow | None:
        """Return the items over each row, or None if one of them has to be Spark's."""
        found = self.compiler.compile_items(items) if self.bodies else None
        if found is None or (self.exact and not all(_is_moved(value) for _, value in found)):
            return None
        known = {field.name: field.nullable for field in self.schema.fields}
        fields = [StructField(name, value.kind, known.get(value.name, True)) for name, value in found]
        return self.then(Compute(found), StructType(fields))

    def keep_rows(self, condition: Expr) -> Flow | None:
        """Return the rows for which the condition is true, or None if it has to be Spark's."""
        value = self.compiler.compile_value(condition) if self.bodies else None
        if value is None or not isinstance(value.kind, BooleanType) or (self.exact and not _is_moved(value)):
            return None
        return self.then(Keep(value), self.schema)

    def distinct(self) -> Rows:
        """Return each row once."""
        by_bits = not any(isinstance(field.dataType, _NOT_BY_BITS) for field in self.schema.fields)
        if not self.single or not self.bodies or not by_bits:
            return self.frame.distinct()
        return self.then(Distinct(), self.schema)

    def coalesce(self, parts: int) -> Rows:
        """Return the rows in at most that many partitions."""
        return self if self.single else self.frame.coalesce(parts)

    def agg(self, *calls: SparkColumn) -> DataFrame:
        """Return Spark's aggregates of all rows."""
        return self.frame.agg(*calls)

    def select(self, *columns: Any) -> DataFrame:
        """Return Spark's selection."""
        return self.frame.select(*columns)

    @property
    def compiler(self) -> Compiler:
        """What knows which expressions over the columns Arrow computes."""
        zone = "spark.sql.session.timeZone"
        return Compiler(self.schema, lambda: self.base.sparkSession.conf.get(zone) == "UTC")

    def separate_by_vnode(self, by: Sequence[str], tasks: int) -> Flow | None:
        """Return the rows as so many tasks make them, each those of its vnodes by some columns.

        None if more than reading and Arrow is in them.
        """
        if not self.bodies or not isinstance(self.bodies[0], ReadingBody):
            return None
        first, *rest = self.bodies
        if not all(isinstance(body, Compute | Keep) for body in rest):
            return None
        base = self.base.sparkSession.range(0, tasks, 1, tasks)
        share = Share(Chain((first.everything(), *rest)), tuple(by), tasks)
        return replace(self, base=base, bodies=(share,), single=False)

    def group(self, keys: Sequence[Item], calls: Sequence[Item]) -> Flow | None:
        """Return one row a group of each task's rows, or None if an expression has to be Spark's."""
        found = self.compile_groups(keys, calls)
        return None if found is None else self.then(*found)

    def compile_groups(
        self, keys: Sequence[Item], calls: Sequence[Item]
    ) -> tuple[GroupBy, StructType] | None:
        """Return the body that does that, and the schema of what it gives; of all rows as one group only one task's."""
        spread = not keys and (self.groups or not self.single)
        return None if self.exact or spread else self.compiler.compile_groups(keys, calls)

    def compiles_call(self, expr: Expr) -> bool:
        """Tell whether Arrow computes an expression over aggregates, or one that stands in an aggregate."""
        compiler = self.compiler
        return (
            compiler.compile_value(expr) is not None or compiler.compile_groups((), [("_", expr)]) is not None
        )


Rows = DataFrame | Flow
"""What operators work on."""


def compute(rows: Rows, items: Sequence[Item], kept: Collection[str] = ()) -> Rows:
    """Return the items over each row, on Arrow if all of them can be; Spark writes those that are `kept` out nowhere else."""
    found = rows.compute_items(items) if isinstance(rows, Flow) else None
    if found is not None:
        return found
    _record_refused(rows, [expr for _, expr in items])
    return as_frame(rows).selectExpr(
        *(_kept(item) if item[0] in kept else render_item(item) for item in items)
    )


def append_columns(rows: Rows, *items: Item) -> Rows:
    """Return each row with the items after its columns."""
    found = rows.compute_items([*as_columns(rows.columns), *items]) if isinstance(rows, Flow) else None
    if found is not None:
        return found
    _record_refused(rows, [expr for _, expr in items])
    return as_frame(rows).selectExpr("*", *map(render_item, items))


def keep(rows: Rows, condition: Expr) -> Rows:
    """Return the rows for which the condition is true, on Arrow if it can be."""
    found = rows.keep_rows(condition) if isinstance(rows, Flow) else None
    if found is not None:
        return found
    _record_refused(rows, [condition])
    return as_frame(rows).where(render_spark_sql(condition))


def _record_refused(rows: Rows, exprs: Sequence[Expr]) -> None:
    """Record which of the expressions over a flow's rows is the first that Arrow does not compute."""
    if isinstance(rows, Flow) and rows.bodies and not rows.exact:
        compiler = rows.compiler
        record_reason(exprs, lambda expr: compiler.compile_value(expr) is not None)


def _kept(item: Item) -> str:
    """Return an item that no rule of Spark's puts for its column: it counts as one that differs from task to task."""
    name, expr = item
    return f"IF(spark_partition_id() < 0, NULL, {render_spark_sql(expr)}) AS {quote(name)}"


def render_item(item: Item) -> str:
    """Return an item as `selectExpr` takes it."""
    name, expr = item
    return quote(name) if expr.column == name else f"{render_spark_sql(expr)} AS {quote(name)}"


def group_rows(
    rows: Rows,
    keys: Sequence[Item],
    calls: Sequence[Item],
    *,
    exact: bool,
    place: str | None = None,
) -> Rows:
    """Return one row a group: its keys and aggregates. No group has rows in two partitions.

    `place` is the column by which the rows were spread, where they were: Spark needs no second shuffle under it.
    """
    found = Flow.of(rows, exact=exact).group(keys, calls)
    if found is not None:
        return found
    if isinstance(rows, Flow):
        _record_refused(rows, [expr for _, expr in keys])
        if not exact:
            record_reason([expr for _, expr in calls], rows.compiles_call)
    if place is None:
        return group_by_spark(rows, keys, calls)
    return group_by_spark(rows, [(place, Column(place)), *keys], calls).drop(place)


def group_by_spark(rows: Rows, keys: Sequence[Item], calls: Sequence[Item]) -> DataFrame:
    """Return one row a group of all rows: its keys and aggregates."""
    return as_frame(rows).groupBy(*to_spark_columns(keys)).agg(*to_spark_columns(calls))


def to_spark_columns(items: Sequence[Item]) -> list[SparkColumn]:
    """Return items as Spark's columns."""
    return [F.expr(render_spark_sql(expr)).alias(name) for name, expr in items]


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
        same_tasks = not any(flow.groups for flow in flows) or len({id(flow.base) for flow in flows}) == 1
        if alike and same_tasks:
            body = Union(tuple(Chain(flow.bodies) for flow in flows), tuple(flows[0].columns))
            return replace(flows[0], bodies=(body,))
    merged = as_frame(parts[0])
    for part in parts[1:]:
        merged = merged.union(as_frame(part))
    return merged


def duplicate_sides(rows: Rows) -> Rows:
    """Return each row twice: as of side 0, which is retracted, and as of side 1, which is inserted."""
    if isinstance(rows, Flow) and rows.bodies:
        fields = [StructField(SIDE, IntegerType(), False), StructField("_w", LongType(), False)]
        return rows.then(BothSides(), StructType([*rows.schema.fields, *fields]))
    sides = as_frame(rows).selectExpr("*", f"explode(array(0, 1)) AS `{SIDE}`")
    return append_columns(sides, ("_w", fill_template("if(:side = 1, 1L, -1L)", side=Column(SIDE))))


def _is_moved(value: Value) -> bool:
    return value.function in ("column", "constant")
