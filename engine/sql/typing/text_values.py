"""Texts become values of a type: vectorised, and only the texts that are none are looked for one by one."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import choose_values, make_nulls
from engine.sql.typing import time_texts

TRUE_WORDS = pa.array(["true", "t", "yes", "y", "1"])
FALSE_WORDS = pa.array(["false", "f", "no", "n", "0"])
_ZONE = r"(?:[Zz]|[+-]\d{2}:?\d{2})$"
_FAR_ZONE = r"[+-](?:18|19|[2-9]\d):?\d{2}$"
"""Zones that may be further from UTC than any is: Arrow takes all of two digits."""
REFUSED = (
    pa.ArrowException,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What Arrow and Python raise where a value is none of a type: they refuse it in many ways."""
_MOST_DIGITS = 200
_FIRST_DAY, _LAST_DAY = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
_FIRST_TIME = datetime.datetime(1, 1, 1)
_LAST_TIME = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)


@dataclass(frozen=True)
class ParsedTexts:
    """Texts as values of a type; `bad` are the rows whose text is none, null in `values`."""

    values: pa.Array[Any]
    bad: np.ndarray


def parse_texts(texts: pa.Array[Any], kind: pa.DataType) -> ParsedTexts:
    """Return texts as values of `kind`, which is not nested: ISO dates and times, decimal numbers, true/false."""
    bad: list[int] = []
    parts: list[pa.Array[Any]] = []
    try:
        _parse_values(texts.slice(0, 0), kind)
    except REFUSED:  # no text is one, whatever it is
        return ParsedTexts(
            make_nulls(len(texts), kind), np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        )
    _convert_slice(texts, kind, 0, parts, bad)
    joined = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return ParsedTexts(joined, np.asarray(bad, dtype=np.int64))


def _convert_slice(
    values: pa.Array[Any], kind: pa.DataType, start: int, parts: list[pa.Array[Any]], bad: list[int]
) -> None:
    """Convert; where that fails, halve until the values that do not fit stand alone."""
    try:
        converted = _parse_values(values, kind)
        check_range(converted)
        parts.append(converted)
        return
    except REFUSED:
        if len(values) == 1:
            parts.append(make_nulls(1, kind))
            bad.append(start)
            return
    half = len(values) // 2
    _convert_slice(values.slice(0, half), kind, start, parts, bad)
    _convert_slice(values.slice(half), kind, start + half, parts, bad)


def check_range(values: pa.Array[Any]) -> None:
    """Raise ArrowInvalid for a date or a time that neither Spark nor Python has: years are 1 to 9999."""
    kind = values.type
    if pa.types.is_date(kind):
        first, last = _FIRST_DAY, _LAST_DAY
    elif pa.types.is_timestamp(kind) and kind.unit != "ns":
        plain = pa.timestamp(kind.unit)
        first, last = _FIRST_TIME, _LAST_TIME
        kind, values = plain, values.cast(pa.int64()).cast(plain)
    else:
        return
    found = pc.min_max(values)
    if found["min"].is_valid and not (
        pc.less_equal(pa.scalar(first, kind), found["min"]).as_py()
        and pc.less_equal(found["max"], pa.scalar(last, kind)).as_py()
    ):
        raise pa.ArrowInvalid("out of range")


def _assume_utc(times: pa.Array[Any]) -> pa.Array[Any]:
    zoned: pa.Array[Any] = pc.assume_timezone(times, "UTC")  # type: ignore[call-overload]  # the stubs want one unit
    return zoned


