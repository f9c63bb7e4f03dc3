"""A left join whose unmatched rows a filter drops anyway is an inner one, and the filter moves on to its side.

Applies to a filter right above a left join, one of whose conditions is not true where the right side is null. Below a UNION ALL,
whose key counts the keys of its branches, only where the join's key stays the same.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from engine.sql.expression.nodes import And, Expr
from engine.sql.expression.null_rejection import find_strict_columns
from engine.sql.plan import Filter, Join, Node, UnionAll, list_children
from engine.sql.rewrites.binding.free_columns import with_inputs
from engine.sql.rewrites.contract import PlanExample
from engine.sql.rewrites.plans.push_filters import push_filter

EXAMPLE = PlanExample(
    sql="SELECT a.item, b.price FROM auction a LEFT JOIN bid b ON b.auction = a.id WHERE b.price > 10",
    before="""
Project [out:item = `a:item`, out:price = `b:price`, `a:id`, `b:id`] key (a:id, b:id) retracting
  Filter `b:price` > 10 key (a:id, b:id) retracting
    LeftJoin on a:id = b:auction key (a:id, b:id) retracting
      Scan auction [id, item, category] key (a:id) retracting
      Scan bid [id, auction, price, note] key (b:id) retracting
""",
    after="""
Project [out:item = `a:item`, out:price = `b:price`, `a:id`, `b:id`] key (b:id) retracting
  InnerJoin on a:id = b:auction key (b:id) retracting
    Scan auction [id, item, category] key (a:id) retracting
    Filter `b:price` > 10 key (b:id) retracting
      Scan bid [id, auction, price, note] key (b:id) retracting
""",
)


def convert_outer_to_inner(plan: Node, needed: Set[str]) -> Node:
    """Return the plan with inner joins in the place of left ones whose unmatched rows are not wanted."""
    return _convert_join(plan, keyed=False)


def _convert_join(node: Node, keyed: bool) -> Node:
    if (
        isinstance(node, Filter)
        and isinstance(node.input, Join)
        and _drops_unmatched(node.predicate, node.input)
    ):
        inner = msgspec.structs.replace(node.input, kind="inner")
        if not keyed or inner.key == node.input.key:
            node = push_filter(inner, node.predicate)
    keyed = keyed or isinstance(node, UnionAll)
    return with_inputs(node, [_convert_join(child, keyed) for child in list_children(node)])


def _drops_unmatched(predicate: Expr, join: Join) -> bool:
    parts = predicate.parts if isinstance(predicate, And) else (predicate,)
    columns = {column for part in parts for column in find_strict_columns(part)}
    return join.kind == "left" and bool(columns & set(join.right.columns))
