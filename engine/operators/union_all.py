"""UNION ALL: linear; a row's key is its branch and the branch's own key.

>>> change("SELECT id FROM bid UNION ALL SELECT id FROM auction")
- id=2
+ id=4
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, NullType, StructField, StructType

from engine.arrow import make_nulls
from engine.operators.arrow.compiler import Item
from engine.operators.change import Change
from engine.operators.context import Batch, EpochContext
from engine.operators.flow import COMES, WEIGHT, Batches, Flow, Rows, append_columns, as_frame, compute, keep
from engine.spark_internals import derive_arrow_type
from engine.sql.expression.nodes import FALSE, Column, Literal
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import as_columns
from engine.sql.plan import Node, UnionAll, list_scans


@dataclass(frozen=True)
class FillColumns:
    """A body: columns of each row by name and type, nulls where it has none."""

    columns: tuple[tuple[str, pa.DataType], ...]

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            known = {
                name: column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if not pa.types.is_null(column.type)
            }
            arrays = [
                known[name] if name in known else make_nulls(batch.num_rows, kind)
                for name, kind in self.columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])


def list_branch_items(position: int, node: Node, names: tuple[str, ...]) -> list[Item]:
    """Return the union's columns over the rows of one of its inputs; keys of other branches are not among them."""
    items: list[Item] = [(new, Column(old)) for old, new in zip(node.columns, names, strict=False)]
    keys = [(f"_key{position}_{n}", Column(column)) for n, column in enumerate(node.key)]
    return [*items, ("_branch", Literal(str(position))), *keys]


def put_together(
    node: UnionAll,
    branches: Sequence[Rows],
    carried: tuple[str, ...],
    context: EpochContext,
    empty: Collection[int] = (),
) -> Rows:
    """Return the rows of branches with all of the union's columns and what they carry.

    Where one task has all of them, and no type has to be widened, it puts them together by itself, without those at the `empty`
    places, which are there for their types.
    """
    schema = _find_common_schema(node, branches, carried)
    filled = [branch for place, branch in enumerate(branches) if place not in empty]
    flows = [branch for branch in filled if isinstance(branch, Flow) and branch.single]
    if schema is not None and len(flows) == len(filled):
        merged = context.union([_fill_columns(flow, schema) for flow in flows])
        assert merged is not None
        return merged
    frame = _merge(node, branches, *carried)
    return frame.coalesce(1) if context.is_small else frame


def _merge(node: UnionAll, branches: Sequence[Rows], *carried: str) -> DataFrame:
    merged = as_frame(branches[0])
    for branch in branches[1:]:
        merged = merged.unionByName(as_frame(branch), allowMissingColumns=True)
    return merged.select(*[quote(column) for column in node.columns], *carried)


def batch(node: UnionAll, inputs: list[DataFrame]) -> DataFrame:
    """Return the rows of all inputs, each with its branch number and key; types widen as Spark widens a union's."""
    branches = [
        compute(frame, list_branch_items(i, child, node.names))
        for i, (child, frame) in enumerate(zip(node.inputs, inputs, strict=True))
    ]
    return _merge(node, branches)


def delta(
    node: UnionAll, inputs: list[Change | None], context: EpochContext, batch_of: Batch
) -> Change | None:
    """Return the changes of all inputs that changed.

    Branches without a change take part with what `batch_of` gives of empty tables: the types are those of the whole union, and
    nothing is read.
    """
    if all(change is None for change in inputs):
        return None
    branches = []
    for i, (child, change) in enumerate(zip(node.inputs, inputs, strict=True)):
        if change is not None:
            rows = change.rows
        else:
            nothing = context.with_empty_tables(scan.table for scan in list_scans(child))
            rows = append_columns(keep(batch_of(child, nothing), FALSE), COMES)
        items = [*list_branch_items(i, child, node.names), *as_columns([WEIGHT])]
        branches.append(compute(rows, items))
    terms = sum(change.terms for change in inputs if change is not None)
    empty = [place for place, change in enumerate(inputs) if change is None]
    return Change(put_together(node, branches, (WEIGHT,), context, empty), terms)


def _find_common_schema(
    node: UnionAll, branches: Sequence[Rows], carried: tuple[str, ...]
) -> StructType | None:
    """Return the schema of the union's rows with what they carry, None if columns of different types meet."""
    kinds: dict[str, DataType] = {}
    for branch in branches:
        for field in branch.schema.fields:
            known = kinds.get(field.name, NullType())
            if isinstance(known, NullType):
                kinds[field.name] = field.dataType
            elif field.dataType not in (known, NullType()):
                return None
    return StructType([StructField(name, kinds[name]) for name in (*node.columns, *carried)])


def _fill_columns(flow: Flow, schema: StructType) -> Flow:
    """Return a branch's rows with the columns of all branches."""
    columns = tuple((field.name, derive_arrow_type(field.dataType)) for field in schema.fields)
    return flow.then(FillColumns(columns), schema)
