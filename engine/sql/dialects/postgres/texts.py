"""Values put together to texts: concat and format of PostgreSQL, in which nulls say nothing and truth values are t and f."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.filled import filled
from engine.sql.dialects.postgres.number_texts import is_floating, shown_float
from engine.sql.dialects.postgres.patterns import NotSaid
from engine.sql.dialects.postgres.terms import TypeOf, call, text

_NOT_AS_TEXT = ("array<", "map<", "struct<", "interval", "binary")


def concatenated_texts(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`concat(s, i, NULL)` -> `concat(coalesce(s, ''), coalesce(CAST(i AS STRING), ''))`"""
    return call("concat", *(_said(part, type_of) for part in node.expressions))


def with_separators(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`concat_ws('-', s, ok)` -> `concat_ws('-', s, CASE WHEN ok THEN 't' WHEN NOT ok THEN 'f' END)`: nulls are left out."""
    kinds = [type_of(part) or "" for part in node.expressions]
    if not any(kind == "boolean" or is_floating(kind) for kind in kinds):
        return None
    shown = "CASE WHEN _p0 THEN 't' WHEN NOT _p0 THEN 'f' END"
    parts = [
        filled(shown, part) if kind == "boolean" else shown_float(part, kind) if is_floating(kind) else part
        for part, kind in zip(node.expressions, kinds, strict=True)
    ]
    return call("concat_ws", *parts)


def formatted(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`format('%s of %s', i, s)` -> `format_string('%s of %s', coalesce(CAST(i AS STRING), ''), coalesce(s, ''))`"""
    pattern = text(node.this, "a format")
    if re.sub(r"%%|%s", "", pattern).count("%"):
        raise NotSaid(f"the format '{pattern}'", "use %s and %%, and quote_ident or quote_literal")
    wanted = re.sub("%%", "", pattern).count("%s")
    if wanted > len(node.expressions):
        raise NotSaid(f"a format of {wanted} values with {len(node.expressions)}", "give one for each %s")
    return call("format_string", node.this, *(_said(part, type_of) for part in node.expressions[:wanted]))


def _said(part: exp.Expr, type_of: TypeOf) -> exp.Expr:
    kind = type_of(part) or ""
    if kind.startswith(_NOT_AS_TEXT):
        raise NotSaid(f"{kind} as a text", "take its parts, or array_to_string")
    if kind == "boolean":
        return filled("CASE WHEN _p0 THEN 't' WHEN NOT _p0 THEN 'f' ELSE '' END", part)
    if is_floating(kind):
        return filled("coalesce(_p0, '')", shown_float(part, kind))
    if kind == "string" or isinstance(part, exp.Null):
        return exp.Coalesce(this=part.copy(), expressions=[exp.Literal.string("")])
    return filled("coalesce(CAST(_p0 AS STRING), '')", part)
