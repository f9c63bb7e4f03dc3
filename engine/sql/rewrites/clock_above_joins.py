"""What an inner join asks of the moment becomes a filter above it.

Applies to conditions that compare now() with columns of both sides; those of one side have moved to their side before.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from engine.sql.expression.clock import parts_of, reads_clock
from engine.sql.expression.template import conjunction
from engine.sql.plan import Filter, Join, Node, children
from engine.sql.rewrites.contract import PlanExample
from engine.sql.rewrites.free import with_inputs

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


def clock_above_joins(node: Node, needed: Set[str]) -> Node:
    """Return the plan with what inner joins ask of the moment in filters above them."""
    found = with_inputs(node, [clock_above_joins(child, needed) for child in children(node)])
    if not isinstance(found, Join) or found.residual is None or not reads_clock(found.residual):
        return found
    if found.kind != "inner":
        return found
    parts = parts_of(found.residual)
    rest = conjunction([part for part in parts if not reads_clock(part)])
    predicate = conjunction([part for part in parts if reads_clock(part)])
    assert predicate is not None
    return Filter(msgspec.structs.replace(found, residual=rest), predicate)