def _parse_values(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return text.cast(kind)
    trimmed = pc.utf8_trim_whitespace(text)
    if pa.types.is_boolean(kind):
        return _parse_booleans(trimmed)
    if pa.types.is_integer(kind):
        return _parse_integers(trimmed, kind)
    if pa.types.is_timestamp(kind):
        try:
            return _parse_timestamps(trimmed, kind)
        except pa.ArrowInvalid:
            return time_texts.parse_timestamps(trimmed, kind)
    if pa.types.is_date(kind):
        try:
            return trimmed.cast(kind)
        except pa.ArrowInvalid:
            return time_texts.parse_dates(trimmed, kind)
    if pa.types.is_time(kind):
        return time_texts.parse_times(trimmed, kind)
    if pa.types.is_decimal128(kind):
        return _parse_decimals(trimmed, kind)
    if pa.types.is_floating(kind):
        return _parse_floats(trimmed, kind)
    if pa.types.is_duration(kind):
        return _parse_durations(trimmed, kind)
    return trimmed.cast(kind)


def _parse_booleans(text: pa.Array[Any]) -> pa.Array[Any]:
    lower = pc.utf8_lower(text)
    true, false = pc.is_in(lower, TRUE_WORDS), pc.is_in(lower, FALSE_WORDS)
    if not pc.all(pc.or_(pc.or_(true, false), pc.is_null(text)), min_count=0).as_py():
        raise pa.ArrowInvalid("neither true nor false")
    return choose_values(pc.is_null(text), pa.scalar(None, pa.bool_()), true)


def _parse_integers(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    if any(_any_match(text, mark) for mark in "xX"):  # Arrow takes "0xFF" for -1 of eight bits
        raise pa.ArrowInvalid("a number of hexadecimal digits")
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:  # "517.0": a whole number from a tool that knows no nulls among integers
        return pc.replace_substring_regex(text, r"^(?:\+|(-))?(\d+)(?:\.0*)?$", r"\1\2").cast(kind)


def _parse_floats(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Cast; Arrow makes a number beyond the type infinite, and takes "nan(5)" for NaN."""
    if _any_match(text, "("):
        raise pa.ArrowInvalid("no number")
    values: pa.Array[Any] = text.cast(kind)
    endless = pc.is_inf(values)
    if pc.any(endless, min_count=0).as_py():
        named = pc.match_substring(text, "inf", ignore_case=True)
        if not pc.all(pc.or_(named, pc.invert(endless)), min_count=0).as_py():
            raise pa.ArrowInvalid("a number beyond the type")
    return values


def _parse_decimals(text: pa.Array[Any], kind: pa.Decimal128Type) -> pa.Array[Any]:
    """Cast what fits for certain; Arrow 26 wraps around at more digits, and ends the process at large exponents."""
    whole, scale = kind.precision - kind.scale, kind.scale
    if not _all_match(text, r"^[+-]?\d*\.?\d*$"):
        text = pa.array(
            [None if item is None else _expand_exponent(item) for item in text.to_pylist()], pa.string()
        )
    if not _all_match(text, rf"^[+-]?0*\d{{0,{whole}}}(?:\.\d{{0,{scale}}}0*)?$"):
        raise pa.ArrowInvalid("more digits than the type has")
    if scale == 0:  # of ".0" a dot would be left
        text = pc.replace_substring_regex(text, r"^([+-]?)(\.0)", r"\10\2")
    return pc.replace_substring_regex(text, rf"(\.\d{{{scale}}})0+$", r"\1").cast(kind)


def _parse_durations(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Read seconds, with a fraction of six digits at most."""
    seconds = _parse_decimals(text, pa.decimal128(38, 6))
    micros = [None if one is None else int(one.scaleb(6)) for one in seconds.to_pylist()]
    return pa.array(micros, pa.int64()).cast(pa.duration("us")).cast(kind)


def _all_match(text: pa.Array[Any], pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py()


def _any_match(text: pa.Array[Any], part: str) -> bool:
    return pc.any(pc.match_substring(text, part), min_count=0).as_py()


def _expand_exponent(text: str) -> str:
    """Write a number without an exponent; raises ValueError for what is no number, or has more digits than any type."""
    try:
        number = Decimal(text) if len(text) <= _MOST_DIGITS else Decimal("nan")
    except InvalidOperation:
        raise ValueError("no number") from None
    exponent = number.as_tuple().exponent
    if "_" in text or not isinstance(exponent, int) or abs(exponent) > _MOST_DIGITS:
        raise ValueError("no number that a decimal holds")
    return f"{number:f}"


def _parse_timestamps(text: pa.Array[Any], kind: pa.TimestampType) -> pa.Array[Any]:
    zoned = pc.match_substring_regex(text, _ZONE)
    # A date alone ends in "-dd", which is no zone: those have no time part.
    zoned = pc.and_(zoned, pc.match_substring_regex(text, r"[T ]\d"))
    some, every = pc.any(zoned, min_count=0).as_py(), pc.all(zoned, min_count=0).as_py()
    plain = pa.timestamp(kind.unit)
    if kind.tz is None:
        if some:
            raise pa.ArrowInvalid("a time with a zone, in a column without one")
        return text.cast(plain)
    with_zone = pa.timestamp(kind.unit, "UTC")
    if not some:
        return _assume_utc(text.cast(plain)).cast(kind)
    if pc.any(pc.and_(zoned, pc.match_substring_regex(text, _FAR_ZONE)), min_count=0).as_py():
        raise pa.ArrowInvalid("a zone that may be too far from UTC")
    if every:
        return text.cast(with_zone).cast(kind)
    nothing = pa.scalar(None, pa.string())
    left = pc.if_else(zoned, text, nothing).cast(with_zone)
    right = pc.assume_timezone(pc.if_else(zoned, nothing, text).cast(plain), "UTC")
    return pc.coalesce(left, right).cast(kind)
