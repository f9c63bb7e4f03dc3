"""Spans of months, days and time apart from each other, as age() gives them: no column holds one, its parts can be taken.

Such a span is an array of three whole numbers, months, days and microseconds, that is marked by a type of its own. EXTRACT,
casts to texts and comparisons take it apart; what is left of it is refused.
"""

from __future__ import annotations

import re
from fractions import Fraction

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf
from engine.sql.typing.expression_types import is_number
from engine.sql.typing.intervals import has_months, parse_calendar_interval
from engine.sql.typing.json_types import get_mark, mark_type, strip_mark

SPAN = "interval parts"
_SAID = "said"
_DAY, _HOUR, _MINUTE = 86_400_000_000, 3_600_000_000, 60_000_000
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_CLOCK = f"pmod(unix_micros(CAST({{0}} AS TIMESTAMP)), {_DAY})"
_ENDS = "array(named_struct('h', greatest(_p0, _p1), 'l', least(_p0, _p1), 's', if(_p0 < _p1, -1, 1)))"
_DIFFERENCE = f"({_CLOCK.format('_t.h')} - {_CLOCK.format('_t.l')})"
_FIELDS = (
    f"transform({_ENDS}, _t -> named_struct('s', _t.s, 'l', _t.l, "
    "'m', (year(_t.h) - year(_t.l)) * 12 + month(_t.h) - month(_t.l), "
    f"'d', day(_t.h) - day(_t.l) - if({_DIFFERENCE} < 0, 1, 0), "
    f"'u', {_DIFFERENCE} + if({_DIFFERENCE} < 0, {_DAY}, 0)))"
)
_AGE = (
    f"if(_p0 IS NULL OR _p1 IS NULL, NULL, get(transform({_FIELDS}, _u -> array("
    "CAST(_u.s * (_u.m - if(_u.d < 0, 1, 0)) AS BIGINT), "
    "CAST(_u.s * if(_u.d < 0, _u.d + day(last_day(_u.l)), _u.d) AS BIGINT), _u.s * _u.u)), 0))"
)
"""Fields are subtracted from the earlier moment to the later one; a missing day is one of the earlier moment's month."""
_M, _D, _U = "get(_p0, 0)", "get(_p0, 1)", "get(_p0, 2)"
_PARTS = {
    "MILLENNIUM": f"CAST({_M} DIV 12000 AS INT)",
    "CENTURY": f"CAST({_M} DIV 1200 AS INT)",
    "DECADE": f"CAST({_M} DIV 120 AS INT)",
    "YEAR": f"CAST({_M} DIV 12 AS INT)",
    "QUARTER": f"CAST({_M} % 12 DIV 3 + 1 AS INT)",
    "MONTH": f"CAST({_M} % 12 AS INT)",
    "DAY": f"CAST({_D} AS INT)",
    "HOUR": f"CAST({_U} DIV {_HOUR} AS INT)",
    "MINUTE": f"CAST({_U} DIV {_MINUTE} % 60 AS INT)",
    "SECOND": f"CAST({_U} % {_MINUTE} / CAST(1000000 AS DECIMAL(7, 0)) AS DECIMAL(8, 6))",
    "MILLISECONDS": f"CAST({_U} % {_MINUTE} / CAST(1000 AS DECIMAL(4, 0)) AS DECIMAL(8, 3))",
    "MICROSECONDS": f"{_U} % {_MINUTE}",
    "EPOCH": f"CAST(CAST(({_M} DIV 12 * 31557600 + {_M} % 12 * 2592000 + {_D} * 86400) AS DECIMAL(20, 0)) "
    f"+ CAST({_U} AS DECIMAL(20, 0)) / CAST(1000000 AS DECIMAL(7, 0)) AS DECIMAL(26, 6))",
}
"""A year has 365.25 days, a month 30."""
_LENGTH = f"(({_M} * 30 + {_D}) * {_DAY} + {_U})"
"""By which spans are compared."""


def _format_count(number: str, word: str) -> str:
    return (
        f"if({number} = 0, NULL, concat(CAST({number} AS STRING), if({number} = 1, ' {word}', ' {word}s')))"
    )


_TWO = "if({0} < 10, concat('0', CAST({0} AS STRING)), CAST({0} AS STRING))"
_FRACTION = (
    f"if({_U} % 1000000 = 0, '', concat('.', rtrim('0', lpad(CAST(abs({_U} % 1000000) AS STRING), 6, '0'))))"
)
_TIME = (
    f"concat(if({_U} < 0, '-', ''), {_TWO.format(f'abs({_U}) DIV {_HOUR}')}, ':', "
    f"{_TWO.format(f'(abs({_U}) DIV {_MINUTE} % 60)')}, ':', {_TWO.format(f'(abs({_U}) DIV 1000000 % 60)')}, {_FRACTION})"
)
_TEXT = (
    f"if(_p0 IS NULL, NULL, concat_ws(' ', {_format_count(f'({_M} DIV 12)', 'year')}, {_format_count(f'({_M} % 12)', 'mon')}, "
    f"{_format_count(_D, 'day')}, if({_U} <> 0 OR ({_M} = 0 AND {_D} = 0), {_TIME}, NULL)))"
)


