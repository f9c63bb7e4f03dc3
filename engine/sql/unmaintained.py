"""Plans that the operators have no rule for yet are refused before anything is written."""

from __future__ import annotations

from engine.errors import UnsupportedSql
from engine.sql.plan import Aggregate, Join, Node, TopN, Unnest, Values, children


def refuse_unmaintained(node: Node) -> None:
    """Raise UnsupportedSql if a node of the plan cannot be kept up to date."""
    what = None
    match node:
        case Join() if node.kind not in ("inner", "left"):
            what = f"a {node.kind} join (EXISTS, IN, FULL JOIN and the like)"
        case Join() if not node.on:
            what = "a join without an equality between its two sides"
        case Join() if node.null_safe:
            what = "a join in which null equals null"
        case Unnest():
            what = "UNNEST"
        case Values():
            what = "VALUES"
        case TopN():
            what = "LIMIT"
        case Aggregate():
            call = next((call for call in node.calls if call.text is not None), None)
            what = f"the aggregate {call.function}" if call is not None else None
    if what is not None:
        hint = "write it into a table, or join a subquery in FROM"
        raise UnsupportedSql(f"{what} is not maintained", hint=hint)
    for child in children(node):
        refuse_unmaintained(child)
