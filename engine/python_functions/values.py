"""Values of Arrow's types as a function in Python gets and gives them; what it gives is never bent into a type."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from engine.arrow import as_values

Convert: TypeAlias = "Callable[[Any], Any]"
_UTC = datetime.UTC
_WIDTHS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_MOST_TEXT = 120
_DIGITS = decimal.Context(prec=76)
_NAN = math.nan
_MICROSECOND = datetime.timedelta(microseconds=1)


class WrongValue(ValueError):
    """A value that is none of a type, or that Python has no form for."""


def find_formless(kind: pa.DataType) -> str:
    """Return what of a type functions have no values for, in words; empty where they have values for all of it."""
    if pa.types.is_map(kind):
        if pa.types.is_nested(kind.key_type):
            return "a map whose keys are lists or structs, which no dict has"
        return find_formless(kind.key_type) or find_formless(kind.item_type)
    if pa.types.is_nested(kind):
        parts = (kind.field(n).type for n in range(kind.num_fields))
        return next((found for part in parts if (found := find_formless(part))), "")
    return "a type without values" if pa.types.is_null(kind) else ""


def read_arguments(column: pa.Array[Any]) -> list[Any]:
    """Return the values of a column as a function gets them.

    Raises WrongValue in place of a value of a date or a time that Python has not: such a one is an exception in the list.
    """
    convert = _find_reader(column.type)
    values = as_values(column)
    return values if convert is None else [_try(convert, value) for value in values]


def _try(convert: Convert, value: Any) -> Any:
    if value is None:
        return None
    try:
        return convert(value)
    except WrongValue as error:
        return error


@lru_cache(maxsize=1024)
def _find_reader(kind: pa.DataType) -> Convert | None:
    """Return what makes a value of `as_values` one that a function gets, None where it is that already."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _read_moment if pa.types.is_timestamp(kind) and kind.tz is not None else _read_near
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _find_reader(kind.value_type)
        return None if inner is None else lambda values: [_none_or(inner, one) for one in values]
    if pa.types.is_map(kind):
        of_key, of_value = (_find_reader(part) or _keep for part in (kind.key_type, kind.item_type))
        return lambda pairs: {of_key(key): _none_or(of_value, value) for key, value in pairs}
    if pa.types.is_struct(kind):
        readers = {field.name: _find_reader(field.type) or _keep for field in kind}
        if all(reader is _keep for reader in readers.values()):
            return None
        return lambda row: {name: _none_or(reader, row[name]) for name, reader in readers.items()}
    return None


def _keep(value: Any) -> Any:
    return value


