"""Values of one type as those of another, by the table of conversions: whole columns, and which of them the type has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from engine.arrow import as_numbers, make_nulls, to_mask
from engine.sql.typing.conversions import Kind, holds_all_values
from engine.sql.typing.spark_texts import format_decimals, format_floats, format_moments, format_spans

_MOST_POWER = 22
"""Ten to this power is the last that is a DOUBLE exactly."""
_SURE_PRECISION, _SURE_DIGITS = 15, 1e15
"""Decimals of so many digits are distinguished by the doubles nearest to them."""

Kernel: TypeAlias = "Callable[[pa.Array[Any], Kind], tuple[pa.Array[Any], np.ndarray]]"
"""Returns values in a type, and which of them it has not; what it gives for those is nobody's."""


def cast_exactly(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Cast by Arrow, where it refuses just what is not exact: by halves, down to the values at fault."""
    bad = np.zeros(len(values), dtype=bool)
    parts: list[pa.Array[Any]] = []
    waiting = [(0, len(values))]
    while waiting:
        start, count = waiting.pop()
        try:
            parts.append(values.slice(start, count).cast(kind))
        except pa.ArrowInvalid:
            if count == 1:
                bad[start] = True
                parts.append(make_nulls(1, kind))
            else:
                half = count // 2
                waiting += [(start + half, count - half), (start, half)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), bad


def _mask_numbers(
    values: pa.Array[Any], numbers: np.ndarray, bad: np.ndarray, kind: Kind
) -> tuple[pa.Array[Any], np.ndarray]:
    null = to_mask(values.is_null())
    bad = bad & ~null
    with np.errstate(invalid="ignore"):
        filled = np.where(bad | null, 0, numbers).astype(kind.to_pandas_dtype())
    return pa.array(filled, kind, mask=bad | null), bad


def _cast_integers(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers, limits = as_numbers(values), np.iinfo(kind.to_pandas_dtype())
    return _mask_numbers(values, numbers, (numbers < limits.min) | (numbers > limits.max), kind)


def _cast_floats_to_integers(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers, limits = as_numbers(values).astype(np.float64), np.iinfo(kind.to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        bad = ~(np.trunc(numbers) == numbers) | (numbers < limits.min) | (numbers >= float(limits.max + 1))
    return _mask_numbers(values, numbers, bad, kind)


def _cast_integers_to_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers = as_numbers(values)
    floats = numbers.astype(kind.to_pandas_dtype())
    beyond = (
        floats >= float(np.iinfo(numbers.dtype).max + 1)
        if numbers.dtype.itemsize > 2
        else np.zeros(len(floats), bool)
    )
    back = np.where(beyond, 0, floats).astype(numbers.dtype)
    return _mask_numbers(values, floats, beyond | (back != numbers), kind)


def _cast_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers = as_numbers(values)
    with np.errstate(over="ignore", under="ignore"):
        found = numbers.astype(kind.to_pandas_dtype())
    null = to_mask(values.is_null())
    return pa.array(found, kind, mask=null), np.isinf(found) & ~np.isinf(numbers) & ~null


def _cast_integers_to_decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    return _cast_decimals(values.cast(pa.decimal128(20, 0)), kind)


def _cast_decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return decimals with other digits; by way of 76, as Arrow multiplies 38 digits without looking where they go."""
    source: Kind = values.type
    if source.scale >= kind.scale or holds_all_values(source, kind):
        return cast_exactly(values, kind)
    return cast_exactly(
        values.cast(pa.decimal256(76, source.scale)).cast(pa.decimal256(76, kind.scale)), kind
    )


def _cast_floats_to_decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return floating numbers as the decimals that their shortest digits say, as Spark does."""
    numbers, null = as_numbers(values).astype(np.float64), to_mask(values.is_null())
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = numbers * 10.0**kind.scale
        if (
            np.abs(scaled) < min(_SURE_DIGITS, 10.0**kind.precision - 0.5)
        ).all() and kind.scale <= _MOST_POWER:
            whole = np.rint(scaled)
            bad = whole / 10.0**kind.scale != numbers
            return _build_decimals(pa.array(whole.astype(np.int64), mask=null), kind), bad & ~null
    found: list[Decimal | None] = []
    bad = np.zeros(len(values), dtype=bool)
    for at, number in enumerate(numbers.tolist()):
        exact = None if null[at] or not math.isfinite(number) else Decimal(repr(number))
        if exact is not None and not _holds_decimal(exact, kind):
            exact = None
        bad[at] = exact is None and not null[at]
        found.append(exact)
    return pa.array(found, kind), bad


def _holds_decimal(number: Decimal, kind: Kind) -> bool:
    """Tell whether a decimal type has a number."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    return not text or (
        number.adjusted() < kind.precision - kind.scale and exponent + len(digits) - len(text) >= -kind.scale
    )


