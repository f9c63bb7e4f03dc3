"""Which columns of tables each output column of a query is computed from: its values, not what filters, joins or groups them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.sql.expression.nodes import Expr
from engine.sql.plan import (
    AggCall,
    Aggregate,
    Join,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    UnionAll,
    Unnest,
    Values,
    list_children,
)

TableColumn = tuple[str, str]
_Sources = Mapping[str, tuple[TableColumn, ...]]


def trace_lineage(plan: Node, columns: Iterable[tuple[str, str]]) -> dict[str, tuple[TableColumn, ...]]:
    """Return by output column the (table, column as stored) that it comes from; `columns` are (output name, the plan's column).

    A call over rows without arguments, such as row_number, comes from what it partitions and orders by; count(*) from nothing.
    """
    found = _trace_node(plan)
    return {name: found.get(internal, ()) for name, internal in columns}


def _trace_node(node: Node) -> dict[str, tuple[TableColumn, ...]]:
    match node:
        case Scan():
            return {name: ((node.table, source),) for name, source in node.items}
        case Values():
            return {}
        case Project():
            below = _trace_node(node.input)
            return {name: _trace_expr(expr, below) for name, expr in node.items}
        case Unnest():
            below = _trace_node(node.input)
            return {**below, node.item: _trace_expr(node.array, below), node.ordinal: ()}
        case Aggregate():
            below = _trace_node(node.input)
            keys = {name: _trace_expr(expr, below) for name, expr in node.keys}
            return keys | {call.name: _trace_call(call, below) for call in node.calls}
        case UnionAll():
            branches = [(branch, _trace_node(branch)) for branch in node.inputs]
            return {
                name: _merge_columns(below.get(branch.columns[at], ()) for branch, below in branches)
                for at, name in enumerate(node.names)
            }
        case Over():
            return _trace_over(node)
        case Join():
            return _trace_node(node.left) | _trace_node(node.right)
        case Recompute():
            return {}
        case _:
            return _trace_node(list_children(node)[0])


def _trace_over(node: Over) -> dict[str, tuple[TableColumn, ...]]:
    found = _trace_node(node.input)
    below = dict(found)
    for call in node.calls:
        named = call.call.columns or (*node.partition, *(key.column for key in call.order))
        found[call.name] = _merge_columns(below.get(name, ()) for name in named)
    return found


def _trace_call(call: AggCall, below: _Sources) -> tuple[TableColumn, ...]:
    parts = call.arguments if call.whole is None else (call.whole,)
    return _merge_columns(_trace_expr(part, below) for part in parts)


def _trace_expr(expr: Expr, below: _Sources) -> tuple[TableColumn, ...]:
    return _merge_columns(below.get(name, ()) for name in expr.columns)


def _merge_columns(parts: Iterable[tuple[TableColumn, ...]]) -> tuple[TableColumn, ...]:
    return tuple(dict.fromkeys(column for part in parts for column in part))
