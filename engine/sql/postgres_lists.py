"""Lists and joined texts of a group's values as Postgres has them: ORDER BY counts, what is made of nothing is null."""

from __future__ import annotations

import sqlglot
import sqlglot.expressions as exp

from engine.sql.ordered_lists import By, field_of, filtered, ordered_list
from engine.sql.plan import Expr


def as_spark_list(node: exp.Expr) -> exp.Expr | None:
    """Return array_agg, or string_agg with an ORDER BY, with its FILTER, as Spark says it; None for anything else.

    Spark 4.2 fails on its own ordered LISTAGG beside a DISTINCT aggregate (it takes an attribute for a sort order).
    """
    call, where = node, None
    if isinstance(node, exp.Filter):
        call, where = node.this, _written(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return None  # the FILTER goes into the parts
    if isinstance(node.parent, exp.Window):
        return None
    if isinstance(call, exp.GroupConcat):
        return _text(call, where)
    if not isinstance(call, exp.ArrayAgg):
        return None
    text, _ = _list(call, where)
    return _parsed(text, "1", where)


def _text(call: exp.GroupConcat, where: Expr | None) -> exp.Expr | None:
    separator = call.args.get("separator")
    if not isinstance(call.this, exp.Order) or not isinstance(separator, exp.Literal):
        return None
    text, value = _list(call, where)
    return _parsed(
        f"array_join(CAST({text} AS ARRAY<STRING>), {separator.sql(dialect='spark')})", value.sql, where
    )


def _list(call: exp.ArrayAgg | exp.GroupConcat, where: Expr | None) -> tuple[str, Expr]:
    """Return the array of a call's values in their order, and the value."""
    inner, order = call.this, list[By]()
    if isinstance(inner, exp.Order):
        order = [_by(item) for item in inner.expressions]
        inner = inner.this
    if isinstance(inner, exp.Distinct):
        value = _written(inner.expressions[0])
        first = order[0] if order else By(value, nulls_first=False)
        return _distinct(value, By(value, first.descending, first.nulls_first), where), value
    value = _written(inner)
    return field_of(ordered_list([("v", value)], order, (), where), "v"), value


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


def _parsed(text: str, counted: str, where: Expr | None) -> exp.Expr:
    whole = f"IF({filtered(f'count({counted})', where)} = 0, NULL, {text})"
    return sqlglot.parse_one(whole, read="spark")


def _by(item: exp.Expr) -> By:
    if not isinstance(item, exp.Ordered):
        return By(_written(item), nulls_first=False)
    return By(_written(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def _written(node: exp.Expr) -> Expr:
    return Expr(node.sql(dialect="spark"))
