"""Texts of dates and times as databases, languages and tools write them.

The order is always year, month, day; what is written in another order, with names of months or with AM and PM, is refused. Digits
behind the microsecond are cut off, as Spark's casts do.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_DATE = r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_SECOND = r"(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d+))?)?"
_CLOCK = rf"(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{1,2}}){_SECOND})?"
_OFFSET = r"(?i:utc|gmt)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2})(?::?(?P<seconds>\d{2}))?)?"
_NAMED = r"(?: [A-Z]{1,5}|\[[^\[\]]*\])"
"""The zone by its name behind the offset, as Go and Java write it: the offset says all that is needed."""
_ZONE = rf"(?: ?(?:(?P<utc>(?i:z|utc|gmt))|{_OFFSET}){_NAMED}?)?"
_TIMESTAMP = rf"^{_DATE}(?:(?:[Tt]| +){_CLOCK}{_ZONE})?$"
_MIDNIGHT = rf"^{_DATE}(?:(?:[Tt]| +)0?0:00(?::00(?:[.,]0+)?)?)?$"
_TIME = rf"^(?P<hour>\d{{1,2}}):(?P<minute>\d{{1,2}}){_SECOND}$"

FURTHEST_ZONE = 18 * 3_600
"""Seconds from UTC of the zones that are furthest from it, as Java and so Spark have them."""

_Parts = dict[str, pa.StringArray]
"""What a pattern finds of texts, by the names of its groups; "" where a part is left out."""


def parse_timestamps(text: pa.Array[Any], kind: pa.TimestampType) -> pa.Array[Any]:
    """Return texts as times; one without a zone is of UTC. Raises ArrowInvalid for one that is none.

    A text with a zone does not fit a type without one.
    """
    parts = _split_parts(text, _TIMESTAMP)
    plain = pc.and_(_match_part(parts, "utc", ""), _match_part(parts, "sign", ""))
    if kind.tz is None and not pc.all(plain, min_count=0).as_py():
        raise pa.ArrowInvalid("a time with a zone, in a column without one")
    local = _join_parts(*_format_day(parts), " ", *_format_clock(parts)).cast(pa.timestamp("us"))
    if kind.tz is None:
        return local.cast(kind)
    moved: pa.Array[Any] = pc.subtract(local.cast(pa.int64()), _parse_offsets(parts))
    return moved.cast(pa.timestamp("us", "UTC")).cast(kind)


def parse_dates(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return texts as dates; a time beside one has to be midnight. Raises ArrowInvalid for one that is none."""
    return _join_parts(*_format_day(_split_parts(text, _MIDNIGHT))).cast(kind)


def parse_times(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return texts as times of day. Raises ArrowInvalid for one that is none."""
    clock = _join_parts("1970-01-01 ", *_format_clock(_split_parts(text, _TIME)))
    return clock.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(kind)


def _split_parts(text: pa.Array[Any], pattern: str) -> _Parts:
    found: pa.Array[Any] = pc.extract_regex(text, pattern)
    if found.null_count > text.null_count:
        raise pa.ArrowInvalid("no text of a time")
    assert isinstance(found, pa.StructArray)
    parts: list[Any] = found.flatten()
    return {field.name: part for field, part in zip(found.type, parts, strict=True)}


def _match_part(parts: _Parts, name: str, text: str) -> pa.BooleanArray:
    return pc.equal(parts[name], pa.scalar(text))


def _pad_part(parts: _Parts, name: str, digits: int = 2) -> pa.Array[Any]:
    """Return a part with leading zeros, zeros where it is left out."""
    return pc.utf8_lpad(parts[name], digits, "0")


def _format_day(parts: _Parts) -> list[pa.Array[Any] | str]:
    return [_pad_part(parts, "year", 4), "-", _pad_part(parts, "month"), "-", _pad_part(parts, "day")]


def _format_clock(parts: _Parts) -> list[pa.Array[Any] | str]:
    micros = pc.utf8_slice_codeunits(pc.utf8_rpad(parts["fraction"], 6, "0"), 0, 6)
    return [
        _pad_part(parts, "hour"),
        ":",
        _pad_part(parts, "minute"),
        ":",
        _pad_part(parts, "second"),
        ".",
        micros,
    ]


def _join_parts(*parts: pa.Array[Any] | str) -> pa.Array[Any]:
    mixed: list[Any] = [*parts, ""]
    found: pa.Array[Any] = pc.binary_join_element_wise(*mixed)
    return found


def _parse_offsets(parts: _Parts) -> pa.Array[Any]:
    """Return how far each text's zone is from UTC, in microseconds; raises ArrowInvalid for one that no zone is."""
    hours, minutes, seconds = (
        _pad_part(parts, name).cast(pa.int64()) for name in ("hours", "minutes", "seconds")
    )
    sixty, most = pa.scalar(60, pa.int64()), pa.scalar(59, pa.int64())
    if pc.any(pc.or_(pc.greater(minutes, most), pc.greater(seconds, most)), min_count=0).as_py():
        raise pa.ArrowInvalid("no zone is so far from UTC")
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, sixty), minutes), sixty), seconds)
    if pc.any(pc.greater(whole, pa.scalar(FURTHEST_ZONE, pa.int64())), min_count=0).as_py():
        raise pa.ArrowInvalid("no zone is so far from UTC")
    micros = pa.scalar(1_000_000, pa.int64())
    sign = pc.if_else(_match_part(parts, "sign", "-"), pc.negate(micros), micros)
    found: pa.Array[Any] = pc.multiply(whole, sign)
    return found
