"""IN and NOT IN over a subquery, with the nulls of SQL: unknown is not true, and `NOT unknown` is not true either.

`x NOT IN (SELECT y …)` keeps a row if no y equals x, no y is null, and x is not null unless there is no y at all.

Applies to IN over a subquery, while its condition is bound: which joins it takes rests on what may be null in the plan so far.
"""

from __future__ import annotations

from engine.sql.expression.nodes import FALSE, NULL, TRUE, Case, Comparison, Expr, IsNull
from engine.sql.expression.template import build_not_null, call, combine_conditions, join_conditions
from engine.sql.plan import Filter, Join, JoinKind, Node
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.binding.mark_matches import build_distinct_keys, mark_matches
from engine.sql.rewrites.binding.pull_up_conditions import Pulled
from engine.sql.rewrites.contract import BindingExample
from engine.sql.typing.nullability import is_never_null

EXAMPLE = BindingExample(
    sql="SELECT id FROM bid WHERE auction NOT IN (SELECT id FROM auction WHERE category = 1)",
    plan="""
Project [out:id#2 = `bid:id`] key (out:id#2) retracting
  AntiJoin on every pair and `bid:auction` IS NULL key (bid:id) retracting
    AntiJoin on bid:auction = out:id key (bid:id) retracting
      Scan bid [id, auction] key (bid:id) retracting
      Project [out:id = `auction:id`] key (out:id) retracting
        Filter `auction:category` = 1 key (auction:id) retracting
          Scan auction [id, category] key (auction:id) retracting
    Aggregate by [any = TRUE] calls [] key (any) retracting
      Project [out:id = `auction:id`] key (out:id) retracting
        Filter `auction:category` = 1 key (auction:id) retracting
          Scan auction [id, category] key (auction:id) retracting
""",
)


class Membership:
    """Joins a plan with the rows of a subquery whose column `inner` the value `x` may be in."""

    def __init__(self, keys: JoinKeys, known: set[str]) -> None:
        self.keys, self.known = keys, known

    def filter_in(self, plan: Node, other: Pulled, members: tuple[tuple[Expr, Expr], ...]) -> Node:
        """Return the rows of `plan` whose values are in the subquery."""
        self.keys.add_note("IN: a semi join, an unknown comparison is not true")
        pairs = (*members, *other.pairs)
        node = self._filter_present(other, members)
        return self.keys.join(plan, node, "semi", pairs, other.residual, other.null_safe)

    def filter_rows_not_in(self, plan: Node, other: Pulled, members: tuple[tuple[Expr, Expr], ...]) -> Node:
        """Return the rows of `plan` for which no row of the subquery is, or might be, equal in all columns."""
        equal = join_conditions([Comparison("=", x, y) for x, y in members])
        assert equal is not None
        might = call("coalesce", equal, TRUE)
        return self.keys.join(
            plan, other.node, "anti", other.pairs, (*other.residual, might), other.null_safe
        )

    def filter_not_in(self, plan: Node, other: Pulled, x: Expr, y: Expr) -> Node:
        """Return the rows of `plan` for which `x NOT IN y` is true."""
        nulls = self._may_be_null(other.node, y) or self._may_be_null(plan, x)
        why = "with anti joins for its nulls" if nulls else "neither side is ever null"
        self.keys.add_note(f"NOT IN: an anti join, {why}")
        node = self._filter_present(other, ((x, y),))
        pairs = ((x, y), *other.pairs)
        remaining: Node = self.keys.join(plan, node, "anti", pairs, other.residual, other.null_safe)
        if self._may_be_null(other.node, y):
            of_null = Pulled(Filter(other.node, IsNull(y)), other.pairs, null_safe=other.null_safe)
            remaining = self._subtract(remaining, of_null, other.residual, ())
        if self._may_be_null(plan, x):
            rows = Pulled(other.node, other.pairs, null_safe=other.null_safe)
            remaining = self._subtract(remaining, rows, other.residual, (IsNull(x),))
        return remaining

    def _subtract(
        self, plan: Node, other: Pulled, residual: tuple[Expr, ...], more: tuple[Expr, ...]
    ) -> Node:
        if residual:  # the condition reads columns that distinct keys would lose
            return self.keys.join(plan, other.node, "anti", other.pairs, (*residual, *more), other.null_safe)
        keys, pairs = build_distinct_keys(other, self.keys)
        return self.keys.join(plan, keys, "anti", pairs, more, other.null_safe)

    def mark_in(self, plan: Node, other: Pulled, x: Expr, y: Expr) -> tuple[Node, Expr]:
        """Return the plan with what `x IN y` needs, and its three-valued value."""
        matching = Pulled(
            self._filter_present(other, ((x, y),)), ((x, y), *other.pairs), null_safe=other.null_safe
        )
        plan, found = mark_matches(plan, matching, self.keys)
        branches: list[tuple[Expr, Expr]] = [(found, TRUE)]
        if self._may_be_null(other.node, y):
            of_null = Pulled(Filter(other.node, IsNull(y)), other.pairs, null_safe=other.null_safe)
            plan, unknown = mark_matches(plan, of_null, self.keys)
            branches.append((unknown, NULL))
        if self._may_be_null(plan, x):
            rows = Pulled(other.node, other.pairs, null_safe=other.null_safe)
            plan, some = mark_matches(plan, rows, self.keys)
            branches.append((combine_conditions(IsNull(x), some), NULL))
        return plan, Case(tuple(branches), FALSE)

    @staticmethod
    def _filter_present(other: Pulled, members: tuple[tuple[Expr, Expr], ...]) -> Node:
        """Where the join is null-safe for the sake of the domain, no null may be left among the members."""
        node = other.node
        for _, y in members if other.null_safe else ():
            node = Filter(node, build_not_null(y))
        return node

    def _may_be_null(self, node: Node, expr: Expr) -> bool:
        return expr.column is None or not is_never_null(node, expr.column, self.known)


def filter_exists(plan: Node, other: Pulled, keys: JoinKeys, positive: bool) -> Join:
    """Return the rows of `plan` that have a row of `other`, or those that have none."""
    kind: JoinKind = "semi" if positive else "anti"
    keys.add_note(f"{'EXISTS' if positive else 'NOT EXISTS'}: a{' semi' if positive else 'n anti'} join")
    return keys.join(plan, other.node, kind, other.pairs, other.residual, other.null_safe)
