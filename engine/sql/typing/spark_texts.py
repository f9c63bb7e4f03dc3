"""Values as the texts that Spark's cast to STRING gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_numbers, to_mask

MICROS_OF_A_DAY = 86_400_000_000


def format_floats(values: pa.Array[Any]) -> pa.Array[Any]:
    """Write floating numbers with the fewest digits that give them back, as Java does."""
    numbers = values.to_numpy(zero_copy_only=False)
    null = to_mask(values.is_null())
    texts = [None if absent else _format_float(number) for number, absent in zip(numbers, null, strict=True)]
    return pa.array(texts, pa.string())


def _format_float(number: Any) -> str:
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if np.signbit(number) else "0.0"
    if 1e-3 <= abs(number) < 1e7:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, _, power = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    if mantissa[-2:] == ".0":  # two digits at least, and those that are nearest
        near, _, its = f"{number:.1e}".partition("e")
        if type(number)(f"{near}e{its}") == number:
            mantissa, power = near, its
    return f"{mantissa}E{int(power)}"


def format_decimals(values: pa.Array[Any]) -> pa.Array[Any]:
    """Write decimals with all their digits."""
    return pa.array([None if one is None else f"{one:f}" for one in values.to_pylist()], pa.string())


def format_moments(values: pa.Array[Any]) -> pa.Array[Any]:
    """Write dates, times of day and moments, those with a zone in UTC."""
    arrow_type: Any = values.type
    if pa.types.is_date64(arrow_type):
        values = values.cast(pa.timestamp("ms")).cast(pa.date32(), safe=False)
    elif pa.types.is_timestamp(arrow_type):
        values = values.view(pa.timestamp(arrow_type.unit))
    texts: pa.Array[Any] = values.cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1")
    texts = pc.replace_substring_regex(texts, r"\.$", "")
    return texts if pa.types.is_time(arrow_type) else _rewrite_far_years(texts, values)


def _rewrite_far_years(texts: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """Return texts of dates and times, those written anew whose years Arrow does not write as Spark does, or not at all."""
    kind: Any = values.type
    is_day = pa.types.is_date(kind)
    second = 1 if is_day else {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    numbers = as_numbers(values.view(pa.int32() if is_day else pa.int64()))
    days = (numbers if is_day else numbers // (86_400 * second)).astype("datetime64[D]")
    years = days.astype("datetime64[Y]").astype(np.int64) + 1970
    far = np.flatnonzero((years < 0) | (years > 9999))
    if not len(far):
        return texts
    found: list[str | None] = texts.to_pylist()
    for at in far.tolist():
        text = f"+{days[at]}" if years[at] > 0 else str(days[at])
        if not is_day:
            of_day, part = divmod(int(numbers[at]) % (86_400 * second), second)
            fraction = f".{part * 1_000_000_000 // second:09d}".rstrip("0").rstrip(".")
            text += f" {of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}{fraction}"
        found[at] = text
    return pa.array(found, pa.string())


def format_spans(values: pa.Array[Any]) -> pa.Array[Any]:
    """Write intervals of days and less."""
    micros: pa.Array[Any] = values.cast(pa.duration("us")).cast(pa.int64())
    texts = [None if one is None else _format_span(one) for one in micros.to_pylist()]
    return pa.array(texts, pa.string())


def _format_span(micros: int) -> str:
    sign, micros = "-" if micros < 0 else "", abs(micros)
    days, rest = divmod(micros, MICROS_OF_A_DAY)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, rest = divmod(rest, 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"INTERVAL '{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{fraction}' DAY TO SECOND"
