"""Rows of a flow spread over tasks by vnode: a task packs those that go to one place, and Spark moves few large values.

Spark's own shuffle takes rows out of Arrow, moves them one by one, and puts them into Arrow again for the next body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from engine.arrow import as_stream, from_stream, group_batches, to_positions
from engine.hummock.rows.row_hash import VNODES, vnode_of, xxhash64
from engine.operators.arrow.compiler import Item
from engine.operators.arrow.expressions import find_arrow_type
from engine.operators.context import EpochContext, shuffle_by_vnode
from engine.operators.flow import Batches, Flow, Rows

PACK_BYTES = 32 << 20
PACK_ROWS = 500_000
"""A task packs rows when it holds so much: a value that Spark moves is smaller."""
PLACE, PACKED = "_place", "_packed"
_STREAMS = StructType([StructField(PACKED, BinaryType())])
_SCHEMA = StructType([StructField(PLACE, IntegerType()), StructField(PACKED, BinaryType())])


@dataclass(frozen=True)
class Pack:
    """A body: rows become one stream for each of the `parts` places that they go to, by the vnode of some columns."""

    by: tuple[str, ...]
    parts: int

    def __call__(self, batches: Batches) -> Batches:
        for rows in group_batches((batch for batch in batches if batch.num_rows), PACK_ROWS, PACK_BYTES):
            yield self._pack(rows.combine_chunks())

    def _pack(self, rows: pa.Table) -> pa.RecordBatch:
        vnodes = vnode_of(xxhash64([rows.column(name) for name in self.by]))
        places = (vnodes * self.parts // VNODES).astype(np.uint16)
        starts = np.searchsorted(np.sort(places), np.arange(self.parts + 1))
        arranged = rows.take(to_positions(np.argsort(places, kind="stable")))
        filled = [place for place in range(self.parts) if starts[place] < starts[place + 1]]
        streams = [
            as_stream(arranged.slice(starts[place], starts[place + 1] - starts[place])) for place in filled
        ]
        arrays: list[pa.Array[Any]] = [pa.array(filled, pa.int32()), pa.array(streams, pa.binary())]
        return pa.RecordBatch.from_arrays(arrays, names=[PLACE, PACKED])


@dataclass(frozen=True)
class Conform:
    """A body: rows with given names and types, whatever they are called here and however Arrow holds them."""

    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            yield batch.rename_columns(self.schema.names).cast(self.schema)


@dataclass(frozen=True)
class Gather:
    """A body: rows become streams."""

    def __call__(self, batches: Batches) -> Batches:
        for rows in group_batches((batch for batch in batches if batch.num_rows), PACK_ROWS, PACK_BYTES):
            yield pa.RecordBatch.from_arrays([pa.array([as_stream(rows)], pa.binary())], names=[PACKED])


@dataclass(frozen=True)
class Unpack:
    """A body: the rows of streams."""

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for stream in batch.column(PACKED):
                yield from from_stream(stream.as_buffer()).to_batches()


@dataclass(frozen=True)
class PackedUnion(Flow):
    """The rows of several `flows` with the same columns; its first body unpacks what `spread` takes from the flows themselves."""

    flows: tuple[Flow, ...] = ()

    def list_alone(self) -> list[Flow]:
        """Return the flows, each with what is made of the union's rows."""
        return [
            replace(flow, bodies=(*flow.bodies, *self.bodies[1:]), schema=self.schema) for flow in self.flows
        ]


def union_packed(parts: Sequence[Rows]) -> PackedUnion | None:
    """Return the union by position of rows that Python makes, and that stay packed; None if Spark makes some of them."""
    flows: list[Flow] = []
    for part in parts:
        if not isinstance(part, Flow) or not part.bodies:
            return None
        flows += part.list_alone() if isinstance(part, PackedUnion) else [part]
    kinds = {tuple(field.dataType for field in flow.schema.fields) for flow in flows}
    if len(flows) < 2 or len(kinds) > 1:
        return None
    found = zip(flows[0].columns, map(find_arrow_type, kinds.pop()), strict=True)
    fields = [pa.field(name, kind) for name, kind in found if kind is not None]
    if len(fields) < len(flows[0].columns):
        return None
    alike = zip(*(flow.schema.fields for flow in flows), strict=True)
    schema = StructType(
        [StructField(some[0].name, some[0].dataType, any(one.nullable for one in some)) for some in alike]
    )
    same = tuple(flow.then(Conform(pa.schema(fields)), schema) for flow in flows)
    base = reduce(DataFrame.union, (flow.then(Gather(), _STREAMS).frame for flow in same))
    return PackedUnion(base, (Unpack(),), schema, exact=any(flow.exact for flow in flows), flows=same)


def spread_by_vnode(rows: Rows, by: Sequence[str], context: EpochContext) -> Rows:
    """Return rows of which each task has those of its vnodes by some columns; they are packed where Python made them."""
    if isinstance(rows, Flow) and rows.bodies:
        return spread(rows, by, context.partitions)
    return shuffle_by_vnode(rows, by, context, PLACE).drop(PLACE)


def fold_by_vnode(
    rows: Flow, columns: Sequence[str], keys: Sequence[Item], calls: Sequence[Item], parts: int
) -> Flow | None:
    """Return one row a group, in the task of the group's vnode by some columns; None if an expression has to be Spark's."""
    body = rows.compile_groups(keys, calls)
    if body is None:
        return None
    ahead, rest = body[0].split_in_two()
    return spread(rows.then(ahead, ahead.schema), columns, parts).then(rest, body[1])


def spread(rows: Flow, by: Sequence[str], parts: int) -> Flow:
    """Return the rows of a flow of which each of `parts` tasks has those of its vnodes by some columns."""
    flows = rows.list_alone() if isinstance(rows, PackedUnion) else [rows]
    packed = reduce(DataFrame.union, (flow.then(Pack(tuple(by), parts), _SCHEMA).frame for flow in flows))
    moved = packed.repartitionById(parts, F.col(PLACE))
    return Flow(moved, (Unpack(),), rows.schema, exact=rows.exact)
