"""A comparison with ANY or ALL of a subquery's values, by their extremes.

`x < ALL (SELECT y …)` -> `CASE WHEN x >= min(y) THEN FALSE WHEN unknown THEN NULL ELSE TRUE END`, where it is unknown if
some y is null, or x is null and there is a y at all

Applies to other comparisons than those that IN means, while they are bound: the value is a scalar subquery's
(`scalar_subqueries.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.expression.nodes import FALSE, NULL, TRUE, Case, Column, Comparison, Expr, IsNull, Or
from engine.sql.expression.template import call, fill_template
from engine.sql.parsing.comparisons import NEGATED
from engine.sql.plan import AggCall, Aggregate, Node, Project
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT id FROM bid WHERE price >= ALL (SELECT id FROM auction)",
    plan="""
Project [out:id#2 = `bid:id`] key (out:id#2) retracting
  Filter CASE WHEN coalesce(`bid:price` < `agg:max`, FALSE) THEN FALSE WHEN coalesce(`agg:nulls`, FALSE) OR `bid:price` IS NULL AND coalesce(`agg:some`, FALSE) THEN NULL ELSE TRUE END key (bid:id) retracting
    InnerJoin on every pair key (bid:id) retracting
      Scan bid [id, price] key (bid:id) retracting
      Aggregate by [] calls [max(`out:id`), bool_or(`out:id` IS NULL), bool_or(TRUE)] key () retracting
        Project [out:id = `auction:id`] key (out:id) retracting
          Scan auction [id] key (auction:id) retracting
""",  # noqa: E501  # a node a line
    dialect="postgres",
)

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
EXTREMES: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.LT: ("max",),
    exp.LTE: ("max",),
    exp.GT: ("min",),
    exp.GTE: ("min",),
    exp.NEQ: ("min", "max"),
}
"""Of which of the values a comparison tells whether one of them fulfils it; = has none: there may be values between."""


def rewrite_quantified(
    inner: Node, comparison: type[exp.Expr], x: Expr, y: str, every: bool, fresh: Callable[[str], str]
) -> Project:
    """Return the plan of a scalar subquery with the value of `x <comparison> ALL|ANY (y)` as its first column."""
    low, high, nulls, some = (fresh(f"agg:{name}") for name in ("min", "max", "nulls", "some"))
    column = Column(y)
    calls = (
        AggCall(low, "min", (column,)),
        AggCall(high, "max", (column,)),
        AggCall(nulls, "bool_or", (IsNull(column),)),
        AggCall(some, "bool_or", (TRUE,)),
    )
    # ALL is false as soon as one value says no; ANY is true as soon as one says yes
    test = NEGATED[comparison] if every else comparison
    if test not in EXTREMES:
        raise AssertionError("= ANY and <> ALL are IN and NOT IN")
    ends = [{"min": low, "max": high}[end] for end in EXTREMES[test]]
    tests = tuple(call("coalesce", Comparison(_OPERATORS[test], x, Column(end)), FALSE) for end in ends)
    decided = tests[0] if len(tests) == 1 else Or(tests)
    text = "coalesce(:nulls, FALSE) OR (:x IS NULL AND coalesce(:some, FALSE))"
    unknown = fill_template(text, nulls=Column(nulls), x=x, some=Column(some))
    yes, no = (FALSE, TRUE) if every else (TRUE, FALSE)
    value = Case(((decided, yes), (unknown, NULL)), no)
    return Project(Aggregate(inner, (), calls), ((fresh("quantified"), value),))
