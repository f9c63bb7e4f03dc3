"""Aggregate calls and calls over windows taken apart: a name, arguments, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.functions import find_function_name

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass
class ParsedCall:
    """An aggregate call taken apart: its name, arguments, and what stands around them."""

    node: exp.Expr
    name: str
    arguments: list[exp.Expr]
    order: exp.Order | None
    distinct: bool
    where: exp.Expr | None
    ignore_nulls: bool
    within: bool


def unwrap_call(node: exp.Expr) -> exp.Expr:
    """Return the call itself without FILTER, WITHIN GROUP and the like around it."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def parse_call(node: exp.Expr) -> ParsedCall:
    """Return the parts of a call."""
    where, order, ignore, within = None, None, False, False
    while isinstance(node, _WRAPPERS):
        if isinstance(node, exp.Filter):
            where = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            order, within = node.expression, True
        else:
            ignore = isinstance(node, exp.IgnoreNulls)
        node = node.this
    arguments, distinct = [], False
    for argument in _list_arguments(node):
        if isinstance(argument, exp.Order):
            order = argument
            argument = argument.this
        if isinstance(argument, exp.Distinct):
            distinct = True
            arguments += argument.expressions
        else:
            arguments.append(argument)
    return ParsedCall(
        node, _NAMES.get(type(node)) or _find_name(node), arguments, order, distinct, where, ignore, within
    )


_NAMES: dict[type[exp.Expr], str] = {
    exp.GroupConcat: "string_agg",
    exp.ArrayAgg: "array_agg",
    exp.ArrayUniqueAgg: "collect_set",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.JSONBObjectAgg: "jsonb_object_agg",
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.ApproxQuantile: "approx_percentile",
    exp.Quantile: "percentile",
    exp.Mode: "mode",
    exp.First: "first",
    exp.FirstValue: "first",
    exp.Last: "last",
    exp.LastValue: "last",
    exp.AnyValue: "any_value",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
}
_ALIASES = {
    **dict.fromkeys(("listagg", "string_agg"), "string_agg"),
    **dict.fromkeys(("collect_list", "array_agg"), "array_agg"),
    **dict.fromkeys(("approx_percentile", "percentile_approx"), "approx_percentile"),
    **dict.fromkeys(("first", "first_value"), "first"),
    **dict.fromkeys(("last", "last_value"), "last"),
}


def _find_name(node: exp.Expr) -> str:
    name = find_function_name(node) or node.key
    return _ALIASES.get(name, name)


def _list_arguments(node: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for key, value in node.args.items():
        if isinstance(node, exp.Anonymous) and key == "this":
            continue
        if isinstance(value, exp.Expr):
            found.append(value)
        elif isinstance(value, list):
            found += [v for v in value if isinstance(v, exp.Expr)]
    return found


def list_call_parts(node: exp.Expr) -> list[exp.Expr]:
    """Return the expressions that a call reads: its arguments, those of a row each, and the condition of FILTER."""
    call = parse_call(node)
    rows = [part.expressions if isinstance(part, exp.Tuple) else [part] for part in call.arguments]
    return [part for row in rows for part in row] + ([call.where] if call.where is not None else [])