def _none_or(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _read_near(value: Any) -> Any:
    if isinstance(value, str):  # as `as_values` gives what Python has not
        raise WrongValue(f"{value} is beyond the years 1 to 9999 of Python's dates and times")
    return value


def _read_moment(value: Any) -> datetime.datetime:
    moment: datetime.datetime = _read_near(value)
    return moment.astimezone(_UTC)


def build_column(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return a column of values that `find_writer` has made."""
    return pa.array(values, kind)


@lru_cache(maxsize=1024)
def find_writer(kind: pa.DataType) -> Convert:
    """Return what makes a value that a function gave one of a type, and raises WrongValue for one that is none."""
    write = _find_writer(kind)
    return lambda value: None if value is None else write(value)


def _find_writer(kind: pa.DataType) -> Convert:
    if kind in _WIDTHS:
        return lambda value: _write_whole(value, _WIDTHS[kind])
    if pa.types.is_floating(kind):
        return lambda value: _write_float(value, kind)
    if pa.types.is_decimal(kind):
        return lambda value: _write_decimal(value, kind)
    if pa.types.is_timestamp(kind):
        return lambda value: _write_moment(value, kind.tz is not None)
    if pa.types.is_date(kind):
        return _write_date
    if pa.types.is_list(kind):
        inner = find_writer(kind.value_type)
        return lambda value: [inner(one) for one in _require(value, (list, tuple), "a list")]
    if pa.types.is_map(kind):
        of_key, of_value = find_writer(kind.key_type), find_writer(kind.item_type)
        return lambda value: _write_map(value, of_key, of_value)
    if pa.types.is_struct(kind):
        writers = {field.name: find_writer(field.type) for field in kind}
        return lambda value: _write_struct(value, writers)
    if pa.types.is_boolean(kind):
        return lambda value: _require(value, (bool,), "a bool")
    if pa.types.is_string(kind):
        return _write_text
    if pa.types.is_binary(kind):
        return lambda value: bytes(_require(value, (bytes, bytearray), "bytes"))
    if pa.types.is_time(kind):
        return _write_time
    if pa.types.is_duration(kind):
        return _write_duration
    raise AssertionError(kind)


def _require(value: Any, kinds: tuple[type, ...], what: str) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise WrongValue(f"it gave {describe(value)}, a {type(value).__name__}, where {what} is meant")
    return value


def _write_whole(value: Any, bits: int) -> int:
    number: int = _require(value, (int,), "an int")
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise WrongValue(f"it gave {describe(number)}, which has more than {bits} bits")
    return int(number)


def _write_float(value: Any, kind: pa.DataType) -> float:
    found = _require(value, (float, int), "a float")
    try:
        number = float(found)
        if pa.types.is_float32(kind):
            (number,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise WrongValue(f"it gave {describe(found)}, which is too large for a {kind}") from None
    if isinstance(found, int) and int(number) != found:
        raise WrongValue(f"it gave {describe(found)}, which is no {kind} without a loss: return float(…)")
    return number


def _write_decimal(value: Any, kind: Any) -> decimal.Decimal:
    found = decimal.Decimal(_require(value, (decimal.Decimal, int), "a Decimal"))
    said = f"decimal({kind.precision},{kind.scale})"
    if not found.is_finite():
        raise WrongValue(f"it gave {describe(found)}, which is no {said}")
    try:
        fitted = found.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    except decimal.InvalidOperation:
        fitted = None
    if fitted is None or len(fitted.as_tuple().digits) > kind.precision:
        raise WrongValue(f"it gave {describe(found)}, which is too large for a {said}")
    if fitted != found:
        raise WrongValue(f"it gave {describe(found)}, which has more digits than a {said}: round it")
    return fitted


def _write_text(value: Any) -> str:
    text: str = _require(value, (str,), "a str")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongValue("it gave a text with half a character, a surrogate") from None
    return str(text)


def _write_date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        raise WrongValue(f"it gave {describe(value)}, a datetime, where a date is meant: return value.date()")
    date: datetime.date = _require(value, (datetime.date,), "a date")
    return date


def _write_time(value: Any) -> datetime.time:
    time: datetime.time = _require(value, (datetime.time,), "a time")
    if time.tzinfo is not None:
        raise WrongValue(f"it gave {describe(value)}, which has a time zone that a TIME has not")
    return time


def _write_duration(value: Any) -> datetime.timedelta:
    _require(value, (datetime.timedelta,), "a timedelta")
    _refuse_nanoseconds(value)
    plain = datetime.timedelta(value.days, value.seconds, value.microseconds)
    if not -(1 << 63) <= plain // _MICROSECOND < 1 << 63:
        raise WrongValue(f"it gave {describe(value)}, which has more microseconds than 64 bits")
    return plain


def _refuse_nanoseconds(value: Any) -> None:
    """Raise WrongValue for a time of another package that is finer than Python's."""
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise WrongValue(f"it gave {describe(value)}, which has nanoseconds: round it to microseconds")


def _write_moment(value: Any, zoned: bool) -> datetime.datetime:
    moment: datetime.datetime = _require(value, (datetime.datetime,), "a datetime")
    if moment != moment:  # NaT of pandas, which Arrow takes for a null
        raise WrongValue(f"it gave {describe(value)}, which is no datetime: return None")
    _refuse_nanoseconds(value)
    aware = moment.utcoffset() is not None
    if zoned and not aware:
        said = (
            "has no time zone, and which moment it means is not known: give it one, as datetime.timezone.utc"
        )
        raise WrongValue(f"it gave {describe(value)}, which {said}")
    if not zoned and aware:
        raise WrongValue(f"it gave {describe(value)}, which has a time zone that a TIMESTAMP_NTZ has not")
    try:
        return moment.astimezone(_UTC) if zoned else moment
    except OverflowError:
        raise WrongValue(f"it gave {describe(value)}, which in UTC is in no year of Python's") from None


def _write_map(value: Any, of_key: Convert, of_value: Convert) -> list[tuple[Any, Any]]:
    pairs = _require(value, (dict,), "a dict")
    if None in pairs:
        raise WrongValue("it gave a dict with the key None, which no map has")
    found = [(_write_key(of_key(key)), of_value(one)) for key, one in pairs.items()]
    if len({_NAN if key != key else key for key, _ in found}) < len(found):
        raise WrongValue(f"it gave {describe(value)}, of which two keys are one in the map")
    return found


def _write_key(key: Any) -> Any:
    """Return a key of a map as Spark has it: the two zeros of floats are one."""
    return 0.0 if isinstance(key, float) and key == 0 else key


def _write_struct(value: Any, writers: dict[str, Convert]) -> dict[str, Any]:
    row = _require(value, (dict,), "a dict")
    if row.keys() != writers.keys():
        keys, fields = ", ".join(map(str, row)), ", ".join(writers)
        raise WrongValue(f"it gave a dict with the keys {keys or 'none'}, and the fields are {fields}")
    return {name: write(row[name]) for name, write in writers.items()}


def describe(value: Any, most: int = _MOST_TEXT) -> str:
    """Return a value as Python writes it, as long as a message may be."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= most else f"{text[: most - 1]}…"
