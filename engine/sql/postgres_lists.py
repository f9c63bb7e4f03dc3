"""Lists of a group's values as Postgres has them: nulls are in them, ORDER BY counts, a list of nothing is null."""

from __future__ import annotations

import sqlglot
import sqlglot.expressions as exp

from engine.sql.ordered_lists import By, field_of, filtered, ordered_list
from engine.sql.plan import Expr


def as_spark_list(node: exp.Expression) -> exp.Expression | None:
    """Return `array_agg(x ORDER BY y)`, with its FILTER, as Spark says it; None for anything else."""
    call, where = node, None
    if isinstance(node, exp.Filter):
        call, where = node.this, _written(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return None  # the FILTER goes into the parts
    if not isinstance(call, exp.ArrayAgg) or isinstance(node.parent, exp.Window):
        return None
    inner, order = call.this, list[By]()
    if isinstance(inner, exp.Order):
        order = [_by(item) for item in inner.expressions]
        inner = inner.this
    if isinstance(inner, exp.Distinct):
        value = _written(inner.expressions[0])
        first = order[0] if order else By(value, nulls_first=False)
        return _parsed(_distinct(value, By(value, first.descending, first.nulls_first), where), where)
    value = _written(inner)
    return _parsed(field_of(ordered_list([("v", value)], order, (), where), "v"), where)


def _distinct(value: Expr, order: By, where: Expr | None) -> str:
    """Return the list of the values that differ, in their order: structs, as a set of structs keeps null."""
    rows = filtered(f"collect_set(named_struct('v', {value.sql}))", where)
    less, more = ("1", "-1") if order.descending else ("-1", "1")
    first, last = ("-1", "1") if order.nulls_first else ("1", "-1")
    compare = (
        f"CASE WHEN _l.v IS NULL THEN {first} WHEN _r.v IS NULL THEN {last} "
        f"WHEN _l.v < _r.v THEN {less} ELSE {more} END"
    )
    return field_of(f"array_sort({rows}, (_l, _r) -> {compare})", "v")


def _parsed(text: str, where: Expr | None) -> exp.Expression:
    whole = f"IF({filtered('count(1)', where)} = 0, NULL, {text})"
    return sqlglot.parse_one(whole, read="spark")


def _by(item: exp.Expression) -> By:
    if not isinstance(item, exp.Ordered):
        return By(_written(item), nulls_first=False)
    return By(_written(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def _written(node: exp.Expression) -> Expr:
    return Expr(node.sql(dialect="spark"))
