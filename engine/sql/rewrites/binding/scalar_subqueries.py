"""A subquery that stands for one value becomes a left join with at most one row for each outer row.

`(SELECT count(*) FROM t WHERE t.k = o.k)` -> coalesce(n, 0) of the groups of t by k, joined on k = o.k

Applies to a subquery inside of an expression, while that is bound: the expression reads the column that is added here.
"""

from __future__ import annotations

from engine.sql.expression.nodes import NULL, Column, Expr, Literal
from engine.sql.expression.substitute import substitute, substitute_small
from engine.sql.expression.template import as_columns, call, fill_template, join_conditions
from engine.sql.plan import AggCall, Aggregate, Filter, Join, Node, Project
from engine.sql.rewrites.binding.compute_over_domain import coalesce_count
from engine.sql.rewrites.binding.decorrelate import decorrelate
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.free_columns import find_free_columns, list_call_expressions
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.binding.pull_up_conditions import Pulled, pull_up_conditions
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT a.id, (SELECT count(*) FROM bid b WHERE b.auction = a.id) AS n FROM auction a",
    plan="""
Project [out:id = `a:id`, out:n = coalesce(`agg:count`, 0L)] key (out:id) retracting
  LeftJoin on a:id = group:outer key (a:id) retracting
    Scan auction [id] key (a:id) retracting
    Aggregate by [group:outer = `b:auction`] calls [count(*)] key (group:outer) retracting
      Scan bid [id, auction] key (b:id) retracting
""",
)

MORE_THAN_ONE = "more than one row returned by a subquery used as an expression"


class ScalarSubqueries:
    """Attaches scalar subqueries to the plan of the query around them."""

    def __init__(self, keys: JoinKeys, equalities: Equalities) -> None:
        self.keys, self.equalities = keys, equalities

    def attach(self, plan: Node, inner: Node, column: str, out: str) -> Node:
        """Return the plan with the subquery's value added as the column `out`: null where it has no row."""
        return self._attach_aggregate(plan, inner, column, out) or self._attach_guarded(
            plan, inner, column, out
        )

    def _attach_aggregate(self, plan: Node, inner: Node, column: str, out: str) -> Node | None:
        """A whole-input aggregate has one row always; what stands above it is computed above the join."""
        value: Expr = Column(column)
        conditions, node = list[Expr](), inner
        while isinstance(node, Project | Filter):
            if isinstance(node, Filter):
                conditions.append(node.predicate)
            else:
                items = dict(node.items)
                substituted = [substitute_small(each, items) for each in (value, *conditions)]
                if any(each is None for each in substituted):
                    return None
                value, *conditions = [each for each in substituted if each is not None]
            node = node.input
        if not isinstance(node, Aggregate) or node.keys:
            return None
        outer = {c for c in find_free_columns(node) if c in plan.columns}
        if any(set(e.columns) & outer for each in node.calls for e in list_call_expressions(each)):
            return None
        below = pull_up_conditions(node.input, outer, self.equalities, self.keys)
        if below is None or below.residual:
            return None
        joined = self._join_groups(plan, node, below)
        if below.pairs:
            values = {each.name: coalesce_count(each) for each in node.calls}
            value, conditions = substitute(value, values), [substitute(c, values) for c in conditions]
        holds = join_conditions(conditions)
        if holds is not None:
            value = call("if", holds, value, NULL)
        return Project(joined, (*as_columns(plan.columns), (out, value)))

    def _join_groups(self, plan: Node, node: Aggregate, below: Pulled) -> Node:
        if not below.pairs:
            return Join(plan, Aggregate(below.node, (), node.calls), "inner", ())
        names, pairs = self.keys.group_by(below.pairs)
        return self.keys.join(plan, Aggregate(below.node, names, node.calls), "left", pairs)

    def _attach_guarded(self, plan: Node, inner: Node, column: str, out: str) -> Node:
        """Any other subquery is joined as it is if its key allows one row only, else its rows are counted.

        A second row is an error above the join, of the outer row that asks for it: nobody may ask for its key.
        """
        other = decorrelate(plan, inner, self.equalities, self.keys, residual=False)
        node, pairs = other.node, other.pairs
        value: Expr = Column(column)
        if not set(node.key) <= {expr.column for _, expr in pairs}:
            self.keys.add_note(
                "a subquery as a value: its rows are counted, a second one is an error of the row that asks for it"
            )
            one, rows = self.keys.fresh("agg:one"), self.keys.fresh("agg:rows")
            whole = fill_template("CASE WHEN count(1) <= 1 THEN any_value(:x) END", x=Column(column))
            calls = (AggCall(one, "any_value", (Column(column),), whole=whole), AggCall(rows, "count", ()))
            keys, pairs = self.keys.group_by(other.pairs)
            node = Aggregate(node, keys, calls)
            text = "CASE WHEN :n > 1L THEN raise_error(:message) ELSE :x END"
            message = Literal(MORE_THAN_ONE, "string")
            value = fill_template(text, n=Column(rows), message=message, x=Column(one))
        joined: Node = Join(plan, node, "left", ())
        if pairs:
            joined = self.keys.join(plan, node, "left", pairs, null_safe=other.null_safe)
        return Project(joined, (*as_columns(plan.columns), (out, value)))
