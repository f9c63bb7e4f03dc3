"""Values put together to texts: concat and format of PostgreSQL, in which nulls say nothing and truth values are t and f."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.numbers.float_texts import format_float, is_floating
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf, build_call, read_text

_NOT_AS_TEXT = ("array<", "map<", "struct<", "interval", "binary")


def translate_concat(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`concat(s, i, NULL)` -> `concat(coalesce(s, ''), coalesce(CAST(i AS STRING), ''))`"""
    return build_call("concat", *(_render_part(part, type_of) for part in node.expressions))


def translate_concat_ws(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`concat_ws('-', s, ok)` -> `concat_ws('-', s, CASE WHEN ok THEN 't' WHEN NOT ok THEN 'f' END)`: nulls are left out."""
    kinds = [type_of(part) or "" for part in node.expressions]
    if not any(kind == "boolean" or is_floating(kind) for kind in kinds):
        return None
    template = "CASE WHEN _p0 THEN 't' WHEN NOT _p0 THEN 'f' END"
    parts = [
        fill_tree(template, part)
        if kind == "boolean"
        else format_float(part, kind)
        if is_floating(kind)
        else part
        for part, kind in zip(node.expressions, kinds, strict=True)
    ]
    return build_call("concat_ws", *parts)


def translate_format(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`format('%s of %s', i, s)` -> `format_string('%s of %s', coalesce(CAST(i AS STRING), ''), coalesce(s, ''))`"""
    pattern = read_text(node.this, "a format")
    if re.sub(r"%%|%s", "", pattern).count("%"):
        raise Untranslatable(f"the format '{pattern}'", "use %s and %%, and quote_ident or quote_literal")
    value_count = re.sub("%%", "", pattern).count("%s")
    if value_count > len(node.expressions):
        raise Untranslatable(
            f"a format of {value_count} values with {len(node.expressions)}", "give one for each %s"
        )
    return build_call(
        "format_string", node.this, *(_render_part(part, type_of) for part in node.expressions[:value_count])
    )


def _render_part(part: exp.Expr, type_of: TypeOf) -> exp.Expr:
    kind = type_of(part) or ""
    if kind.startswith(_NOT_AS_TEXT):
        raise Untranslatable(f"{kind} as a text", "take its parts, or array_to_string")
    if kind == "boolean":
        return fill_tree("CASE WHEN _p0 THEN 't' WHEN NOT _p0 THEN 'f' ELSE '' END", part)
    if is_floating(kind):
        return fill_tree("coalesce(_p0, '')", format_float(part, kind))
    if kind == "string" or isinstance(part, exp.Null):
        return exp.Coalesce(this=part.copy(), expressions=[exp.Literal.string("")])
    return fill_tree("coalesce(CAST(_p0 AS STRING), '')", part)
