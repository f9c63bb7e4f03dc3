"""The keys of an aggregate as those of a table: one row has a key of its own, computed keys become columns."""

from __future__ import annotations

from collections.abc import Mapping

from engine.sql.expression.nodes import Column, Expr, Literal
from engine.sql.expression.template import as_columns
from engine.sql.incremental.states.partials import GLOBAL_KEY
from engine.sql.plan import AggCall, Aggregate, Node, Project


def add_global_key(node: Aggregate) -> Aggregate:
    """Return the aggregate with a constant as its key where it has no GROUP BY."""
    if node.keys:
        return node
    return Aggregate(node.input, ((GLOBAL_KEY, Literal("0")),), node.calls)


def is_global(node: Aggregate) -> bool:
    """Tell whether the aggregate has no GROUP BY: one row, even on empty input."""
    return tuple(name for name, _ in node.keys) == (GLOBAL_KEY,)


def rename_global_key(table: str, columns: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what a scan of a state reads: two of one partition or group may meet in a plan, so that column has its own name."""
    return tuple((f"{old}:{table}" if old == GLOBAL_KEY else old, new) for old, new in columns.items())


def project_keys(node: Aggregate, source: Node) -> tuple[Aggregate, Node]:
    """Return the aggregate with bare columns as keys, computed by a projection below where they are not."""
    if is_global(node):
        return node, source
    if all(expr.column is not None for _, expr in node.keys):
        return node, source
    computed = tuple((f"_group_{name}", expr) for name, expr in node.keys if expr.column is None)
    used = dict.fromkeys(column for expr in _list_expressions(node) for column in expr.columns)
    below = Project(source, as_columns(used) + computed)
    names = {name for name, _ in computed}
    keys = tuple(
        (name, Column(f"_group_{name}") if f"_group_{name}" in names and expr.column is None else expr)
        for name, expr in node.keys
    )
    return Aggregate(below, keys, node.calls), below


def _list_expressions(node: Aggregate) -> tuple[Expr, ...]:
    def list_call_expressions(call: AggCall) -> tuple[Expr, ...]:
        return call.arguments + tuple(expr for expr in (call.where, call.whole) if expr is not None)

    return tuple(expr for _, expr in node.keys) + tuple(
        e for call in node.calls for e in list_call_expressions(call)
    )
