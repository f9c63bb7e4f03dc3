"""Functions of dates and moments on Arrow: cut to a unit, shifted by a length of time, their parts; of all years there are.

Moments are counted in UTC: who compiles sees to it that the session's time zone is that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegerType,
    LongType,
    TimestampNTZType,
    TimestampType,
)

from engine.arrow import to_mask
from engine.operators.arrow.expressions import Inexact, Kernel, Value
from engine.operators.arrow.whole_numbers import COUNTS, WIDTHS
from engine.sql.expression.nodes import Expr, Interval, Literal, Unary

TIMES: tuple[type[DataType], ...] = (DateType, TimestampType, TimestampNTZType)
_MOMENTS = (TimestampType, TimestampNTZType)
_DAY = 86_400_000_000
_MOST_DAYS = 2**63 // _DAY
"""So many days before and after 1970 begin with a moment of 64 bits."""
_LEAST_MICROS = -(2**63)
_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": _DAY,
    "WEEK": 7 * _DAY,
}
_MONTHS = {"MONTH": 1, "YEAR": 12}
_UNITS = {
    **{name: name for name in _MICROS},
    **dict.fromkeys(("DD",), "DAY"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
}
_DATE_UNITS = ("WEEK", "MONTH", "QUARTER", "YEAR")
_LENGTH = re.compile(r"([+-]?[0-9]{1,12})\s+([A-Za-z]+)")


def read_whole(array: pa.Array[Any]) -> np.ndarray:
    """Return the numbers of whole numbers, dates (days) or moments (microseconds) as 64 bits, 0 for null."""
    whole: pa.Array[Any] = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
    numbers: np.ndarray = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def as_dates(days: np.ndarray, valid: np.ndarray) -> pa.Array[Any]:
    """Return numbers of days as dates, null where they are not `valid`."""
    return _as_ints(days, valid).cast(pa.date32())


def as_moments(micros: np.ndarray, valid: np.ndarray, kind: pa.DataType) -> pa.Array[Any]:
    """Return microseconds as moments, null where they are not `valid`."""
    return pa.array(micros, pa.int64(), mask=~valid).cast(kind)


def begin_days(days: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the microseconds with which days begin."""
    if (valid & (np.abs(days) > _MOST_DAYS)).any():
        raise Inexact("a day that no moment begins")
    micros: np.ndarray = np.where(valid, days, 0) * _DAY
    return micros


def _as_ints(numbers: np.ndarray, valid: np.ndarray) -> pa.Array[Any]:
    if (valid & ((numbers < -(2**31)) | (numbers >= 2**31))).any():
        raise Inexact("a day or a number beyond 32 bits")
    return pa.array(np.where(valid, numbers, 0).astype(np.int32), pa.int32(), mask=~valid)


