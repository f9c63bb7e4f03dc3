"""Operators of a plan in words, for those who ask why a row is there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from engine.sql.column_names import RESERVED
from engine.sql.expression.nodes import Expr
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.incremental.watermarks.window_close import CLOSE_AT
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Recompute,
    Scan,
    TopN,
    UnionAll,
    Unnest,
)
from engine.sql.window_calls import SortKey

_QUOTED = re.compile(r"`([\w:#]+)`")
_COLUMN = re.compile(r"\b([a-z_]\w*):(\w+)(?:#\d+)?")
_SUBQUERY = "out"
"""What the columns of a query are named after that is read by another."""
_JOINS = {
    "inner": "join",
    "left": "left join",
    "semi": "semi join (EXISTS, IN)",
    "anti": "anti join (NOT EXISTS, NOT IN)",
}


def describe_operator(node: Node) -> tuple[str, str]:
    """Return the name and the condition of an operator that passes rows on, "" for one that decides nothing."""
    name, text = _describe_operator(node)
    return name, show_columns(text)


def describe_part(node: Node) -> tuple[str, str]:
    """Return the name and the key, order or query of an operator that makes rows of others."""
    name, text = _describe_part(node)
    return name, text if isinstance(node, Recompute) else show_columns(text)


def describe_node(node: Node) -> tuple[str, str]:
    """Return the name of any operator, and what it goes by."""
    name, text = describe_operator(node)
    return (name, text) if name else describe_part(node)


def name_computed(node: Node) -> dict[str, str]:
    """Return by column of a node what is computed in it: the calls of groups and windows, and the keys of groups."""
    found: dict[str, Expr] = {}
    match node:
        case Aggregate():
            found = dict(node.keys) | {call.name: call.expression for call in node.calls}
        case Over():
            found = {call.name: call.call for call in node.calls}
    return {name: show_columns(render_spark_sql(expr)) for name, expr in found.items()}


def name_compared(node: DynamicFilter) -> str:
    """Return the column that a filter compares with its bounds: of a window that closes the time that its number is of."""
    return node.at.removeprefix(f"{CLOSE_AT}:")


def show_columns(text: str, names: Mapping[str, str] | None = None) -> str:
    """Return an expression with the columns of a plan as people name them: t.a, and not `t:a#2`; of a subquery just a.

    `names` says what else some columns are called.
    """
    known = names or {}
    if text in known:
        return known[text]
    said = _QUOTED.sub(lambda found: known.get(found[1], found[1]), text).replace(RESERVED, "_")
    return _COLUMN.sub(lambda found: found[2] if found[1] == _SUBQUERY else f"{found[1]}.{found[2]}", said)


def _describe_operator(node: Node) -> tuple[str, str]:
    match node:
        case Filter():
            return "filter", render_spark_sql(node.predicate)
        case DynamicFilter():
            word = "window close" if node.closes else "filter"
            bounds = ", ".join(bound.scan.table for bound in node.bounds)
            return word, f"{name_compared(node)} {node.operator} {bounds}"
        case Unnest():
            return "unnest", render_spark_sql(node.array)
        case Join():
            equal = "<=>" if node.null_safe else "="
            tests = [f"{left} {equal} {right}" for left, right in node.on]
            tests += [render_spark_sql(node.residual)] if node.residual is not None else []
            tests += (
                [f"nearest {node.nearest.left} {node.nearest.operator} {node.nearest.right}"]
                if node.nearest is not None
                else []
            )
            kind = "as-of join" if node.nearest is not None else _JOINS[node.kind]
            return kind, " AND ".join(tests) or "every pair"
    return "", ""


def _describe_part(node: Node) -> tuple[str, str]:
    match node:
        case Scan():
            return "scan", node.table
        case Aggregate():
            keys = ", ".join(render_spark_sql(expr) for _, expr in node.keys)
            calls = ", ".join(render_spark_sql(call.expression) for call in node.calls)
            text = f"{calls} GROUP BY {keys}" if keys and calls else calls or keys
            return ("aggregate" if node.calls else "distinct"), text
        case Over():
            calls = ", ".join(f"{render_spark_sql(c.call)}{_describe_order(c.order)}" for c in node.calls)
            return "window", f"{calls}{_describe_partition(node.partition)}"
        case TopN():
            skipped = f" OFFSET {node.offset}" if node.offset else ""
            limit = f" LIMIT {node.limit}" if node.limit is not None else ""
            by = f"{_describe_order(node.order)}{limit}{skipped}{_describe_partition(node.partition)}"
            return "first rows", by.strip()
        case UnionAll():
            return "union all", f"{len(node.inputs)} branches"
        case Recompute():
            return "full refresh", f"all rows of all inputs: {node.text}"
    return "", ""


def _describe_order(order: tuple[SortKey, ...]) -> str:
    columns = ", ".join(f"{key.column}{' DESC' if key.descending else ''}" for key in order)
    return f" ORDER BY {columns}" if columns else ""


def _describe_partition(partition: tuple[str, ...]) -> str:
    return f" PARTITION BY {', '.join(partition)}" if partition else ""
