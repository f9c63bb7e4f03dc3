"""NUMERIC of PostgreSQL: quotients have digits enough, and what has no digits of its own is shown without idle zeros."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.numbers.float_texts import format_float, is_floating
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf
from engine.sql.typing.expression_types import find_operand_digits

_MOST, _SCALE = 38, 20
_WHOLE, _LEAST_WHOLE = 22, 18
"""Digits before the point that a dividend without digits of its own has: the fewer, the more behind it."""
_WIDE = "decimal(38,10)"
"""What NUMERIC without digits is."""


def widen_division(node: exp.Div, one: str | None, other: str | None) -> exp.Expr:
    """Return a quotient of decimals with 20 digits behind the point, as far as 38 are enough: `p / 3` -> `CAST(p AS …) / 3`

    PostgreSQL gives at least 16 significant digits; Spark would give six of `1.0 / 3`.
    """
    found = exp.Div(this=node.this, expression=node.expression)
    kinds = (one or "", other or "")
    if not any(kind.startswith("decimal") for kind in kinds):
        return found
    left, right = find_operand_digits(node.this, one), find_operand_digits(node.expression, other)
    if left is None or right is None:
        return found
    whole = left[0] - left[1]
    if one == _WIDE or (
        left[0] == _MOST and left[1]
    ):  # which need not have all those digits before the point
        whole = max(_WHOLE - right[1], _LEAST_WHOLE)
        scale = _MOST - whole
    else:
        scale = min(_SCALE - right[0] - 1, _MOST - whole)
    if scale <= left[1]:
        return found
    finer = exp.DataType.build(f"DECIMAL({whole + scale}, {scale})", dialect="spark")
    return exp.Div(this=exp.Cast(this=node.this, to=finer), expression=node.expression)


def format_numeric(value: exp.Expr, kind: str) -> exp.Expr | None:
    """Return the text of a number without digits of its own, None for any other."""
    return fill_tree("rtrim('.', rtrim('0', CAST(_p0 AS STRING)))", value) if kind == _WIDE else None


def translate_text_concat(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return `||` of a text and a floating number, or one without digits of its own, as PostgreSQL shows it."""
    if not isinstance(node, exp.DPipe):
        return None
    sides = [_format_value(side, type_of(side) or "") for side in (node.this, node.expression)]
    if sides == [node.this, node.expression]:
        return None
    return exp.DPipe(this=sides[0], expression=sides[1])


def _format_value(value: exp.Expr, kind: str) -> exp.Expr:
    if is_floating(kind):
        return format_float(value, kind)
    return format_numeric(value, kind) or value
