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


def timestamps(text: pa.Array[Any], kind: pa.TimestampType) -> pa.Array[Any]:
    """Return texts as times; one without a zone is of UTC. Raises ArrowInvalid for one that is none.

    A text with a zone does not fit a type without one.
    """
    parts = _parts(text, _TIMESTAMP)
    zoned = pc.or_(_has(parts, "utc"), _has(parts, "sign"))
    if kind.tz is None and pc.any(zoned, min_count=0).as_py():
        raise pa.ArrowInvalid("a time with a zone, in a column without one")
    local = _moments(parts)
    if kind.tz is None:
        return local.cast(kind)
    moved = pc.subtract(local.cast(pa.int64()), _offsets(parts))
    return moved.cast(pa.timestamp("us", "UTC")).cast(kind)


def dates(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return texts as dates; a time beside one has to be midnight. Raises ArrowInvalid for one that is none."""
    parts = _parts(text, _MIDNIGHT)
    return _joined(_day(parts)).cast(kind)


def times(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return texts as times of day. Raises ArrowInvalid for one that is none."""
    clock = _joined(["1970-01-01 ", *_clock(_parts(text, _TIME))])
    return clock.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(kind)


def _parts(text: pa.Array[Any], pattern: str) -> pa.StructArray:
    found = pc.extract_regex(text, pattern)
    if found.null_count > text.null_count:
        raise pa.ArrowInvalid("no text of a time")
    return found


def _part(parts: pa.StructArray, name: str, digits: int = 2) -> pa.Array[Any]:
    """Return a part with leading zeros, zeros where it is left out."""
    return pc.utf8_lpad(pc.struct_field(parts, name), digits, "0")


def _has(parts: pa.StructArray, name: str) -> pa.Array[Any]:
    return pc.not_equal(pc.struct_field(parts, name), "")


def _day(parts: pa.StructArray) -> list[Any]:
    return [_part(parts, "year", 4), "-", _part(parts, "month"), "-", _part(parts, "day")]


def _clock(parts: pa.StructArray) -> list[Any]:
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0"), 0, 6)
    return [_part(parts, "hour"), ":", _part(parts, "minute"), ":", _part(parts, "second"), ".", fraction]


def _moments(parts: pa.StructArray) -> pa.Array[Any]:
    return _joined([*_day(parts), " ", *_clock(parts)]).cast(pa.timestamp("us"))


def _joined(parts: list[Any]) -> pa.Array[Any]:
    found: pa.Array[Any] = pc.binary_join_element_wise(*parts, "")
    return found


def _offsets(parts: pa.StructArray) -> pa.Array[Any]:
    """Return how far each text's zone is from UTC, in microseconds; raises ArrowInvalid for one that no zone is."""
    hours, minutes, seconds = (
        _part(parts, name).cast(pa.int64()) for name in ("hours", "minutes", "seconds")
    )
    if pc.any(pc.or_(pc.greater(minutes, 59), pc.greater(seconds, 59)), min_count=0).as_py():
        raise pa.ArrowInvalid("no zone is so far from UTC")
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    sign = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), -1_000_000, 1_000_000)
    return pc.multiply(whole, sign)
