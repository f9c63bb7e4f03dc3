"""Where now() may stand in a bound plan: in filters, as a bound of their rows."""

from __future__ import annotations

from engine.errors import UnsupportedSql
from engine.sql.expression.clock import match_moment_bound, reads_clock, split_predicate
from engine.sql.plan import Filter, Join, Node, list_nodes
from engine.sql.rewrites.binding.free_columns import list_node_expressions

_HINT = "write now() in a condition of its own in WHERE or HAVING: ts > now() - INTERVAL '1' HOUR"


def check_clock(plan: Node, sql: str) -> None:
    """Raise UnsupportedSql, with the place, if now() stands where no filter can take it as a bound."""
    for node in list_nodes(plan):
        for expr in list_node_expressions(node):
            is_filter = isinstance(node, Filter)
            for part in split_predicate(expr) if is_filter else (expr,):
                if reads_clock(part) and not (is_filter and match_moment_bound(part) is not None):
                    where = f"the condition of a {node.kind} join" if isinstance(node, Join) else "this place"
                    line, column = part.position
                    message = f"now() in {where} is not supported in a maintained view"
                    raise UnsupportedSql(message, sql=sql, line=line, column=column, hint=_HINT)
