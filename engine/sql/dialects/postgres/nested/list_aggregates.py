"""Lists and joined texts of a group's values as Postgres has them: ORDER BY counts, what is made of nothing is null."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.terms import TypeOf
from engine.sql.expression.nodes import Call, Case, Cast, Expr, Field, Literal, Variable
from engine.sql.expression.ordered_lists import (
    ONE,
    OrderTerm,
    build_json_list,
    build_json_object,
    build_ordered_list,
    filter_call,
    join_texts_by_rows,
    null_if_none,
    project_field,
)
from engine.sql.expression.parsed_parts import ParsedParts
from engine.sql.expression.template import build_struct, call, fill_template
from engine.sql.typing.json_types import mark_type


def translate_list_aggregate(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return array_agg, json_agg and its like, or string_agg with an ORDER BY, with its FILTER, as Spark says it; else None.

    Spark 4.2 fails on its own ordered LISTAGG beside a DISTINCT aggregate (it takes an attribute for a sort order).
    """
    inner, parts, where = node, ParsedParts(), None
    if isinstance(node, exp.Filter):
        inner, where = node.this, parts.add(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return None  # the FILTER goes into the parts
    if isinstance(node.parent, exp.Window):
        return None
    if isinstance(inner, exp.ArrayAgg):
        values, _ = _build_list(inner, parts, where)
        return parts.fill(null_if_none(ONE, values, where))
    name = _find_json_name(inner)
    if name is not None:
        return _build_json_aggregate(inner, name, parts, where, type_of)
    if not isinstance(inner, exp.GroupConcat):
        return None
    separator = inner.args.get("separator")
    if separator is not None and separator.find(exp.Column) is not None:
        return _concatenate_rows(inner, separator, parts, where)
    if not isinstance(inner.this, exp.Order) or not isinstance(separator, exp.Literal):
        return None
    values, value = _build_list(inner, parts, where)
    joined = call("array_join", Cast(values, "array<string>"), Literal(separator.name, "string"))
    return parts.fill(null_if_none(value, joined, where))


def translate_ordered_list(node: exp.Expr) -> exp.Expr:
    """Return an aggregate with an ORDER BY as Spark says it, which keeps no nulls; anything else as it is."""
    inner, parts, where = node, ParsedParts(), None
    if isinstance(node, exp.Filter):
        inner, where = node.this, parts.add(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return node
    if isinstance(inner, exp.GroupConcat):
        return translate_list_aggregate(node, lambda part: None) or node
    if not isinstance(inner, exp.ArrayAgg) or not isinstance(inner.this, exp.Order):
        return node
    values, _ = _build_list(inner, parts, where)
    return parts.fill(fill_template("filter(:values, _e -> _e IS NOT NULL)", values=values))


_JSON_NAMES: dict[type[exp.Expr], str] = {
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.JSONBObjectAgg: "jsonb_object_agg",
}


def _find_json_name(node: exp.Expr) -> str | None:
    named = isinstance(node, exp.Anonymous) and node.name.lower() == "jsonb_agg"
    return "jsonb_agg" if named else _JSON_NAMES.get(type(node))


def _build_json_aggregate(
    node: exp.Expr, name: str, parts: ParsedParts, where: Expr | None, type_of: TypeOf
) -> exp.Expr | None:
    arguments = node.expressions or [
        part for part in (node.this, node.args.get("expression")) if part is not None
    ]
    if "object" in name:
        key, value, order = arguments[0], arguments[1], list[OrderTerm]()
        if isinstance(value, exp.Order):
            order = [_build_order(item, parts) for item in value.expressions]
            value = value.this
        pairs: list[tuple[str, Expr]] = [("k", Cast(parts.add(key), "string")), ("v", parts.add(value))]
        whole, kind = build_json_object(name, build_ordered_list(pairs, order, (), where), type_of(value))
    else:
        item = type_of(
            _find_value(arguments[0])
        )  # asked where it stands: its names are those of the query around it
        values, _ = _build_list(exp.ArrayAgg(this=arguments[0].copy()), parts, where)
        whole, kind = build_json_list(name, values, item)
    return mark_type(parts.fill(null_if_none(ONE, whole, where)), kind)


def _find_value(node: exp.Expr) -> exp.Expr:
    inner = node.this if isinstance(node, exp.Order) else node
    found: exp.Expr = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    return found


def _concatenate_rows(
    node: exp.GroupConcat, separator: exp.Expr, parts: ParsedParts, where: Expr | None
) -> exp.Expr | None:
    """A separator of each row's own stands before its value; the first row's is not said."""
    order, inner = list[OrderTerm](), node.this
    if isinstance(inner, exp.Order):
        order, inner = [_build_order(item, parts) for item in inner.expressions], inner.this
    if isinstance(inner, exp.Distinct):
        return None
    value = parts.add(inner)
    return parts.fill(join_texts_by_rows(value, parts.add(separator), order, (), where))


def _build_list(
    node: exp.ArrayAgg | exp.GroupConcat, parts: ParsedParts, where: Expr | None
) -> tuple[Expr, Expr]:
    """Return the array of a call's values in their order, and the value."""
    inner, order = node.this, list[OrderTerm]()
    if isinstance(inner, exp.Order):
        order = [_build_order(item, parts) for item in inner.expressions]
        inner = inner.this
    if isinstance(inner, exp.Distinct):
        value = parts.add(inner.expressions[0])
        first = order[0] if order else OrderTerm(value, nulls_first=False)
        return _build_distinct_list(
            value, OrderTerm(value, first.descending, first.nulls_first), where
        ), value
    value = parts.add(inner)
    return project_field(build_ordered_list([("v", value)], order, (), where), "v"), value


def _build_distinct_list(value: Expr, order: OrderTerm, where: Expr | None) -> Expr:
    """Return the list of the values that differ, in their order: structs, as a set of structs keeps null."""
    rows = filter_call(Call("collect_set", (build_struct([("v", value)]),)), where)
    before, after = fill_template("-1"), ONE
    less, more = (after, before) if order.descending else (before, after)
    first, last = (before, after) if order.nulls_first else (after, before)
    sides = {"l": Field(Variable("_l"), "v"), "r": Field(Variable("_r"), "v")}
    branches = (
        (fill_template(":l IS NULL", **sides), first),
        (fill_template(":r IS NULL", **sides), last),
        (fill_template(":l < :r", **sides), less),
    )
    compare = Case(branches, more)
    return project_field(
        fill_template("array_sort(:rows, (_l, _r) -> :compare)", rows=rows, compare=compare), "v"
    )


def _build_order(item: exp.Expr, parts: ParsedParts) -> OrderTerm:
    if not isinstance(item, exp.Ordered):
        return OrderTerm(parts.add(item), nulls_first=False)
    return OrderTerm(parts.add(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
