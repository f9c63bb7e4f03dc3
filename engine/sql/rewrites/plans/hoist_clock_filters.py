"""What an inner join asks of the moment becomes a filter above it.

Applies to conditions that compare now() with columns of both sides; those of one side have moved to their side before.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from engine.sql.expression.clock import reads_clock, split_predicate
from engine.sql.expression.template import join_conditions
from engine.sql.plan import Filter, Join, Node, list_children
from engine.sql.rewrites.binding.free_columns import with_inputs
from engine.sql.rewrites.contract import PlanExample

EXAMPLE = PlanExample(
    sql="SELECT b.id FROM bid b JOIN auction a ON a.id = b.auction AND now() < timestamp_seconds(b.price + a.category)",
    before="""
Project [out:id = `b:id`] key (out:id) retracting
  InnerJoin on b:auction = a:id and unix_micros(now()) < unix_micros(CAST(timestamp_seconds(`b:price` + `a:category`) AS TIMESTAMP)) key (b:id) retracting
    Scan bid [id, auction, price] key (b:id) retracting
    Scan auction [id, category] key (a:id) retracting
""",  # noqa: E501
    after="""
Project [out:id = `b:id`] key (out:id) retracting
  Filter unix_micros(now()) < unix_micros(CAST(timestamp_seconds(`b:price` + `a:category`) AS TIMESTAMP)) key (b:id) retracting
    InnerJoin on b:auction = a:id key (b:id) retracting
      Scan bid [id, auction, price] key (b:id) retracting
      Scan auction [id, category] key (a:id) retracting
""",
)


def hoist_clock_filters(node: Node, needed: Set[str]) -> Node:
    """Return the plan with what inner joins ask of the moment in filters above them."""
    found = with_inputs(node, [hoist_clock_filters(child, needed) for child in list_children(node)])
    if not isinstance(found, Join) or found.residual is None or not reads_clock(found.residual):
        return found
    if found.kind != "inner":
        return found
    parts = split_predicate(found.residual)
    rest = join_conditions([part for part in parts if not reads_clock(part)])
    predicate = join_conditions([part for part in parts if reads_clock(part)])
    assert predicate is not None
    return Filter(msgspec.structs.replace(found, residual=rest), predicate)
