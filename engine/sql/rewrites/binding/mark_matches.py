"""Whether a row has a match becomes a column: a left join with the distinct keys of the other side.

Applies to EXISTS and IN inside of an expression, while that is bound: the expression reads the column that is filled here.
"""

from __future__ import annotations

from engine.sql.expression.nodes import FALSE, TRUE, Column, Expr
from engine.sql.expression.template import as_columns, build_not_null, call
from engine.sql.plan import AggCall, Aggregate, Join, Node, Project
from engine.sql.rewrites.binding.join_keys import JoinKeys, Pair
from engine.sql.rewrites.binding.pull_up_conditions import Pulled
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT id, EXISTS (SELECT 1 FROM bid b WHERE b.auction = a.id) AS sold FROM auction a",
    plan="""
Project [out:id = `a:id`, out:sold = `mark` IS NOT NULL] key (out:id) retracting
  LeftJoin on a:id = group:outer key (a:id) retracting
    Scan auction [id] key (a:id) retracting
    Project [`group:outer`, mark = TRUE] key (group:outer) retracting
      Aggregate by [group:outer = `b:auction`] calls [] key (group:outer) retracting
        Project [`b:id`, `b:auction`] key (b:id) retracting
          Scan bid [id, auction] key (b:id) retracting
""",
)


def mark_matches(plan: Node, other: Pulled, keys: JoinKeys) -> tuple[Node, Expr]:
    """Return the plan with a column added, and the condition over it that a row of `other` matches."""
    marker = keys.fresh("mark")
    keys.add_note(
        "a subquery's truth inside an expression: a column that a left join with its distinct keys fills"
    )
    if not other.pairs:
        found = Aggregate(other.node, (), (AggCall(marker, "bool_or", (TRUE,)),))
        return Join(plan, found, "inner", ()), call("coalesce", Column(marker), FALSE)
    distinct, pairs = build_distinct_keys(other, keys)
    marked = Project(distinct, (*as_columns(distinct.columns), (marker, TRUE)))
    joined = keys.join(plan, marked, "left", pairs, null_safe=other.null_safe)
    return joined, build_not_null(Column(marker))


def build_distinct_keys(other: Pulled, keys: JoinKeys) -> tuple[Aggregate, tuple[Pair, ...]]:
    """Return the distinct inner sides of the pairs, and the pairs over them; without pairs one row if there is any."""
    if not other.pairs:
        return Aggregate(other.node, ((keys.fresh("any"), TRUE),), ()), ()
    names, pairs = keys.group_by(other.pairs)
    return Aggregate(other.node, names, ()), pairs
