"""Free columns of a plan: those of an outer query, which no node below provides; a plan that has some is correlated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from engine.sql.expression.nodes import Expr
from engine.sql.expression.substitute import substitute
from engine.sql.plan import (
    AggCall,
    Aggregate,
    Filter,
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


def list_call_expressions(call: AggCall) -> tuple[Expr, ...]:
    """Return every expression that an aggregate call reads."""
    extra = tuple(expr for expr in (call.where, call.whole) if expr is not None)
    return call.arguments + extra


def list_node_expressions(node: Node) -> tuple[Expr, ...]:
    """Return the expressions of a node itself, not those of its inputs."""
    match node:
        case Filter():
            return (node.predicate,)
        case Project():
            return tuple(expr for _, expr in node.items)
        case Aggregate():
            keys = tuple(expr for _, expr in node.keys)
            return keys + tuple(expr for call in node.calls for expr in list_call_expressions(call))
        case Join():
            return (node.residual,) if node.residual is not None else ()
        case Over():
            return tuple(call.call for call in node.calls)
        case Unnest():
            return (node.array,)
        case Values():
            return tuple(expr for row in node.rows for expr in row)
    return ()


def find_free_columns(node: Node) -> tuple[str, ...]:
    """Return the columns that a plan reads and that nothing in it provides, each once."""
    provided = {column for child in list_children(node) for column in child.columns}
    found = dict.fromkeys(
        column for expr in list_node_expressions(node) for column in expr.columns if column not in provided
    )
    for child in list_children(node):
        found |= dict.fromkeys(find_free_columns(child))
    return tuple(found)


def replace_free_columns(node: Node, by: Mapping[str, Expr]) -> Node:
    """Return the plan with free columns replaced in every expression."""

    def replace_columns(expr: Expr) -> Expr:
        return substitute(expr, by) if any(column in by for column in expr.columns) else expr

    return _map_tree(node, replace_columns)


def _map_tree(node: Node, change: Callable[[Expr], Expr]) -> Node:
    below = with_inputs(node, [_map_tree(child, change) for child in list_children(node)])
    return map_expressions(below, change)


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """Return a node over other inputs with the same columns."""
    match node:
        case Scan() | Values():
            return node
        case Join():
            return msgspec.structs.replace(node, left=inputs[0], right=inputs[1])
        case UnionAll() | Recompute():
            return msgspec.structs.replace(node, inputs=tuple(inputs))
    return msgspec.structs.replace(node, input=inputs[0])


def map_expressions(node: Node, change: Callable[[Expr], Expr]) -> Node:
    """Return a node with each of its own expressions changed, not those of its inputs."""
    match node:
        case Filter():
            return msgspec.structs.replace(node, predicate=change(node.predicate))
        case Project():
            return msgspec.structs.replace(
                node, items=tuple((name, change(expr)) for name, expr in node.items)
            )
        case Aggregate():
            keys = tuple((name, change(expr)) for name, expr in node.keys)
            return msgspec.structs.replace(
                node, keys=keys, calls=tuple(map_call(call, change) for call in node.calls)
            )
        case Join() if node.residual is not None:
            return msgspec.structs.replace(node, residual=change(node.residual))
        case Over():
            calls = tuple(msgspec.structs.replace(call, call=change(call.call)) for call in node.calls)
            return msgspec.structs.replace(node, calls=calls)
        case Unnest():
            return msgspec.structs.replace(node, array=change(node.array))
        case Values():
            rows = tuple(tuple(change(expr) for expr in row) for row in node.rows)
            return msgspec.structs.replace(node, rows=rows)
    return node


def map_call(call: AggCall, change: Callable[[Expr], Expr]) -> AggCall:
    """Return an aggregate call with each of its expressions changed."""
    return msgspec.structs.replace(
        call,
        arguments=tuple(change(argument) for argument in call.arguments),
        where=change(call.where) if call.where is not None else None,
        whole=change(call.whole) if call.whole is not None else None,
    )
