"""A filter on row_number, whose number nobody reads, becomes the first rows of each partition.

Applies to comparisons with constants: only rows that come in or go out are written then, not those whose number changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from engine.sql.expression.nodes import And, Between, Call, Column, Comparison, Expr, Literal
from engine.sql.plan import Filter, Node, Over, Project, TopN, list_children
from engine.sql.rewrites.binding.free_columns import with_inputs
from engine.sql.rewrites.contract import PlanExample

EXAMPLE = PlanExample(
    sql="SELECT q.id FROM (SELECT id, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS n FROM bid) q WHERE n <= 2",
    before="""
Project [out:id#2 = `out:id`] key (out:id#2) retracting
  Project [out:id = `bid:id`] key (out:id) retracting
    Filter `window:rownumber` <= 2 key (bid:id) retracting
      Over [window:rownumber = row_number() by [bid:price desc nulls last]] of each [bid:auction] key (bid:id) retracting
        Scan bid [id, auction, price] key (bid:id) retracting
""",
    after="""
Project [out:id#2 = `out:id`] key (out:id#2) retracting
  Project [out:id = `bid:id`] key (out:id) retracting
    TopN 2 of each [bid:auction] by [bid:price desc nulls last] then the key key (bid:id) retracting
      Scan bid [id, auction, price] key (bid:id) retracting
""",
)
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def convert_to_top_n(plan: Node, needed: Set[str]) -> Node:
    """Return the plan with first rows in the place of filters on numbers that no projection above hands on."""
    plan = with_inputs(plan, [convert_to_top_n(child, needed) for child in list_children(plan)])
    if not isinstance(plan, Project) or not isinstance(plan.input, Filter):
        return plan
    found = _build_top_n(plan.input, {column for _, expr in plan.items for column in expr.columns})
    return plan if found is None else Project(found, plan.items)


def _build_top_n(filtered: Filter, read: Set[str]) -> Node | None:
    node = filtered.input
    if not isinstance(node, Over) or len(node.calls) != 1 or node.calls[0].call != Call("row_number"):
        return None
    number = node.calls[0].name
    first, last = 1, None
    for part in filtered.predicate.parts if isinstance(filtered.predicate, And) else (filtered.predicate,):
        bounds = list(_list_bounds(part, number))
        if not bounds:
            return None
        for operator, value in bounds:
            if operator in (">", ">=", "="):
                first = max(first, value + (operator == ">"))
            if operator in ("<", "<=", "="):
                upto = value - (operator == "<")
                last = upto if last is None else min(last, upto)
    if number in read:
        return None
    limit = None if last is None else max(last - first + 1, 0)
    return TopN(node.input, node.partition, node.calls[0].order, limit, first - 1)


def _list_bounds(part: Expr, number: str) -> Iterator[tuple[str, int]]:
    """Yield (operator, constant) of each comparison of the number that a condition is; nothing for another condition."""
    if isinstance(part, Between) and part.value.column == number:
        low, high = _read_int(part.low), _read_int(part.high)
        if low is not None and high is not None:
            yield from ((">=", low), ("<=", high))
    elif isinstance(part, Comparison) and part.operator in _TURNED:
        for one, other, operator in (
            (part.left, part.right, part.operator),
            (part.right, part.left, _TURNED[part.operator]),
        ):
            value = _read_int(other)
            if isinstance(one, Column) and one.name == number and value is not None:
                yield operator, value


def _read_int(expr: Expr) -> int | None:
    plain = isinstance(expr, Literal) and expr.kind in ("number", "bigint") and expr.text.isdigit()
    return int(expr.text) if plain and isinstance(expr, Literal) else None
