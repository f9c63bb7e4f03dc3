"""Values of one type as those of another, by the table of conversions: whole columns, and which of them the type has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from engine.arrow import as_numbers, holds, nulls
from engine.sql.typing.conversions import Kind, has_all
from engine.sql.typing.spark_texts import decimal_texts, float_texts, moment_texts, span_texts

_MOST_POWER = 22
"""Ten to this power is the last that is a DOUBLE exactly."""
_SURE_PRECISION, _SURE_DIGITS = 15, 1e15
"""Decimals of so many digits are told apart by the doubles nearest to them."""

Kernel: TypeAlias = "Callable[[pa.Array[Any], Kind], tuple[pa.Array[Any], np.ndarray]]"
"""Returns values in a type, and which of them it has not; what it gives for those is nobody's."""


def cast(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
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
                parts.append(nulls(1, kind))
            else:
                half = count // 2
                waiting += [(start + half, count - half), (start, half)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), bad


def _of_numbers(
    values: pa.Array[Any], numbers: np.ndarray, bad: np.ndarray, kind: Kind
) -> tuple[pa.Array[Any], np.ndarray]:
    null = holds(values.is_null())
    bad = bad & ~null
    with np.errstate(invalid="ignore"):
        kept = np.where(bad | null, 0, numbers).astype(kind.to_pandas_dtype())
    return pa.array(kept, kind, mask=bad | null), bad


def _whole(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers, limits = as_numbers(values), np.iinfo(kind.to_pandas_dtype())
    return _of_numbers(values, numbers, (numbers < limits.min) | (numbers > limits.max), kind)


def _whole_of_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers, limits = as_numbers(values).astype(np.float64), np.iinfo(kind.to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        bad = ~(np.trunc(numbers) == numbers) | (numbers < limits.min) | (numbers >= float(limits.max + 1))
    return _of_numbers(values, numbers, bad, kind)


def _floats_of_whole(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers = as_numbers(values)
    floats = numbers.astype(kind.to_pandas_dtype())
    beyond = (
        floats >= float(np.iinfo(numbers.dtype).max + 1)
        if numbers.dtype.itemsize > 2
        else np.zeros(len(floats), bool)
    )
    back = np.where(beyond, 0, floats).astype(numbers.dtype)
    return _of_numbers(values, floats, beyond | (back != numbers), kind)


def _floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers = as_numbers(values)
    with np.errstate(over="ignore", under="ignore"):
        found = numbers.astype(kind.to_pandas_dtype())
    null = holds(values.is_null())
    return pa.array(found, kind, mask=null), np.isinf(found) & ~np.isinf(numbers) & ~null


def _decimals_of_whole(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    return _decimals(values.cast(pa.decimal128(20, 0)), kind)


def _decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return decimals with other digits; by way of 76, as Arrow multiplies 38 digits without looking where they go."""
    given: Kind = values.type
    if given.scale >= kind.scale or has_all(given, kind):
        return cast(values, kind)
    return cast(values.cast(pa.decimal256(76, given.scale)).cast(pa.decimal256(76, kind.scale)), kind)


def _decimals_of_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return floating numbers as the decimals that their shortest digits say, as Spark does."""
    numbers, null = as_numbers(values).astype(np.float64), holds(values.is_null())
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = numbers * 10.0**kind.scale
        if (
            np.abs(scaled) < min(_SURE_DIGITS, 10.0**kind.precision - 0.5)
        ).all() and kind.scale <= _MOST_POWER:
            whole = np.rint(scaled)
            bad = whole / 10.0**kind.scale != numbers
            return _of_unscaled(pa.array(whole.astype(np.int64), mask=null), kind), bad & ~null
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


def _of_unscaled(whole: pa.Array[Any], kind: Kind) -> pa.Array[Any]:
    """Return whole numbers as the decimals whose digits they are."""
    wide = whole.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(kind, len(wide), wide.buffers(), wide.null_count, wide.offset)


def _floats_of_decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return decimals as the nearest floating numbers."""
    given, null = values.type, holds(values.is_null())
    if given.precision <= _SURE_PRECISION and pa.types.is_float64(kind):
        whole = pa.decimal128(given.precision, 0)
        digits = pa.Array.from_buffers(whole, len(values), values.buffers(), values.null_count, values.offset)
        return pa.array(as_numbers(digits.cast(pa.int64())) / 10.0**given.scale, kind, mask=null), np.zeros(
            len(values), bool
        )
    exact = values.to_pylist()
    doubles = np.array([0.0 if one is None else float(one) for one in exact], np.float64)
    if not pa.types.is_float64(kind):
        doubles = np.array([_to_odd(*pair) for pair in zip(doubles.tolist(), exact, strict=True)], np.float64)
    with np.errstate(over="ignore", under="ignore"):
        found = doubles.astype(kind.to_pandas_dtype())
    return pa.array(found, kind, mask=null), np.isinf(found)


def _to_odd(nearest: float, exact: Decimal | None) -> float:
    """Return a number's neighbour whose last bit is odd, if it is no double: rounded once more it gives the nearest FLOAT."""
    if exact is None or Decimal(nearest) == exact or int(np.float64(nearest).view(np.int64)) & 1:
        return nearest
    return math.nextafter(nearest, math.inf if exact > Decimal(nearest) else -math.inf)


def _texts(write: Callable[[pa.Array[Any]], pa.Array[Any]]) -> Kernel:
    def texts(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
        return write(values).cast(kind), np.zeros(len(values), dtype=bool)

    return texts


def _moments(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Cast to another unit, or to another zone: the instant stays. A time without a zone is one in UTC."""
    found, bad = cast(values, pa.timestamp(kind.unit, values.type.tz))
    return found.view(kind), bad


def _moments_of_days(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    found, bad = cast(values, pa.timestamp(kind.unit))
    return found.view(kind), bad


def _days_of_moments(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return times as days, which they are at midnight alone."""
    given: Kind = values.type
    day = 86_400 * {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[given.unit]
    of_day = as_numbers(values.view(pa.int64())) % day
    return values.view(pa.timestamp(given.unit)).cast(kind, safe=False), of_day != 0


def _times(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    _, bad = cast(values, pa.time64("us"))
    return values.cast(kind), bad


KERNELS: dict[tuple[str, str], Kernel] = {
    ("whole", "whole"): _whole,
    ("whole", "decimal"): _decimals_of_whole,
    ("decimal", "decimal"): _decimals,
    ("date", "string"): _texts(moment_texts),
    ("timestamp", "string"): _texts(moment_texts),
    ("timestamp_ntz", "string"): _texts(moment_texts),
    ("time", "string"): _texts(moment_texts),
    ("interval", "string"): _texts(span_texts),
    ("decimal", "string"): _texts(decimal_texts),
    ("timestamp", "timestamp"): _moments,
    ("timestamp_ntz", "timestamp_ntz"): _moments,
    ("timestamp_ntz", "timestamp"): _moments,
    ("date", "timestamp"): _moments_of_days,
    ("date", "timestamp_ntz"): _moments_of_days,
    ("timestamp", "date"): _days_of_moments,
    ("timestamp_ntz", "date"): _days_of_moments,
    ("time", "time"): _times,
}
for _name in ("float", "double"):
    KERNELS |= {
        (_name, "whole"): _whole_of_floats,
        ("whole", _name): _floats_of_whole,
        (_name, "float"): _floats,
        (_name, "double"): _floats,
        (_name, "decimal"): _decimals_of_floats,
        ("decimal", _name): _floats_of_decimals,
        (_name, "string"): _texts(float_texts),
    }
