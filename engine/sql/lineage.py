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
    children,
)

TableColumn = tuple[str, str]
_Sources = Mapping[str, tuple[TableColumn, ...]]


def lineage(plan: Node, columns: Iterable[tuple[str, str]]) -> dict[str, tuple[TableColumn, ...]]:
    """Return by output column the (table, column as stored) that it comes from; `columns` are (output name, the plan's column).

    A call over rows without arguments, such as row_number, comes from what it partitions and orders by; count(*) from nothing.
    """
    found = _sources(plan)
    return {name: found.get(internal, ()) for name, internal in columns}


def _sources(node: Node) -> dict[str, tuple[TableColumn, ...]]:
    match node:
        case Scan():
            return {name: ((node.table, source),) for name, source in node.items}
        case Values():
            return {}
        case Project():
            below = _sources(node.input)
            return {name: _of(expr, below) for name, expr in node.items}
        case Unnest():
            below = _sources(node.input)
            return {**below, node.item: _of(node.array, below), node.ordinal: ()}
        case Aggregate():
            below = _sources(node.input)
            keys = {name: _of(expr, below) for name, expr in node.keys}
            return keys | {call.name: _of_call(call, below) for call in node.calls}
        case UnionAll():
            branches = [(branch, _sources(branch)) for branch in node.inputs]
            return {
                name: _joined(below.get(branch.columns[at], ()) for branch, below in branches)
                for at, name in enumerate(node.names)
            }
        case Over():
            return _over(node)
        case Join():
            return _sources(node.left) | _sources(node.right)
        case Recompute():
            return {}
        case _:
            return _sources(children(node)[0])


def _over(node: Over) -> dict[str, tuple[TableColumn, ...]]:
    found = _sources(node.input)
    below = dict(found)
    for call in node.calls:
        named = call.call.columns or (*node.partition, *(key.column for key in call.order))
        found[call.name] = _joined(below.get(name, ()) for name in named)
    return found


def _of_call(call: AggCall, below: _Sources) -> tuple[TableColumn, ...]:
    parts = call.arguments if call.whole is None else (call.whole,)
    return _joined(_of(part, below) for part in parts)


def _of(expr: Expr, below: _Sources) -> tuple[TableColumn, ...]:
    return _joined(below.get(name, ()) for name in expr.columns)


def _joined(parts: Iterable[tuple[TableColumn, ...]]) -> tuple[TableColumn, ...]:
    return tuple(dict.fromkeys(column for part in parts for column in part))
