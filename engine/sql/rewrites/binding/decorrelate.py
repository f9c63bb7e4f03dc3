"""A correlated plan becomes one that a join can connect: by moving its conditions up, or over the domain of outer values.

Applies to a subquery that reads columns of the query around it, while that is bound: the join with the plan so far gives the
columns that what is bound next reads.
"""

from __future__ import annotations

from engine.sql.plan import Node
from engine.sql.rewrites.binding.compute_over_domain import compute_over_domain
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.free_columns import find_free_columns
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.binding.pull_up_conditions import Pulled, pull_up_conditions
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT a.id FROM auction a WHERE EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id AND b.price > a.category)",
    plan="""
Project [out:id = `a:id`] key (out:id) retracting
  SemiJoin on a:id = b:auction and `b:price` > `a:category` key (a:id) retracting
    Scan auction [id, category] key (a:id) retracting
    Project [`b:id`, `b:auction`, `b:price`] key (b:id) retracting
      Scan bid [id, auction, price] key (b:id) retracting
""",
)


def decorrelate(plan: Node, inner: Node, equalities: Equalities, keys: JoinKeys, *, residual: bool) -> Pulled:
    """Return `inner` without columns of `plan`; other conditions than equalities stay only if `residual` allows it."""
    columns = tuple(column for column in find_free_columns(inner) if column in plan.columns)
    if not columns:
        return Pulled(inner)
    listed = ", ".join(columns)
    pulled = pull_up_conditions(inner, set(columns), equalities, keys)
    if pulled is not None and (residual or not pulled.residual):
        keys.add_note(f"subquery over {listed}: its conditions moved up and became those of a join")
        return pulled
    keys.add_note(f"subquery over {listed}: computed for every distinct value, its conditions cannot move up")
    return compute_over_domain(plan, inner, columns, equalities, keys)
