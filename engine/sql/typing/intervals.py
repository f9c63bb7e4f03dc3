"""Texts of intervals as spans of days and less; months and years have no fixed length and no column type."""

from __future__ import annotations

import re
from datetime import timedelta

import sqlglot.expressions as exp

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
_MONTHS = {
    **dict.fromkeys(("month", "mon", "mons"), 1),
    **dict.fromkeys(("year", "yr", "yrs", "y"), 12),
    "decade": 120,
    "century": 1200,
    "centurie": 1200,
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_YEARS_AND_MONTHS = re.compile(r"([+-]?)(\d+)-(\d+)")
_ISO = re.compile(
    r"p(?:([+-]?[\d.]+)y)?(?:([+-]?[\d.]+)m)?(?:([+-]?[\d.]+)w)?(?:([+-]?[\d.]+)d)?"
    r"(?:t(?:([+-]?[\d.]+)h)?(?:([+-]?[\d.]+)m)?(?:([+-]?[\d.]+)s)?)?"
)
_CLOCK = re.compile(r"\s*([+-]?)(?:(\d+)\s+)?(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d{1,6})?))?\s*")
_DAY_TO_SECOND = exp.IntervalSpan(this=exp.Var(this="DAY"), expression=exp.Var(this="SECOND"))


def parse_interval(text: str, *, standard: bool = False) -> timedelta | None:
    """Return the span that a text such as '1 day 02:30:00' or '90 minutes' means; None for months, years and anything else.

    The sign of '-1 02:30' is that of the days to PostgreSQL, and in `standard` SQL, as Spark has it, that of all.
    """
    rest, total = text.strip().lower(), 0
    if not rest:
        return None
    while rest:
        if found := _CLOCK.fullmatch(rest):
            total += _parse_clock(found, standard)
            break
        found = _PART.match(rest)
        unit = _normalize_unit(found[2]) if found else None
        if found is None or unit is None:
            return None
        total += round(float(found[1]) * _MICROS[unit])
        rest = rest[found.end() :].strip()
    return timedelta(microseconds=total)


def parse_calendar_interval(text: str) -> tuple[int, timedelta] | None:
    """Return the months and the rest that a text such as '1 year 2 mons -3 days 04:05' means; None if it cannot be read."""
    rest, months = text.strip().lower(), 0
    if rest.endswith(" ago"):
        past = parse_calendar_interval(rest.removesuffix("ago"))
        return None if past is None else (-past[0], -past[1])
    if found := _YEARS_AND_MONTHS.fullmatch(rest):
        sign = -1 if found[1] == "-" else 1
        return sign * (int(found[2]) * 12 + int(found[3])), timedelta()
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", rest):
        return 0, timedelta(seconds=float(rest))
    if rest.startswith("p"):
        return _parse_iso_interval(rest)
    while found := _PART.match(rest):
        unit = found[2].removesuffix("s") if len(found[2]) > 3 else found[2]
        count = _MONTHS.get(unit)
        if count is None:
            break
        number = float(found[1]) * count
        if number != int(number):
            return None
        months += int(number)
        rest = rest[found.end() :].strip()
    if not rest:
        return (months, timedelta()) if text.strip() else None
    span = parse_interval(rest)
    return None if span is None else (months, span)


def _parse_iso_interval(text: str) -> tuple[int, timedelta] | None:
    """Return what an interval of ISO 8601 means: P1Y2M3DT4H5M6.5S."""
    found = _ISO.fullmatch(text)
    if found is None or text in ("p", "pt"):
        return None
    years, months, weeks, days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    if years != int(years) or months != int(months):
        return None
    rest = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return int(years) * 12 + int(months), rest


def evaluate_interval(node: exp.Expr) -> timedelta | None:
    """Return the span that INTERVAL '…' or CAST('…' AS INTERVAL) means, or None."""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        to_seconds = isinstance(node.to.this, exp.Interval)
        return parse_interval(node.this.name, standard=to_seconds) if is_interval(node.to) else None
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    if unit is None:
        return parse_interval(node.this.name)
    if isinstance(unit, exp.IntervalSpan):
        whole = (unit.this.name.upper(), unit.expression.name.upper()) == ("DAY", "SECOND")
        return parse_interval(node.this.name, standard=True) if whole else None
    return parse_interval(f"{node.this.name} {unit.name}")


def is_interval(kind: exp.DataType) -> bool:
    """Tell whether a type is INTERVAL, or one of its spans of days and less."""
    this = kind.this
    if this == exp.DataType.Type.INTERVAL:
        return True
    if not isinstance(this, exp.Interval):
        return False
    unit = this.args.get("unit")
    return unit is None or not re.search(r"YEAR|MONTH", unit.sql().upper())


def build_day_time_literal(span: timedelta) -> exp.Interval:
    """Return a span as Spark writes it: INTERVAL '1 02:30:00.000000' DAY TO SECOND."""
    micros = span // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, fraction = divmod(micros, 1_000_000)
    days, clock = divmod(seconds, 86_400)
    text = f"{sign}{days} {clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}.{fraction:06}"
    return exp.Interval(this=exp.Literal.string(text), unit=_DAY_TO_SECOND.copy())


def has_months(node: exp.Expr) -> bool:
    """Tell whether an expression is an interval of months, or of months and what is shorter."""
    inner = node.unnest()
    if isinstance(inner, exp.Interval):
        unit = inner.args.get("unit")
        return (
            unit is not None
            and re.search(r"YEAR|MONTH|QUARTER|DECADE|CENTURY", unit.sql().upper()) is not None
        )
    if isinstance(inner, exp.Mul | exp.Div):
        return has_months(inner.this) or has_months(inner.expression)
    if isinstance(inner, exp.Neg):
        return has_months(inner.this)
    return isinstance(inner, exp.Anonymous) and inner.name.lower() in ("make_interval", "make_ym_interval")


def is_span(node: exp.Expr) -> bool:
    """Tell whether an expression is an interval as it is written, or one multiplied, divided or negated."""
    inner = node.unnest()
    if isinstance(inner, exp.Mul | exp.Div):
        return is_span(inner.this) or is_span(inner.expression)
    if isinstance(inner, exp.Neg):
        return is_span(inner.this)
    return isinstance(inner, exp.Interval) or (isinstance(inner, exp.Cast) and is_interval(inner.to))


def _normalize_unit(text: str) -> str | None:
    plain = _SHORT.get(text, text.removesuffix("s") if len(text) > 2 else text)
    return plain if plain in _MICROS else None


def _parse_clock(found: re.Match[str], standard: bool) -> int:
    sign = -1 if found[1] == "-" else 1
    days = int(found[2] or 0) * 86_400
    seconds = int(found[3]) * 3600 + int(found[4]) * 60 + float(found[5] or 0)
    if found[2] is None or standard:
        seconds *= sign
    return round((sign * days + seconds) * 1_000_000)
