"""UNION ALL: linear; a row's key is its branch and the branch's own key.

>>> change("SELECT id FROM bid UNION ALL SELECT id FROM auction")
- id=2
+ id=4
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from engine.operators.change import Change
from engine.operators.context import Batch, EpochContext
from engine.operators.flow import COMES, Rows, append_columns, as_frame, compute, keep
from engine.sql.expression.nodes import FALSE, Column, Literal
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import as_columns
from engine.sql.plan import Node, UnionAll, list_scans


def _project_branch(
    position: int, node: Node, names: tuple[str, ...], frame: Rows, *carried: str
) -> DataFrame:
    items = [(new, Column(old)) for old, new in zip(node.columns, names, strict=False)]
    keys = [(f"_key{position}_{n}", Column(column)) for n, column in enumerate(node.key)]
    branch = ("_branch", Literal(str(position)))
    return as_frame(compute(frame, [*items, branch, *keys, *as_columns(carried)]))


def _merge(node: UnionAll, branches: list[DataFrame], *carried: str) -> DataFrame:
    merged = branches[0]
    for branch in branches[1:]:
        merged = merged.unionByName(branch, allowMissingColumns=True)
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
    nothing is read.
    """
    if all(change is None for change in inputs):
        return None
    branches = []
    for i, (child, change) in enumerate(zip(node.inputs, inputs, strict=True)):
        if change is None:
            nothing = context.with_empty_tables(scan.table for scan in list_scans(child))
            change = Change(append_columns(keep(batch_of(child, nothing), FALSE), COMES))
        branches.append(_project_branch(i, child, node.names, change.rows, "_w"))
    merged = _merge(node, branches, "_w")
    terms = sum(change.terms for change in inputs if change is not None)
    return Change(merged.coalesce(1) if context.is_small else merged, terms)
