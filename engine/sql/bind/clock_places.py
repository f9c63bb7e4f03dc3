"""Where now() may stand in a bound plan: in filters, as a bound of their rows."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import UnsupportedSql
from engine.sql.expression.clock import bound_of, parts_of, reads_clock
from engine.sql.plan import Filter, Join, Node, children
from engine.sql.rewrites.free import node_expressions

_HINT = "write now() in a condition of its own in WHERE or HAVING: ts > now() - INTERVAL '1' HOUR"


def check_clock(plan: Node, sql: str) -> None:
    """Raise UnsupportedSql, with the place, if now() stands where no filter can take it as a bound."""
    for node in _nodes(plan):
        for expr in node_expressions(node):
            is_filter = isinstance(node, Filter)
            for part in parts_of(expr) if is_filter else (expr,):
                if reads_clock(part) and not (is_filter and bound_of(part) is not None):
                    where = f"the condition of a {node.kind} join" if isinstance(node, Join) else "this place"
                    line, column = part.position
                    message = f"now() in {where} is not supported in a maintained view"
                    raise UnsupportedSql(message, sql=sql, line=line, column=column, hint=_HINT)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _nodes(child)
