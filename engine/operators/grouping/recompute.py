"""The rule that every operator with a key has, and that every faster rule is held against: keyed recompute.

Rule: out_change = f(new[K]) - f(old[K]), with K the keys that the inputs' changes touch, and f the operator's batch form. An
operator without a key (a cross join, an aggregate of the whole input) is computed as a whole before and after.

>>> change("SELECT auction, max(price) AS best FROM bid GROUP BY auction", rules="reference")
- auction=7 best=50
+ auction=7 best=30
+ auction=9 best=10
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from engine.operators.change import Change, sum_terms
from engine.operators.compile import batch, compute_over, delta
from engine.operators.context import At, EpochContext, select
from engine.operators.flow import COMES, GOES, Rows, append_columns, as_frame, compute, keep
from engine.operators.linear import project
from engine.operators.lookups.expand import expand
from engine.operators.lookups.lookup import Probe
from engine.sql.expression.nodes import Column
from engine.sql.plan import Aggregate, Join, Node, Over, Project, TopN


def list_sides(node: Node) -> tuple[tuple[Node, tuple[str, ...]], ...]:
    """Return each input of an operator with the columns of its key; equal keys of all inputs belong together."""
    match node:
        case Join():
            return (
                (node.left, tuple(left for left, _ in node.on)),
                (node.right, tuple(right for _, right in node.on)),
            )
        case Aggregate():
            return ((node.input, tuple(expr.columns[0] for _, expr in node.keys if expr.columns)),)
        case TopN() | Over():
            return ((node.input, node.partition),)
    raise AssertionError(f"{type(node).__name__} works on changes alone")


def keyed_delta(top: Project, context: EpochContext) -> Change | None:
    """Return the signed change of a projection over an operator: rows of the touched keys go out as they were and come in."""
    node = top.input
    inputs = list_sides(node)
    changes = [delta(side, context) for side, _ in inputs]
    if all(change is None for change in changes):
        return None
    assert context.old is not None
    before = replace(context, new=context.old)
    width = len(inputs[0][1])
    if width == 0:
        old = compute_over(node, [batch(side, before) for side, _ in inputs], context)
        new = compute_over(node, [batch(side, context) for side, _ in inputs], context)
    else:
        drivers = [context.fresh("touched") for _ in range(width)]
        touched = _find_touched([by for _, by in inputs], changes, drivers, context)
        old = compute_over(node, _restrict_inputs(inputs, touched, drivers, context, "old"), context)
        new = compute_over(node, _restrict_inputs(inputs, touched, drivers, context, "new"), context)
    both = [append_columns(project(top, old), GOES), append_columns(project(top, new), COMES)]
    return sum_terms(both, 0, (), context)  # a key has one old and one new row at most


def _find_touched(
    keys: Sequence[tuple[str, ...]],
    changes: Sequence[Change | None],
    drivers: list[str],
    context: EpochContext,
) -> Rows:
    frames = [
        compute(change.rows, [(driver, Column(column)) for column, driver in zip(by, drivers, strict=True)])
        for by, change in zip(keys, changes, strict=True)
        if change is not None
    ]
    merged = context.union(frames)
    assert merged is not None
    return merged.distinct()


def _restrict_inputs(
    inputs: Sequence[tuple[Node, tuple[str, ...]]],
    touched: Rows,
    drivers: list[str],
    context: EpochContext,
    at: At,
) -> list[DataFrame]:
    """Return the rows of each input that have a touched key; null is a key like others."""
    found = []
    for side, by in inputs:
        pairs = tuple(zip(drivers, by, strict=True))
        joined, hit = expand(side, touched, Probe(pairs, at, null_safe=True), context)
        found.append(as_frame(select(keep(joined, Column(hit)), side.columns)))
    return found
