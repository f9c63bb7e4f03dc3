"""Dates and times that files write in a form of their own: a format in the words of strptime, or a count since 1970.

A TIME is counted since midnight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import choose_values, repeat_value
from engine.sql.typing.column_conversion import Reads, convert_to_type

COUNTS: Mapping[str, int] = {"epoch": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
"""The words for a count since 1970, and how many microseconds one is."""
DAYS = "epoch_days"
OF_DAY: Mapping[str, int] = {
    "since_midnight": 1_000_000,
    "since_midnight_ms": 1_000,
    "since_midnight_us": 1,
}
"""The words for a count of a TIME."""
Of = Literal["date", "timestamp", "time"]
FORMAT_OPTIONS: Mapping[str, Of] = {
    "date_format": "date",
    "timestamp_format": "timestamp",
    "time_format": "time",
}
"""The options that say how values of a type are written."""
AS_SHOWN: Mapping[Of, str] = {"date": "%d/%m/%Y", "timestamp": "%d/%m/%Y %H:%M", "time": "%H:%M"}
_WORDS: Mapping[Of, tuple[str, ...]] = {"date": (DAYS,), "timestamp": (*COUNTS,), "time": (*OF_DAY,)}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_PARTS: Mapping[str, str] = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d{2})",
    "m": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<I>\d{1,2})",
    "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})",
    "f": r"(?P<f>\d{1,9})",
    "p": r"(?P<p>[AaPp][Mm])",
    "b": r"(?P<b>[A-Za-z]{3})",
    "B": r"(?P<B>[A-Za-z]{3,9})",
    "z": r"(?P<z>[Zz]|[+-]\d{2}:?\d{2})",
    "%": "%",
}
_NO_TIME = "?"
_OF_TIME = {"H", "I", "M", "S", "f", "p"}
_DAYS_KNOWN = (-719_162, 2_932_896)
_MICROS_KNOWN = (_DAYS_KNOWN[0] * 86_400_000_000, (_DAYS_KNOWN[1] + 1) * 86_400_000_000 - 1)
"""The days, and microseconds, of the years 1 to 9999."""
_MICROS_OF_A_DAY = 86_400_000_000


class Formats(NamedTuple):
    """How dates and times are written in texts, whole columns and parts of nested ones; None is as ISO 8601 has them."""

    date: str | None = None
    timestamp: str | None = None
    time: str | None = None

    @property
    def reads(self) -> Reads | None:
        """What gives texts of a type as ISO 8601 has them, None where each is written so."""
        return self._in_iso if any(self) else None

    def _in_iso(self, texts: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
        of = _of(kind)
        format = None if of is None else getattr(self, of)
        return texts if format is None else convert_to_iso(texts, format, kind)


def _of(kind: pa.DataType) -> Of | None:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return "date" if pa.types.is_date(kind) else "time" if pa.types.is_time(kind) else None


def validate_format(text: str, of: Of) -> str | None:
    """Return why a text is no format of dates or of times, None if it is one."""
    if text in _WORDS[of]:
        return None
    found = re.findall(r"%(.?)", text)
    known = [part for part in _PARTS if of != "time" or part in _OF_TIME or part == "%"]
    unknown = next((part for part in found if part not in known), None)
    if unknown is not None:
        return f"%{unknown} is none of {', '.join('%' + part for part in known)}"
    parts = [part for part in found if part != "%"]
    if len(set(parts)) < len(parts):
        return "it has a part twice"
    told = set(parts)
    if of == "time" and not told & {"H", "I"}:
        return f"it has to tell the hour, as {AS_SHOWN[of]}"
    if of != "time" and (len({"Y", "y"} & told) != 1 or len({"m", "b", "B"} & told) != 1 or "d" not in parts):
        return f"it has to tell the year, the month and the day once, as {AS_SHOWN[of]}"
    if len({"H", "I"} & set(parts)) == 2 or ("I" in parts) != ("p" in parts):
        return "hours are %H, or %I with %p"
    return None


def convert_to_iso(values: pa.Array[Any], format: str, kind: pa.DataType) -> pa.Array[Any]:
    """Return texts in a format as values, or as texts that ISO 8601 has; what does not fit it is a text that is no time."""
    texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
    if format == DAYS or format in COUNTS or format in OF_DAY:
        return _convert_counts(texts, format, kind)
    found: Any = pc.extract_regex(texts, _build_pattern(format))
    parts = {field.name: found.field(field.name) for field in found.type}
    if pa.types.is_time(kind):
        iso = choose_values(found.is_null(), pa.scalar(_NO_TIME), _convert_time(parts))
        return choose_values(texts.is_null(), pa.scalar(None, pa.string()), iso)
    iso = _join_parts([_convert_year(parts), _convert_month(parts), _pad_two(parts["d"])], "-")
    if not pa.types.is_date(kind) or parts.keys() & _OF_TIME:
        iso = _join_parts([iso, _convert_time(parts)], " ")
    unfit = pc.and_(found.is_null(), texts.is_valid())
    if pa.types.is_date(kind):
        moments = convert_to_type(choose_values(unfit, pa.scalar(_NO_TIME), iso), pa.timestamp("us")).values
        iso = moments.cast(pa.date32(), safe=False).cast(pa.string())
        unfit = pc.and_(moments.is_null(), texts.is_valid())
    elif "z" in parts:
        iso = _join_parts([iso, parts["z"]], "")
    return choose_values(unfit, pa.scalar(_NO_TIME), iso)


def _build_pattern(format: str) -> str:
    pieces = re.split(r"%(.)", format)
    return "^" + "".join(_PARTS[piece] if n % 2 else re.escape(piece) for n, piece in enumerate(pieces)) + "$"


def _convert_counts(texts: pa.Array[Any], format: str, kind: pa.DataType) -> pa.Array[Any]:
    """Return counts as texts that ISO 8601 has; what is none, or of a year that is none, is a text that is no time."""
    each = 1 if format == DAYS else {**COUNTS, **OF_DAY}[format]
    first, last = _DAYS_KNOWN if format == DAYS else _MICROS_KNOWN
    first, last = (0, _MICROS_OF_A_DAY - 1) if format in OF_DAY else (first, last)
    whole = pc.match_substring_regex(texts, r"^[+-]?\d{1,18}$")
    numbers = pc.if_else(whole, texts, pa.scalar(None, pa.string())).cast(pa.int64())
    inside = pc.and_(
        pc.greater_equal(numbers, pa.scalar(-(-first // each))),
        pc.less_equal(numbers, pa.scalar(last // each)),
    )
    numbers = pc.if_else(inside, numbers, pa.scalar(None, pa.int64()))
    if format == DAYS:
        found = numbers.cast(pa.int32()).cast(pa.date32())
    elif format in OF_DAY:
        found = pc.multiply(numbers, pa.scalar(each)).cast(pa.time64("us"))
    else:
        found = pc.multiply(numbers, pa.scalar(each)).cast(kind)
    return choose_values(
        pc.and_(found.is_null(), texts.is_valid()), pa.scalar(_NO_TIME), found.cast(pa.string())
    )


def _convert_year(parts: Mapping[str, pa.Array[Any]]) -> pa.Array[Any]:
    if "Y" in parts:
        return parts["Y"]
    short = parts["y"]  # as POSIX has it: 69 to 99 are of the century before
    old = pc.greater_equal(short, pa.scalar("69"))
    return _join_parts([pc.if_else(old, "19", "20"), short], "")


def _convert_month(parts: Mapping[str, pa.Array[Any]]) -> pa.Array[Any]:
    if "m" in parts:
        return _pad_two(parts["m"])
    name = next(part for part in ("b", "B") if part in parts)
    known = pa.array(_MONTHS if name == "b" else _LONG_MONTHS)
    number = pc.add(pc.index_in(pc.utf8_lower(parts[name]), value_set=known), 1)
    two: pa.Array[Any] = pc.if_else(number.is_null(), _NO_TIME, _pad_two(number.cast(pa.string())))
    return two


def _convert_time(parts: Mapping[str, pa.Array[Any]]) -> pa.Array[Any]:
    rows = len(next(iter(parts.values())))
    zero = repeat_value(pa.scalar("00"), rows)
    hour = _pad_two(parts["H"]) if "H" in parts else _convert_half_day_hour(parts) if "I" in parts else zero
    minute, second = (_pad_two(parts[part]) if part in parts else zero for part in ("M", "S"))
    whole = _join_parts([hour, minute, second], ":")
    return _join_parts([whole, parts["f"]], ".") if "f" in parts else whole


def _convert_half_day_hour(parts: Mapping[str, pa.Array[Any]]) -> pa.Array[Any]:
    """Return the hour of a day of twice twelve hours, of which 12 is the first."""
    hour = pc.if_else(pc.equal(parts["I"], pa.scalar("")), pa.scalar(None, pa.string()), parts["I"]).cast(
        pa.int64()
    )
    inside = pc.and_(pc.greater(hour, pa.scalar(0)), pc.less_equal(hour, pa.scalar(12)))
    of_day = pc.add(
        pc.if_else(pc.equal(hour, pa.scalar(12)), 0, hour),
        pc.if_else(pc.equal(pc.utf8_lower(parts["p"]), pa.scalar("pm")), 12, 0),
    )
    two: pa.Array[Any] = pc.if_else(inside, _pad_two(of_day.cast(pa.string())), _NO_TIME)
    return two


def _pad_two(digits: pa.Array[Any]) -> pa.Array[Any]:
    two: pa.Array[Any] = pc.utf8_lpad(digits, 2, "0")
    return two


def _join_parts(parts: list[pa.Array[Any]], between: str) -> pa.Array[Any]:
    join: Callable[..., pa.Array[Any]] = pc.binary_join_element_wise
    return join(*parts, between)
