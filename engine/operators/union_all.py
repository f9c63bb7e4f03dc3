"""UNION ALL: linear; a row's key is its branch and the branch's own key.

>>> change("SELECT id FROM bid UNION ALL SELECT id FROM auction")
- id=2
+ id=4
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, NullType, StructField, StructType

from engine.arrow import make_nulls
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


def _project_branch(position: int, node: Node, names: tuple[str, ...], frame: Rows, *carried: str) -> Rows:
    items = [(new, Column(old)) for old, new in zip(node.columns, names, strict=False)]
    keys = [(f"_key{position}_{n}", Column(column)) for n, column in enumerate(node.key)]
    branch = ("_branch", Literal(str(position)))
    return compute(frame, [*items, branch, *keys, *as_columns(carried)])


def _merge(node: UnionAll, branches: list[Rows], *carried: str) -> DataFrame:
    merged = as_frame(branches[0])
    for branch in branches[1:]:
        merged = merged.unionByName(as_frame(branch), allowMissingColumns=True)
    return merged.select(*[quote(column) for column in node.columns], *carried)


def batch(node: UnionAll, inputs: list[DataFrame]) -> DataFrame:
    """Return the rows of all inputs, each with its branch number and key; types widen as Spark widens a union's."""
    branches = [
        _project_branch(i, child, node.names, frame)
        for i, (child, frame) in enumerate(zip(node.inputs, inputs, strict=True))
    ]
    return _merge(node, branches)


def delta(
    node: UnionAll, inputs: list[Change | None], context: EpochContext, batch_of: Batch
) -> Change | None:
    """Return the changes of all inputs that changed.

    Branches without a change take part with what `batch_of` gives of empty tables: the types are those of the whole union, and
    nothing is read. Where one task has all changes, and no type has to be widened, it puts them together by itself.
    """
    if all(change is None for change in inputs):
        return None
    branches = []
    for i, (child, change) in enumerate(zip(node.inputs, inputs, strict=True)):
        if change is None:
            nothing = context.with_empty_tables(scan.table for scan in list_scans(child))
            change = Change(append_columns(keep(batch_of(child, nothing), FALSE), COMES))
        branches.append(_project_branch(i, child, node.names, change.rows, WEIGHT))
    terms = sum(change.terms for change in inputs if change is not None)
    schema = _find_common_schema(node, branches)
    changed = [branch for branch, change in zip(branches, inputs, strict=True) if change is not None]
    flows = [branch for branch in changed if isinstance(branch, Flow) and branch.single]
    if schema is not None and len(flows) == len(changed):
        merged = context.union([_fill_columns(flow, schema) for flow in flows])
        assert merged is not None
        return Change(merged, terms)
    frame = _merge(node, branches, WEIGHT)
    return Change(frame.coalesce(1) if context.is_small else frame, terms)


def _find_common_schema(node: UnionAll, branches: list[Rows]) -> StructType | None:
    """Return the schema of the union's change, None if columns of different types meet."""
    kinds: dict[str, DataType] = {}
    for branch in branches:
        for field in branch.schema.fields:
            known = kinds.get(field.name, NullType())
            if isinstance(known, NullType):
                kinds[field.name] = field.dataType
            elif field.dataType not in (known, NullType()):
                return None
    return StructType([StructField(name, kinds[name]) for name in (*node.columns, WEIGHT)])


def _fill_columns(flow: Flow, schema: StructType) -> Flow:
    """Return a branch's rows with the columns of all branches."""
    columns = tuple((field.name, derive_arrow_type(field.dataType)) for field in schema.fields)
    return flow.then(FillColumns(columns), schema)
