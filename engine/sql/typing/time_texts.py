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


_Parts = dict[str, pa.StringArray]
"""What a pattern finds of texts, by the names of its groups; "" where a part is left out."""


def timestamps(text: pa.Array[Any], kind: pa.TimestampType) -> pa.Array[Any]:
    """Return texts as times; one without a zone is of UTC. Raises ArrowInvalid for one that is none.

    A text with a zone does not fit a type without one.
    """
    parts = _parts(text, _TIMESTAMP)
    plain = pc.and_(_is(parts, "utc", ""), _is(parts, "sign", ""))
    if kind.tz is None and not pc.all(plain, min_count=0).as_py():
        raise pa.ArrowInvalid("a time with a zone, in a column without one")
    local = _joined(*_day(parts), " ", *_clock(parts)).cast(pa.timestamp("us"))
    if kind.tz is None:
        return local.cast(kind)
    moved: pa.Array[Any] = pc.subtract(local.cast(pa.int64()), _offsets(parts))
    return moved.cast(pa.timestamp("us", "UTC")).cast(kind)


def dates(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return texts as dates; a time beside one has to be midnight. Raises ArrowInvalid for one that is none."""
    return _joined(*_day(_parts(text, _MIDNIGHT))).cast(kind)


def times(text: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return texts as times of day. Raises ArrowInvalid for one that is none."""
    clock = _joined("1970-01-01 ", *_clock(_parts(text, _TIME)))
    return clock.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(kind)


def _parts(text: pa.Array[Any], pattern: str) -> _Parts:
    found: pa.Array[Any] = pc.extract_regex(text, pattern)
    if found.null_count > text.null_count:
        raise pa.ArrowInvalid("no text of a time")
    assert isinstance(found, pa.StructArray)
    parts: list[Any] = found.flatten()
    return {field.name: part for field, part in zip(found.type, parts, strict=True)}


def _is(parts: _Parts, name: str, text: str) -> pa.BooleanArray:
    return pc.equal(parts[name], pa.scalar(text))


def _padded(parts: _Parts, name: str, digits: int = 2) -> pa.Array[Any]:
    """Return a part with leading zeros, zeros where it is left out."""
    return pc.utf8_lpad(parts[name], digits, "0")


def _day(parts: _Parts) -> list[pa.Array[Any] | str]:
    return [_padded(parts, "year", 4), "-", _padded(parts, "month"), "-", _padded(parts, "day")]


def _clock(parts: _Parts) -> list[pa.Array[Any] | str]:
    micros = pc.utf8_slice_codeunits(pc.utf8_rpad(parts["fraction"], 6, "0"), 0, 6)
    return [_padded(parts, "hour"), ":", _padded(parts, "minute"), ":", _padded(parts, "second"), ".", micros]


def _joined(*parts: pa.Array[Any] | str) -> pa.Array[Any]:
    mixed: list[Any] = [*parts, ""]
    found: pa.Array[Any] = pc.binary_join_element_wise(*mixed)
    return found


def _offsets(parts: _Parts) -> pa.Array[Any]:
    """Return how far each text's zone is from UTC, in microseconds; raises ArrowInvalid for one that no zone is."""
    hours, minutes, seconds = (
        _padded(parts, name).cast(pa.int64()) for name in ("hours", "minutes", "seconds")
    )
    sixty, most = pa.scalar(60, pa.int64()), pa.scalar(59, pa.int64())
    if pc.any(pc.or_(pc.greater(minutes, most), pc.greater(seconds, most)), min_count=0).as_py():
        raise pa.ArrowInvalid("no zone is so far from UTC")
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, sixty), minutes), sixty), seconds)
    micros = pa.scalar(1_000_000, pa.int64())
    sign = pc.if_else(_is(parts, "sign", "-"), pc.negate(micros), micros)
    found: pa.Array[Any] = pc.multiply(whole, sign)
    return found
