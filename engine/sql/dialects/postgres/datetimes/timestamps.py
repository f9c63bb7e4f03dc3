"""Functions of Postgres over moments: formats, units, zones."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.datetimes.overlaps import translate_overlaps
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import Rules, TypeOf, build_call, read_text

_CODES = re.compile(r"%-?[YymdHIMSfjpbB%]")

_CODE_OF = {
    "yyyy": "%Y",
    "month": "%B",
    "mon": "%b",
    "mm": "%m",
    "dd": "%d",
    "hh24": "%H",
    "hh12": "%I",
    "hh": "%I",
    "mi": "%M",
    "ss": "%S",
}
_UNITS = {
    "MICROSECOND": ("MICROSECOND", "MICROSECONDS", "US", "USEC", "USECS"),
    "MILLISECOND": ("MILLISECOND", "MILLISECONDS", "MS", "MSEC", "MSECS"),
    "SECOND": ("SECOND", "SECONDS", "S", "SEC", "SECS"),
    "MINUTE": ("MINUTE", "MINUTES", "M", "MIN", "MINS"),
    "HOUR": ("HOUR", "HOURS", "H", "HR", "HRS"),
    "DAY": ("DAY", "DAYS", "D"),
    "WEEK": ("WEEK", "WEEKS", "W"),
    "MONTH": ("MONTH", "MONTHS", "MON", "MONS"),
    "QUARTER": ("QUARTER", "QTR"),
    "YEAR": ("YEAR", "YEARS", "Y", "YR", "YRS"),
    "DECADE": ("DECADE", "DECADES", "DEC", "DECS"),
    "CENTURY": ("CENTURY", "CENTURIES", "C", "CENT"),
    "MILLENNIUM": ("MILLENNIUM", "MILLENNIA", "MIL", "MILS"),
}
"""The units of date_trunc as PostgreSQL reads them (datetime.c of its source), by Spark's word for them."""
_SPARKS = "of Spark"  # a call that means what Spark's function means
_YEARS_OF = {"DECADE": (10, 0), "CENTURY": (100, 1), "MILLENNIUM": (1000, 1)}
"""How many years, and the number of the first of one."""
_PATTERNS = re.compile(rf"(%-?\w)|({'|'.join(_CODE_OF)})", re.IGNORECASE)
"""Patterns of a format that sqlglot leaves: PostgreSQL reads them in either case, and HH as the hour of a half day."""


def _translate_to_char(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    if node.meta.get(_SPARKS):
        return None
    text = read_text(node.args.get("format"), "a format")
    said = _PATTERNS.sub(lambda found: found[1] or _CODE_OF[found[2].lower()], text)
    if said != text:
        text = said
        node.set("format", exp.Literal.string(text))
    if re.search(r"[A-Za-z\"]", _CODES.sub("", text)):
        raise Untranslatable(
            f"a part of the format that reads {_CODES.sub(' ', text).strip()}", "use YYYY MM DD HH24 MI SS"
        )
    if "%y" not in text.lower():
        raise Untranslatable("a date without its year, which would be year 0,", "write YYYY and the year")
    if "%y" not in text:
        return None
    moment = node.copy()
    moment.meta[_SPARKS] = True
    return fill_tree("if(year(_p0) >= 2070, _p0 - make_ym_interval(100, 0), _p0)", moment)  # 70 is 1970


def _translate_from_parts(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return build_call(
        "make_timestamp_ntz", *(node.args[part] for part in ("year", "month", "day", "hour", "min", "sec"))
    )


def _translate_from_epoch(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return build_call("timestamp_seconds", node.this)


def _translate_date_trunc(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """The result has a zone only if the moment has one; Spark knows no units of several years.

    `date_trunc('decade', t)` -> the first moment of the year less the years since the decade began.
    """
    if node.meta.get(_SPARKS):
        return None
    if node.args.get("zone") is not None:
        raise Untranslatable("date_trunc in a time zone", "write date_trunc(unit, moment AT TIME ZONE zone)")
    unit_name = node.args["unit"].name.upper()
    unit = next((unit for unit, words in _UNITS.items() if unit_name in words), None)
    if unit is None:
        raise Untranslatable(
            f"date_trunc of {unit_name.lower()}", f"the units are {', '.join(_UNITS).lower()}"
        )
    plain = type_of(node.this) == "timestamp_ntz"
    kind = exp.DataType.Type.TIMESTAMPNTZ if plain else exp.DataType.Type.TIMESTAMPLTZ
    years, first = _YEARS_OF.get(unit, (1, 0))
    word = "YEAR" if years > 1 else unit
    truncated = exp.TimestampTrunc(this=node.this.copy(), unit=exp.Var(this=word))
    truncated.meta[_SPARKS] = True
    whole = exp.Cast(this=truncated, to=exp.DataType(this=kind))
    if years == 1:
        return whole
    year = exp.Extract(this=exp.Var(this="YEAR"), expression=node.this.copy())
    since = exp.Paren(this=exp.Sub(this=year, expression=exp.Literal.number(first)))
    return exp.Paren(
        this=exp.Sub(
            this=whole, expression=build_call("make_ym_interval", build_call("pmod", since, years), 0)
        )
    )


_FIRST = "convert_timezone(_p1, 'UTC', _p0)"
_DAY_LATER = f"try_add({_FIRST}, INTERVAL '24' HOUR)"
_WITH_LATER_OFFSET = f"try_subtract(_p0, convert_timezone('UTC', _p1, {_DAY_LATER}) - {_DAY_LATER})"
_SECOND = f"if(convert_timezone('UTC', _p1, {_WITH_LATER_OFFSET}) = _p0, {_WITH_LATER_OFFSET}, {_FIRST})"
_OFFSET = re.compile(r"(?:UTC|GMT|Z|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?)", re.IGNORECASE)


def _is_fixed(zone: exp.Expr) -> bool:
    """Tell whether a zone has one offset for all times, so that no local time comes twice."""
    return isinstance(zone, exp.Literal) and _OFFSET.fullmatch(zone.name.strip()) is not None


def _translate_at_zone(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A moment with a zone loses it, one without gets it; Spark computes in UTC.

    Of a local time that comes twice Spark takes the first, PostgreSQL the second: the one with the offset that holds a day later.
    """
    kind, zone = type_of(node.this), node.args["zone"]
    plain = exp.DataType(this=exp.DataType.Type.TIMESTAMPNTZ)
    if kind == "timestamp":
        return build_call("convert_timezone", "UTC", zone, exp.Cast(this=node.this.copy(), to=plain))
    if kind in ("timestamp_ntz", "date"):
        local = exp.Cast(this=node.this.copy(), to=plain)
        moved = fill_tree(_FIRST if _is_fixed(zone) else _SECOND, local, zone)
        return exp.Cast(this=moved, to=exp.DataType(this=exp.DataType.Type.TIMESTAMPLTZ))
    raise Untranslatable(
        "AT TIME ZONE of a value whose type is not certain", "CAST it to timestamp or timestamptz"
    )


RULES_OF_MOMENTS: Rules = {
    exp.Overlaps: translate_overlaps,
    exp.StrToTime: _translate_to_char,
    exp.StrToDate: _translate_to_char,
    exp.UnixToTime: _translate_from_epoch,
    exp.TimestampTrunc: _translate_date_trunc,
    exp.AtTimeZone: _translate_at_zone,
    exp.TimestampFromParts: _translate_from_parts,
}
