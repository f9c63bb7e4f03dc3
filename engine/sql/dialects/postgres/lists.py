"""Lists and joined texts of a group's values as Postgres has them: ORDER BY counts, what is made of nothing is null."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.terms import TypeOf
from engine.sql.expression.nodes import Call, Case, Cast, Expr, Field, Literal, Variable
from engine.sql.expression.ordered_lists import (
    ONE,
    By,
    field_of,
    filtered,
    joined_by_rows,
    json_list,
    json_object,
    of_some,
    ordered_list,
)
from engine.sql.expression.parsed_parts import Parts
from engine.sql.expression.template import call, named_struct, template
from engine.sql.typing.json_types import marked


def as_spark_list(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return array_agg, json_agg and its like, or string_agg with an ORDER BY, with its FILTER, as Spark says it; else None.

    Spark 4.2 fails on its own ordered LISTAGG beside a DISTINCT aggregate (it takes an attribute for a sort order).
    """
    inner, parts, where = node, Parts(), None
    if isinstance(node, exp.Filter):
        inner, where = node.this, parts.column(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return None  # the FILTER goes into the parts
    if isinstance(node.parent, exp.Window):
        return None
    if isinstance(inner, exp.ArrayAgg):
        values, _ = _list(inner, parts, where)
        return parts.filled(of_some(ONE, values, where))
    name = _json_name(inner)
    if name is not None:
        return _json(inner, name, parts, where, type_of)
    if not isinstance(inner, exp.GroupConcat):
        return None
    separator = inner.args.get("separator")
    if separator is not None and separator.find(exp.Column) is not None:
        return _joined_by_rows(inner, separator, parts, where)
    if not isinstance(inner.this, exp.Order) or not isinstance(separator, exp.Literal):
        return None
    values, value = _list(inner, parts, where)
    joined = call("array_join", Cast(values, "array<string>"), Literal(separator.name, "string"))
    return parts.filled(of_some(value, joined, where))


def as_ordered_list(node: exp.Expr) -> exp.Expr:
    """Return an aggregate with an ORDER BY as Spark says it, which keeps no nulls; anything else as it is."""
    inner, parts, where = node, Parts(), None
    if isinstance(node, exp.Filter):
        inner, where = node.this, parts.column(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return node
    if isinstance(inner, exp.GroupConcat):
        return as_spark_list(node, lambda part: None) or node
    if not isinstance(inner, exp.ArrayAgg) or not isinstance(inner.this, exp.Order):
        return node
    values, _ = _list(inner, parts, where)
    return parts.filled(template("filter(:values, _e -> _e IS NOT NULL)", values=values))


_JSON_NAMES: dict[type[exp.Expr], str] = {
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.JSONBObjectAgg: "jsonb_object_agg",
}


def _json_name(node: exp.Expr) -> str | None:
    named = isinstance(node, exp.Anonymous) and node.name.lower() == "jsonb_agg"
    return "jsonb_agg" if named else _JSON_NAMES.get(type(node))


def _json(node: exp.Expr, name: str, parts: Parts, where: Expr | None, type_of: TypeOf) -> exp.Expr | None:
    given = node.expressions or [
        part for part in (node.this, node.args.get("expression")) if part is not None
    ]
    if "object" in name:
        key, value, order = given[0], given[1], list[By]()
        if isinstance(value, exp.Order):
            order = [_by(item, parts) for item in value.expressions]
            value = value.this
        pairs: list[tuple[str, Expr]] = [("k", Cast(parts.column(key), "string")), ("v", parts.column(value))]
        whole, kind = json_object(name, ordered_list(pairs, order, (), where), type_of(value))
    else:
        item = type_of(
            _value_of(given[0])
        )  # asked where it stands: its names are those of the query around it
        values, _ = _list(exp.ArrayAgg(this=given[0].copy()), parts, where)
        whole, kind = json_list(name, values, item)
    return marked(parts.filled(of_some(ONE, whole, where)), kind)


def _value_of(node: exp.Expr) -> exp.Expr:
    inner = node.this if isinstance(node, exp.Order) else node
    found: exp.Expr = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    return found


def _joined_by_rows(
    node: exp.GroupConcat, separator: exp.Expr, parts: Parts, where: Expr | None
) -> exp.Expr | None:
    """A separator of each row's own stands before its value; the first row's is not said."""
    order, inner = list[By](), node.this
    if isinstance(inner, exp.Order):
        order, inner = [_by(item, parts) for item in inner.expressions], inner.this
    if isinstance(inner, exp.Distinct):
        return None
    value = parts.column(inner)
    return parts.filled(joined_by_rows(value, parts.column(separator), order, (), where))


def _list(node: exp.ArrayAgg | exp.GroupConcat, parts: Parts, where: Expr | None) -> tuple[Expr, Expr]:
    """Return the array of a call's values in their order, and the value."""
    inner, order = node.this, list[By]()
    if isinstance(inner, exp.Order):
        order = [_by(item, parts) for item in inner.expressions]
        inner = inner.this
    if isinstance(inner, exp.Distinct):
        value = parts.column(inner.expressions[0])
        first = order[0] if order else By(value, nulls_first=False)
        return _distinct(value, By(value, first.descending, first.nulls_first), where), value
    value = parts.column(inner)
    return field_of(ordered_list([("v", value)], order, (), where), "v"), value


def _distinct(value: Expr, order: By, where: Expr | None) -> Expr:
    """Return the list of the values that differ, in their order: structs, as a set of structs keeps null."""
    rows = filtered(Call("collect_set", (named_struct([("v", value)]),)), where)
    before, after = template("-1"), ONE
    less, more = (after, before) if order.descending else (before, after)
    first, last = (before, after) if order.nulls_first else (after, before)
    sides = {"l": Field(Variable("_l"), "v"), "r": Field(Variable("_r"), "v")}
    branches = (
        (template(":l IS NULL", **sides), first),
        (template(":r IS NULL", **sides), last),
        (template(":l < :r", **sides), less),
    )
    compare = Case(branches, more)
    return field_of(template("array_sort(:rows, (_l, _r) -> :compare)", rows=rows, compare=compare), "v")


def _by(item: exp.Expr, parts: Parts) -> By:
    if not isinstance(item, exp.Ordered):
        return By(parts.column(item), nulls_first=False)
    return By(parts.column(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
