"""Columns that nobody reads are dropped, down to the scans.

Applies everywhere; a node's key stays, since it says which row a change is of.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from engine.sql.expression.template import as_columns
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
    Values,
)
from engine.sql.rewrites.binding.free_columns import list_call_expressions
from engine.sql.rewrites.contract import PlanExample

EXAMPLE = PlanExample(
    sql="SELECT q.note FROM (SELECT id, upper(note) AS note, price * 2 AS p FROM bid) q",
    before="""
Project [out:note#2 = `out:note`, `out:id`] key (out:id) retracting
  Project [out:id = `bid:id`, out:note = upper(`bid:note`), out:p = `bid:price` * 2] key (out:id) retracting
    Scan bid [id, auction, price, note] key (bid:id) retracting
""",
    after="""
Project [out:note#2 = `out:note`, `out:id`] key (out:id) retracting
  Project [out:id = `bid:id`, out:note = upper(`bid:note`)] key (out:id) retracting
    Scan bid [id, note] key (bid:id) retracting
""",
)


def prune_columns(node: Node, needed: Set[str]) -> Node:
    """Return the node without the columns that neither `needed` nor the plan itself reads."""
    match node:
        case Scan():
            keep = needed | set(node.key)
            return msgspec.structs.replace(node, items=tuple(item for item in node.items if item[0] in keep))
        case Filter():
            return Filter(prune_columns(node.input, needed | set(node.predicate.columns)), node.predicate)
        case Project():
            key = set(node.key)
            items = tuple((name, expr) for name, expr in node.items if name in needed or name in key)
            used = {column for _, expr in items for column in expr.columns}
            return Project(prune_columns(node.input, used), items)
        case Aggregate():
            calls = tuple(call for call in node.calls if call.name in needed)
            if not node.keys:  # without keys and calls the one row would be gone
                calls = calls or node.calls[:1]
            used = {column for _, expr in node.keys for column in expr.columns}
            used |= {
                column for call in calls for expr in list_call_expressions(call) for column in expr.columns
            }
            return Aggregate(prune_columns(node.input, used), node.keys, calls)
        case Join():
            used = {*needed} | {column for pair in node.on for column in pair}
            used |= set(node.residual.columns) if node.residual else set()
            used |= {node.nearest.left, node.nearest.right} if node.nearest else set()
            return msgspec.structs.replace(
                node, left=prune_columns(node.left, used), right=prune_columns(node.right, used)
            )
        case Unnest():
            return msgspec.structs.replace(
                node, input=prune_columns(node.input, needed | set(node.array.columns))
            )
        case TopN():
            used = {*needed} | set(node.partition) | {key.column for key in node.order}
            return msgspec.structs.replace(node, input=prune_columns(node.input, used))
        case Over():
            return _prune_over(node, needed)
        case Values():
            positions = [n for n, name in enumerate(node.names) if name in needed]
            rows = tuple(tuple(row[n] for n in positions) for row in node.rows)
            return Values(tuple(node.names[n] for n in positions), rows, node.ordinal)
        case UnionAll():
            positions = [n for n, name in enumerate(node.names) if name in needed]
            return UnionAll(
                tuple(
                    _prune_branch(child, tuple(child.columns[n] for n in positions)) for child in node.inputs
                ),
                tuple(node.names[n] for n in positions),
            )
        case TemporalFilter() | DynamicFilter() | Recompute():
            raise AssertionError("what is lowered, and what is computed as a whole, is not rewritten")


def _prune_over(node: Over, needed: Set[str]) -> Node:
    calls = tuple(call for call in node.calls if call.name in needed)
    used = {*needed, *(column for call in calls for column in call.call.columns)}
    used |= {key.column for call in calls for key in call.order}
    if not calls:
        return prune_columns(node.input, used)
    return Over(prune_columns(node.input, used | set(node.partition)), node.partition, calls)


def _prune_branch(node: Node, columns: tuple[str, ...]) -> Node:
    """Return a branch of a union whose first columns are `columns`."""
    pruned = prune_columns(node, set(columns))
    if pruned.columns[: len(columns)] == columns:
        return pruned
    return Project(pruned, as_columns(columns))
