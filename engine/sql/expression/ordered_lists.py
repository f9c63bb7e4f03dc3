"""The values of a group as one array in a certain order: what order-dependent aggregates are built of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from engine.jsonb.functions import PREFIX
from engine.sql.expression.nodes import Call, Case, Cast, Column, Expr, Field, Literal, Variable
from engine.sql.expression.template import build_not_null, build_struct, call, fill_template, join_conditions

ONE = Literal("1")
CHECKED = (
    "get(transform(array(:found), "
    "_c -> if(startswith(_c, '!'), CAST(assert_true(FALSE, substring(_c, 2)) AS STRING), _c)), 0)"
)
"""What begins with an exclamation mark says what is wrong; it stands there once, however deep it is nested."""
KEEP_NULLS = fill_template("map('ignoreNullFields', 'false')")


@dataclass(frozen=True)
class OrderTerm:
    """One expression of an order."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True


def filter_call(aggregate: Call, *conditions: Expr | None) -> Call:
    """Return an aggregate call over the rows for which all conditions hold."""
    where = join_conditions([condition for condition in conditions if condition is not None])
    return aggregate if where is None else msgspec.structs.replace(aggregate, where=where)


def null_if_none(counted: Expr, value: Expr, where: Expr | None) -> Expr:
    """Return a value, or null where nothing is counted."""
    return fill_template(
        "if(:n = 0, NULL, :value)", n=filter_call(call("count", counted), where), value=value
    )


def build_sorted_set(value: Expr, where: Expr | None) -> Expr:
    """Return the array of the values that differ, without null, the least first."""
    return call("array_sort", filter_call(call("collect_set", value), where))


def build_ordered_list(
    values: Sequence[tuple[str, Expr]],
    order: Sequence[OrderTerm],
    key: Sequence[str],
    *conditions: Expr | None,
) -> Expr:
    """Return the array of structs of `values` in order; rows that are equal in it stand in the order of their key."""
    by = [*order, *(OrderTerm(Column(column)) for column in key)]
    fields = [*values, *((f"_o{n}", item.expr) for n, item in enumerate(by))]
    rows = filter_call(call("collect_list", build_struct(fields)), *conditions)
    return fill_template(
        "array_sort(:rows, (_l, _r) -> :comparison)", rows=rows, comparison=_build_comparison(by)
    )


def _build_comparison(by: Sequence[OrderTerm]) -> Expr:
    branches: list[tuple[Expr, Expr]] = []
    for n, item in enumerate(by):
        sides = {"l": Field(Variable("_l"), f"_o{n}"), "r": Field(Variable("_r"), f"_o{n}")}
        before, after = fill_template("-1"), ONE
        first, last = (before, after) if item.nulls_first else (after, before)
        less, more = (after, before) if item.descending else (before, after)
        branches += [
            (fill_template(":l IS NULL AND :r IS NOT NULL", **sides), first),
            (fill_template(":l IS NOT NULL AND :r IS NULL", **sides), last),
            (fill_template(":l < :r", **sides), less),
            (fill_template(":l > :r", **sides), more),
        ]
    return Case(tuple(branches), Literal("0")) if branches else Literal("0")


def project_field(rows: Expr, name: str) -> Expr:
    """Return the array of one field of an array of structs."""
    field = Field(Variable("_e"), name)
    return fill_template("transform(:rows, _e -> :field)", rows=rows, field=field)


def join_texts_by_rows(
    value: Expr, separator: Expr, order: Sequence[OrderTerm], key: Sequence[str], where: Expr | None
) -> Expr:
    """Return the texts of a group as one: a separator of each row's own stands before its value, but for the first row."""
    parts = [(name, Cast(part, "string")) for name, part in (("v", value), ("s", separator))]
    rows = build_ordered_list(parts, order, key, where, build_not_null(value))
    text = "array_join(transform(:rows, (_e, _i) -> if(_i = 0, _e.v, concat(coalesce(_e.s, ''), _e.v))), '')"
    return null_if_none(value, fill_template(text, rows=rows), where)


def build_json_list(name: str, values: Expr, kind: str | None) -> tuple[Expr, str]:
    """Return an array as json_agg or jsonb_agg gives it, and its type; `kind` is that of the array's items."""
    if name == "jsonb_agg":
        array_type = f"array<{kind}>" if kind else ""
        return call(PREFIX + "to_jsonb", values, Literal(array_type, "string")), "jsonb"
    return call(PREFIX + "json_agg", values, Literal(kind or "", "string")), "json"


def build_json_object(name: str, rows: Expr, kind: str | None) -> tuple[Expr, str]:
    """Return structs of `k` and `v` as json_object_agg or jsonb_object_agg gives them, and its type."""
    function, result = ("object_agg", "jsonb") if name == "jsonb_object_agg" else ("json_object_agg", "json")
    parts = project_field(rows, "k"), project_field(rows, "v"), Literal(kind or "", "string")
    whole = call(PREFIX + function, *parts)
    return fill_template(CHECKED, found=whole), result