def build_age(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    """Return `age(a, b)`, or that of midnight today and a moment, as a marked span."""
    if len(arguments) not in (1, 2):
        return None
    moments = [exp.CurrentDate(), *arguments] if len(arguments) == 1 else arguments
    for moment in arguments:
        text = isinstance(moment, exp.Literal) and moment.is_string
        if not text and type_of(moment) not in _MOMENTS:
            raise Untranslatable("age of a value whose type is not certain", "CAST it to date or timestamp")
    plain = exp.DataType.Type.TIMESTAMPNTZ
    casts = [exp.Cast(this=part.copy(), to=exp.DataType(this=plain)) for part in moments]
    return mark_type(fill_tree(_AGE, *casts), SPAN)


def attach_text(span: exp.Expr, text: str) -> exp.Expr:
    """Return an interval that was written out, which keeps its text."""
    span.meta[_SAID] = text
    return span


def extract_span_field(node: exp.Extract, type_of: TypeOf) -> exp.Expr | None:
    """Return `EXTRACT(YEAR FROM age(a, b))`, or a field of an interval that is written out; None for anything else."""
    parts = _split_span(node.expression, type_of)
    if parts is None:
        return None
    text = _PARTS.get(node.name.upper().removesuffix("S") if len(node.name) > 1 else "") or _PARTS.get(
        node.name.upper()
    )
    if text is None:
        raise Untranslatable(
            f"the field {node.name} of a span", f"the fields are {', '.join(_PARTS).lower()}"
        )
    return exp.Paren(this=fill_tree(text, parts))


def format_span(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return PostgreSQL's text of a span: of age(), of one that is written out, or of days and less; None for anything else."""
    parts = _split_span(node, type_of)
    if parts is None and _is_computed_days(node, type_of):
        micros = "(CAST(extract(DAY FROM _p0) AS BIGINT) * 86400 + extract(HOUR FROM _p0) * 3600 + extract(MINUTE FROM _p0) * 60)"
        micros = f"({micros} * 1000000 + CAST(extract(SECOND FROM _p0) * 1000000 AS BIGINT))"
        whole = f"array(CAST(0 AS BIGINT), {micros} DIV {_DAY}, {micros} % {_DAY})"
        parts = fill_tree(f"if(_p0 IS NULL, NULL, {whole})", node)
    return None if parts is None else fill_tree(_TEXT, parts)


def _is_computed_days(node: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether an expression is an interval of days and less that was computed."""
    if (type_of(node) or "").startswith("interval day"):
        return True
    inner = node.unnest()
    match inner:
        case exp.Neg():
            return _is_days(inner.this, type_of)
        case exp.Mul():
            sides = inner.this, inner.expression
            return any(
                _is_days(side, type_of) and is_number(type_of(other) or "")
                for side, other in (sides, sides[::-1])
            )
        case exp.Div():
            return _is_days(inner.this, type_of) and is_number(type_of(inner.expression) or "")
        case exp.Add() | exp.Sub():
            return _is_days(inner.this, type_of) and _is_days(inner.expression, type_of)
    return False


def _is_days(node: exp.Expr, type_of: TypeOf) -> bool:
    is_literal = isinstance(node.unnest(), exp.Interval) and not has_months(node)
    return is_literal or _is_computed_days(node, type_of)


def compare_spans(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a comparison of which a side is a span of age(): by their lengths, months having 30 days."""
    if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    sides = node.this, node.expression
    if not any(type_of(side) == SPAN for side in sides):
        return None
    texts = [isinstance(side, exp.Literal) and side.is_string for side in sides]
    parts = [
        _parse_span(side.name) if text else _split_span(side, type_of)
        for side, text in zip(sides, texts, strict=True)
    ]
    if parts[0] is None or parts[1] is None:
        raise Untranslatable("age() beside something else than an interval", "write interval '5 years'")
    return type(node)(this=fill_tree(_LENGTH, parts[0]), expression=fill_tree(_LENGTH, parts[1]))


def refuse_spans(tree: exp.Expr) -> None:
    """Raise NotSaid for a span that nothing takes apart: no column can hold it."""
    if any(get_mark(node) == SPAN for node in tree.walk()):
        hint = "take its parts by EXTRACT(YEAR FROM age(a, b)), compare it, or CAST it to text"
        raise Untranslatable("a span of months and days as a value", hint)


def _split_span(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    inner = node.unnest()
    if type_of(inner) == SPAN:
        return strip_mark(inner)
    text = inner.meta.get(_SAID)
    return None if text is None else _parse_span(text)


def _parse_span(text: str) -> exp.Expr | None:
    found = parse_span_fields(text)
    return None if found is None else fill_tree(f"array({', '.join(f'{n}L' for n in found)})")


_WORD = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_DAYS = {"day": 1, "days": 1, "d": 1, "week": 7, "weeks": 7, "w": 7}


def parse_span_fields(text: str) -> tuple[int, int, int] | None:
    """Return months, days and microseconds of a text: days are not made of hours, nor hours of days.

    >>> parse_span_fields("1 mon 36 hours"), parse_span_fields("1 day 12:00")
    ((1, 0, 129600000000), (0, 1, 43200000000))
    """
    found = parse_calendar_interval(text)
    if found is None:
        return None
    months, rest = found
    micros = rest.days * _DAY + rest.seconds * 1_000_000 + rest.microseconds
    low = text.strip().lower()
    sign = -1 if low.endswith(" ago") else 1
    days = sum(
        (Fraction(number) * _DAYS[word] for number, word in _WORD.findall(low) if word in _DAYS), Fraction()
    )
    if clock := re.match(r"([+-]?\d+)\s+[+-]?\d+:", low):
        days += int(clock[1])
    if iso := re.match(r"p(?:[^t]*?([+-]?[\d.]+)w)?(?:[^t]*?([+-]?[\d.]+)d)?", low):
        days += Fraction(iso[1] or 0) * 7 + Fraction(iso[2] or 0)
    whole = sign * int(days)
    return months, whole, micros - whole * _DAY