def _cut_days(days: np.ndarray, unit: str) -> np.ndarray:
    """Return the first day of the week (from Monday), month, quarter or year of each day."""
    if unit == "WEEK":
        monday: np.ndarray = days - (days + 3) % 7
        return monday
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    months = months - months % {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
    first: np.ndarray = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return first


def _truncate_moments(moments: pa.Array[Any], unit: str, kind: pa.DataType) -> pa.Array[Any]:
    micros, valid = read_whole(moments), to_mask(moments.is_valid())
    if unit in _DATE_UNITS:
        return as_moments(begin_days(_cut_days(micros // _DAY, unit), valid), valid, kind)
    rest = micros % _MICROS[unit]
    if (micros < _LEAST_MICROS + rest).any():
        raise Inexact("a moment before the first one")
    return as_moments(micros - rest, valid, kind)


def _truncate_dates(dates: pa.Array[Any], unit: str) -> pa.Array[Any]:
    return as_dates(_cut_days(read_whole(dates), unit), to_mask(dates.is_valid()))


def _add_months(days: np.ndarray, months: np.ndarray | int) -> np.ndarray:
    """Return the same day of another month, or the last one that it has."""
    begins = days.astype("datetime64[D]").astype("datetime64[M]")
    moved = begins + np.asarray(months).astype("timedelta64[M]")
    first = moved.astype("datetime64[D]").astype(np.int64)
    length = (moved + 1).astype("datetime64[D]").astype(np.int64) - first
    found: np.ndarray = first + np.minimum(days - begins.astype("datetime64[D]").astype(np.int64), length - 1)
    return found


def _shift_dates(dates: pa.Array[Any], count: pa.Array[Any], sign: int) -> pa.Array[Any]:
    valid = to_mask(dates.is_valid()) & to_mask(count.is_valid())
    return as_dates(read_whole(dates) + sign * read_whole(count), valid)


def _shift_date_months(dates: pa.Array[Any], count: pa.Array[Any]) -> pa.Array[Any]:
    valid = to_mask(dates.is_valid()) & to_mask(count.is_valid())
    return as_dates(_add_months(read_whole(dates), read_whole(count)), valid)


def _shift_dates_by(dates: pa.Array[Any], months: int, days: int) -> pa.Array[Any]:
    return as_dates(_add_months(read_whole(dates), months) + days, to_mask(dates.is_valid()))


def _shift_moments_by(moments: pa.Array[Any], months: int, micros: int) -> pa.Array[Any]:
    numbers, valid = read_whole(moments), to_mask(moments.is_valid())
    if months:
        days, rest = numbers // _DAY, numbers % _DAY
        days = np.where(valid, _add_months(days, months), 0)
        if (np.abs(days) >= _MOST_DAYS).any():
            raise Inexact("a moment beyond 64 bits")
        numbers = days * _DAY + rest
    moved = numbers + np.int64(micros)
    if (valid & ((moved < numbers) if micros > 0 else (moved > numbers))).any():
        raise Inexact("a moment beyond 64 bits")
    return as_moments(moved, valid, moments.type)


def _subtract_dates(end: pa.Array[Any], start: pa.Array[Any]) -> pa.Array[Any]:
    valid = to_mask(end.is_valid()) & to_mask(start.is_valid())
    return _as_ints(read_whole(end) - read_whole(start), valid)


def _find_last_days(dates: pa.Array[Any]) -> pa.Array[Any]:
    first = read_whole(dates).astype("datetime64[D]").astype("datetime64[M]")
    return as_dates((first + 1).astype("datetime64[D]").astype(np.int64) - 1, to_mask(dates.is_valid()))


def _find_day_part(dates: pa.Array[Any], part: str) -> pa.Array[Any]:
    days, valid = read_whole(dates), to_mask(dates.is_valid())
    thursdays = days - (days + 3) % 7 + 3  # of which the year is that of the week
    match part:
        case "dayofweek":
            found = (days + 4) % 7 + 1
        case "weekday":
            found = (days + 3) % 7
        case "dayofyear":
            found = days - _cut_days(days, "YEAR") + 1
        case "weekofyear":
            found = (thursdays - _cut_days(thursdays, "YEAR")) // 7 + 1
        case _:
            found = thursdays.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    return _as_ints(found, valid)


def _divide_moments(moments: pa.Array[Any], micros: int) -> pa.Array[Any]:
    return pa.array(read_whole(moments) // micros, pa.int64(), mask=~to_mask(moments.is_valid()))


def _find_clock_part(moments: pa.Array[Any], micros: int, units: int) -> pa.Array[Any]:
    return _as_ints(read_whole(moments) // micros % units, to_mask(moments.is_valid()))


def multiply_to_moments(numbers: pa.Array[Any], micros: int, kind: pa.DataType) -> pa.Array[Any]:
    """Return numbers of a unit of so many microseconds since 1970 as moments."""
    counted, valid = read_whole(numbers), to_mask(numbers.is_valid())
    most = (2**63 - 1) // micros
    if ((counted > most) | (counted < -most)).any():
        raise Inexact("a moment beyond 64 bits")
    return as_moments(counted * micros, valid, kind)


def begin_dates(dates: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return the moments with which dates begin."""
    valid = to_mask(dates.is_valid())
    return as_moments(begin_days(read_whole(dates), valid), valid, kind)


_ZONED = pa.timestamp("us", "UTC")


# ---- from values to values -----------------------------------------------------------------------------------------
def cut_to_day(value: Value) -> Value | None:
    """Return the date of a date or a moment."""
    if isinstance(value.kind, DateType):
        return value
    return Value(DateType(), "cast", (value,)) if isinstance(value.kind, _MOMENTS) else None


def _compile_truncation(unit: Value, moment: Value) -> Value | None:
    name = _read_unit(unit)
    if name is None or not isinstance(moment.kind, TIMES):
        return None
    if isinstance(moment.kind, DateType):
        moment = Value(TimestampType(), "begin", (moment,), kernel=Kernel(begin_dates, (_ZONED,), True))
    kernel = Kernel(_truncate_moments, (name, _ZONED), may_fail=True)
    return Value(TimestampType(), "date_trunc", (moment,), kernel=kernel)


def _compile_date_truncation(day: Value, unit: Value) -> Value | None:
    name = _read_unit(unit)
    if name not in _DATE_UNITS or not isinstance(day.kind, DateType):
        return None
    return Value(DateType(), "trunc", (day,), kernel=Kernel(_truncate_dates, (name,), may_fail=True))


def _read_unit(unit: Value) -> str | None:
    known = unit.function == "constant" and isinstance(unit.constant, str)
    return _UNITS.get(str(unit.constant).upper()) if known else None


def _make_shift(sign: int) -> Callable[..., Value | None]:
    def compile_shift(day: Value, count: Value) -> Value | None:
        if not isinstance(day.kind, DateType) or count.kind not in COUNTS:
            return None
        kernel = Kernel(_shift_dates, (sign,), may_fail=True)
        return Value(DateType(), "date_add", (day, count), kernel=kernel)

    return compile_shift


def _compile_month_shift(day: Value, count: Value) -> Value | None:
    if not isinstance(day.kind, DateType) or count.kind not in COUNTS:
        return None
    return Value(DateType(), "add_months", (day, count), kernel=Kernel(_shift_date_months, may_fail=True))


def _compile_difference(end: Value, start: Value) -> Value | None:
    if not (isinstance(end.kind, DateType) and isinstance(start.kind, DateType)):
        return None
    return Value(IntegerType(), "datediff", (end, start), kernel=Kernel(_subtract_dates, may_fail=True))


def _compile_last_day(day: Value) -> Value | None:
    if not isinstance(day.kind, DateType):
        return None
    return Value(DateType(), "last_day", (day,), kernel=Kernel(_find_last_days, may_fail=True))


def _make_day_part(part: str) -> Callable[..., Value | None]:
    def compile_part(moment: Value) -> Value | None:
        day = cut_to_day(moment)
        return day and Value(IntegerType(), part, (day,), kernel=Kernel(_find_day_part, (part,)))

    return compile_part


def _compile_second(moment: Value) -> Value | None:
    if not isinstance(moment.kind, _MOMENTS):
        return None
    return Value(IntegerType(), "second", (moment,), kernel=Kernel(_find_clock_part, (1_000_000, 60)))


def _make_count(micros: int) -> Callable[..., Value | None]:
    def compile_count(moment: Value) -> Value | None:
        if not isinstance(moment.kind, TimestampType):
            return None
        return Value(LongType(), "count of time", (moment,), kernel=Kernel(_divide_moments, (micros,)))

    return compile_count


def _make_moment(micros: int) -> Callable[..., Value | None]:
    def compile_moment(count: Value) -> Value | None:
        if count.kind not in WIDTHS:
            return None
        kernel = Kernel(multiply_to_moments, (micros, _ZONED), may_fail=True)
        return Value(TimestampType(), "moment", (count,), kernel=kernel)

    return compile_moment


def _compile_day_number(day: Value) -> Value | None:
    if not isinstance(day.kind, DateType):
        return None
    return Value(IntegerType(), "unix_date", (day,), kernel=Kernel(_cast_array, (pa.int32(),)))


def _compile_numbered_day(number: Value) -> Value | None:
    if number.kind != IntegerType():
        return None
    return Value(DateType(), "date_from_unix_date", (number,), kernel=Kernel(_cast_array, (pa.date32(),)))


def _cast_array(array: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    return array.cast(kind)


def compile_time_sum(operator: str, time: Value, length: Expr | Value) -> Value | None:
    """Return a date or a moment that a length of time is added to or, by `operator` -, taken from; a number is one of days."""
    sign = 1 if operator == "+" else -1
    if isinstance(length, Value):
        return _make_shift(sign)(time, length)
    found = _read_length(length) if isinstance(length, Interval) else None
    if found is None:
        return None
    months, micros, units = found[0] * sign, found[1] * sign, found[2]
    if abs(months) >= 2**31 or abs(micros) >= 2**63:
        return None
    if not isinstance(time.kind, DateType):
        kernel = Kernel(_shift_moments_by, (months, micros), may_fail=True)
        return Value(time.kind, "shift", (time,), kernel=kernel)
    if units <= {"DAY", "MONTH", "YEAR"}:
        kernel = Kernel(_shift_dates_by, (months, micros // _DAY), may_fail=True)
        return Value(DateType(), "shift", (time,), kernel=kernel)
    return None


def _read_length(expr: Interval) -> tuple[int, int, set[str]] | None:
    """Return months, microseconds and units of an interval that is written out: all of one kind, months or parts of days."""
    sign, amount = 1, expr.amount
    match amount:
        case Unary(operator="-" | "+" as operator, value=inner):
            sign, amount = -1 if operator == "-" else 1, inner
    if not isinstance(amount, Literal) or amount.kind not in ("number", "string"):
        return None
    text = f"{amount.text} {expr.unit}".strip()
    if _LENGTH.sub("", text).strip():
        return None
    pairs = [(int(number) * sign, unit.upper().removesuffix("S")) for number, unit in _LENGTH.findall(text)]
    units = {unit for _, unit in pairs}
    if not units or not (units <= set(_MICROS) or units <= set(_MONTHS)):
        return None
    months = sum(number * _MONTHS.get(unit, 0) for number, unit in pairs)
    return months, sum(number * _MICROS.get(unit, 0) for number, unit in pairs), units


FUNCTIONS: Mapping[str, Callable[..., Value | None]] = {
    "date_trunc": _compile_truncation,
    "trunc": _compile_date_truncation,
    **dict.fromkeys(("date_add", "dateadd"), _make_shift(1)),
    "date_sub": _make_shift(-1),
    "add_months": _compile_month_shift,
    **dict.fromkeys(("datediff", "date_diff"), _compile_difference),
    "last_day": _compile_last_day,
    **{part: _make_day_part(part) for part in ("dayofweek", "weekday", "dayofyear", "weekofyear")},
    "yearofweek": _make_day_part("yearofweek"),
    "second": _compile_second,
    "unix_seconds": _make_count(1_000_000),
    "unix_millis": _make_count(1_000),
    "unix_micros": _make_count(1),
    "timestamp_seconds": _make_moment(1_000_000),
    "timestamp_millis": _make_moment(1_000),
    "timestamp_micros": _make_moment(1),
    "unix_date": _compile_day_number,
    "date_from_unix_date": _compile_numbered_day,
}
"""By Spark's name of a function, what gives its value of the values of its arguments, or None where Spark has to."""