def _build_decimals(whole: pa.Array[Any], kind: Kind) -> pa.Array[Any]:
    """Return whole numbers as the decimals whose digits they are."""
    wide = whole.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(kind, len(wide), wide.buffers(), wide.null_count, wide.offset)


def _cast_decimals_to_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return decimals as the nearest floating numbers."""
    source, null = values.type, to_mask(values.is_null())
    if source.precision <= _SURE_PRECISION and pa.types.is_float64(kind):
        whole = pa.decimal128(source.precision, 0)
        digits = pa.Array.from_buffers(whole, len(values), values.buffers(), values.null_count, values.offset)
        return pa.array(as_numbers(digits.cast(pa.int64())) / 10.0**source.scale, kind, mask=null), np.zeros(
            len(values), bool
        )
    exact = values.to_pylist()
    doubles = np.array([0.0 if one is None else float(one) for one in exact], np.float64)
    if not pa.types.is_float64(kind):
        doubles = np.array(
            [_round_to_odd(*pair) for pair in zip(doubles.tolist(), exact, strict=True)], np.float64
        )
    with np.errstate(over="ignore", under="ignore"):
        found = doubles.astype(kind.to_pandas_dtype())
    return pa.array(found, kind, mask=null), np.isinf(found)


def _round_to_odd(nearest: float, exact: Decimal | None) -> float:
    """Return a number's neighbour whose last bit is odd, if it is no double: rounded once more it gives the nearest FLOAT."""
    if exact is None or Decimal(nearest) == exact or int(np.float64(nearest).view(np.int64)) & 1:
        return nearest
    return math.nextafter(nearest, math.inf if exact > Decimal(nearest) else -math.inf)


def _make_text_kernel(write: Callable[[pa.Array[Any]], pa.Array[Any]]) -> Kernel:
    def cast_to_texts(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
        return write(values).cast(kind), np.zeros(len(values), dtype=bool)

    return cast_to_texts


def _cast_moments(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Cast to another unit, or to another zone: the instant stays. A time without a zone is one in UTC."""
    found, bad = cast_exactly(values, pa.timestamp(kind.unit, values.type.tz))
    return found.view(kind), bad


def _cast_days_to_moments(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    found, bad = cast_exactly(values, pa.timestamp(kind.unit))
    return found.view(kind), bad


def _cast_moments_to_days(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return times as days, which they are at midnight alone."""
    source: Kind = values.type
    day = 86_400 * {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[source.unit]
    of_day = as_numbers(values.view(pa.int64())) % day
    return values.view(pa.timestamp(source.unit)).cast(kind, safe=False), of_day != 0


def _cast_times(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    _, bad = cast_exactly(values, pa.time64("us"))
    return values.cast(kind), bad


KERNELS: dict[tuple[str, str], Kernel] = {
    ("whole", "whole"): _cast_integers,
    ("whole", "decimal"): _cast_integers_to_decimals,
    ("decimal", "decimal"): _cast_decimals,
    ("date", "string"): _make_text_kernel(format_moments),
    ("timestamp", "string"): _make_text_kernel(format_moments),
    ("timestamp_ntz", "string"): _make_text_kernel(format_moments),
    ("time", "string"): _make_text_kernel(format_moments),
    ("interval", "string"): _make_text_kernel(format_spans),
    ("decimal", "string"): _make_text_kernel(format_decimals),
    ("timestamp", "timestamp"): _cast_moments,
    ("timestamp_ntz", "timestamp_ntz"): _cast_moments,
    ("timestamp_ntz", "timestamp"): _cast_moments,
    ("date", "timestamp"): _cast_days_to_moments,
    ("date", "timestamp_ntz"): _cast_days_to_moments,
    ("timestamp", "date"): _cast_moments_to_days,
    ("timestamp_ntz", "date"): _cast_moments_to_days,
    ("time", "time"): _cast_times,
}
for _name in ("float", "double"):
    KERNELS |= {
        (_name, "whole"): _cast_floats_to_integers,
        ("whole", _name): _cast_integers_to_floats,
        (_name, "float"): _cast_floats,
        (_name, "double"): _cast_floats,
        (_name, "decimal"): _cast_floats_to_decimals,
        ("decimal", _name): _cast_decimals_to_floats,
        (_name, "string"): _make_text_kernel(format_floats),
    }
