"""Decimals as Spark computes them: the types that its rules give, and kernels over their unscaled numbers.

The rules are those of Spark with `spark.sql.decimalOperations.allowPrecisionLoss`, its default. A kernel computes exactly and
rounds once, half up (away from zero), as Spark does; a result with more digits than its type is an OverflowError. Numbers are
of 64 bits where all of them and all results are, else Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    DataType,
    DecimalType,
)

from engine.arrow import to_mask
from engine.hummock.rows.row_hash import split_decimals
from engine.operators.arrow.whole_numbers import DIGITS

MOST_DIGITS = 38
_LEAST_SCALE = 6
"""So many digits of a fraction are kept before digits of the whole part are lost, if the type has them."""
_SUM_DIGITS = 10
_MEAN_DIGITS = 4
NEGATED_DIGITS = 34
_SMALL = 2**63
_EXACT = 2**53
"""Whole numbers up to this, and powers of ten up to it, are floating numbers as they are."""
_WORD = 2**64


# ---- types -------------------------------------------------------------------------------------------------------
def derive_operand_type(kind: DataType, literal: int | None = None) -> DecimalType | None:
    """Return the decimal that a number is beside decimals, None if it is none; a whole `literal` has just its digits."""
    if isinstance(kind, DecimalType):
        return kind
    if kind in DIGITS:
        return DecimalType(DIGITS[kind] if literal is None else len(str(abs(literal))), 0)
    return None


def derive_result_type(operator: str, left: DecimalType, right: DecimalType) -> DecimalType:
    """Return the type of `left` + - * / or % `right`."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            return _limit_digits(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return _limit_digits(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_LEAST_SCALE, s1 + p2 + 1)
            return _limit_digits(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return _limit_digits(min(p1 - s1, p2 - s2) + scale, scale)


def _limit_digits(precision: int, scale: int) -> DecimalType:
    if precision <= MOST_DIGITS:
        return DecimalType(precision, scale)
    return DecimalType(MOST_DIGITS, max(MOST_DIGITS - (precision - scale), min(scale, _LEAST_SCALE)))


def derive_common_type(left: DecimalType, right: DecimalType) -> DecimalType | None:
    """Return the type in which two decimals are compared or chosen from, None if it does not hold all digits of both."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return DecimalType(precision, scale) if precision <= MOST_DIGITS else None


def derive_sum_type(kind: DecimalType) -> DecimalType:
    """Return the type of the sum of a group."""
    return DecimalType(min(MOST_DIGITS, kind.precision + _SUM_DIGITS), kind.scale)


def derive_mean_type(kind: DecimalType) -> DecimalType:
    """Return the type of the average of a group."""
    return DecimalType(
        min(MOST_DIGITS, kind.precision + _MEAN_DIGITS), min(MOST_DIGITS, kind.scale + _MEAN_DIGITS)
    )


def derive_round_type(kind: DecimalType, digits: int) -> DecimalType:
    """Return the type of round(value, digits)."""
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        return DecimalType(min(MOST_DIGITS, max(whole, 1 - digits)), 0)
    scale = min(kind.scale, digits)
    return DecimalType(min(MOST_DIGITS, whole + scale), scale)


def derive_floor_type(kind: DecimalType) -> DecimalType:
    """Return the type of floor and ceil."""
    return kind if kind.scale == 0 else DecimalType(min(MOST_DIGITS, kind.precision - kind.scale + 1), 0)


def derive_literal_type(number: Decimal) -> DecimalType | None:
    """Return the type of a constant with these digits, None if no decimal has so many."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        return None
    precision = max(len(digits), -exponent)
    return DecimalType(precision, -exponent) if precision <= MOST_DIGITS else None


def holds_all_digits(kind: DecimalType, of: DecimalType) -> bool:
    """Tell whether a type has each value of another one."""
    return kind.scale >= of.scale and kind.precision - kind.scale >= of.precision - of.scale


# ---- kernels -----------------------------------------------------------------------------------------------------
def compute_decimals(function: str, kind: DataType, operands: list[pa.Array[Any]]) -> pa.Array[Any]:
    """Return a value of type `kind` for each row; raises OverflowError and ZeroDivisionError where there is none."""
    known = np.ones(len(operands[0]), dtype=bool)
    for operand in operands:
        if operand.null_count:
            known &= to_mask(operand.is_valid())
    numbers = [(read_units(operand, known), _find_scale(operand.type)) for operand in operands]
    if function in ("decimal_divide", "decimal_remainder"):
        divisor, scale = numbers[1]
        if (known & (divisor == 0)).any():
            raise ZeroDivisionError("a division by zero")
        numbers[1] = np.where(known, divisor, 1), scale
    if not isinstance(kind, DecimalType):
        return _LEAVING[function](numbers[0], known)
    return build_decimals(_KERNELS[function](kind.scale, *numbers), known, kind)


Units = tuple[np.ndarray, int]
"""Unscaled numbers, of 64 bits or Python's, and their scale."""


def measure_largest(array: pa.Array[Any]) -> int:
    """Return the largest unscaled number of an array, regardless of signs."""
    return _measure(read_units(array, to_mask(array.is_valid())))


def _find_scale(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else 0


def read_units(array: pa.Array[Any], known: np.ndarray) -> np.ndarray:
    """Return the unscaled numbers of decimals, or whole numbers; of rows that are not `known` it is 0."""
    if not pa.types.is_decimal(array.type):
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return numbers if known.all() else np.where(known, numbers, 0)
    words = split_decimals(array)
    low, high = words[:, 0], words[:, 1]
    if not known.all():
        low, high = np.where(known, low, 0), np.where(known, high, 0)
    if (high == low >> 63).all():
        return low
    upper, lower = high.astype(object), low.view(np.uint64).astype(object)
    units: np.ndarray = upper * _WORD + lower
    return units


def build_decimals(units: np.ndarray, known: np.ndarray, kind: DecimalType) -> pa.Array[Any]:
    """Return unscaled numbers as decimals of a type; raises OverflowError."""
    if _measure(units) >= 10**kind.precision:
        raise OverflowError(f"a number with more digits than {kind.simpleString()}")
    words = np.empty((len(units), 2), np.int64)
    if units.dtype == object:
        words[:, 0] = (units & (_WORD - 1)).astype(np.uint64).view(np.int64)
        words[:, 1] = (units >> 64).astype(np.int64)
    else:
        words[:, 0], words[:, 1] = units, units >> 63
    valid = None if known.all() else pa.array(known).buffers()[1]
    made: pa.Array[Any] = pa.Array.from_buffers(
        pa.decimal128(kind.precision, kind.scale), len(units), [valid, pa.py_buffer(words.tobytes())]
    )
    return made


def _measure(units: np.ndarray) -> int:
    return max(abs(int(units.min())), abs(int(units.max()))) if len(units) else 0


def _fit(largest: int, *units: np.ndarray) -> list[np.ndarray]:
    """Return numbers as ones that hold results up to `largest`."""
    if largest < _SMALL and all(each.dtype != object for each in units):
        return list(units)
    return [each.astype(object) for each in units]


def _raise_power(units: np.ndarray, digits: int) -> np.ndarray:
    """Return numbers times a power of ten."""
    if digits == 0:
        return units
    (fit,) = _fit(max(_measure(units), 1) * 10**digits, units)
    raised: np.ndarray = fit * 10**digits
    return raised


def _divide_half_up(units: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return quotients rounded to whole numbers, halves away from zero; divisors are not 0."""
    above, below = abs(units), abs(by)
    whole = above // below
    rest = above - whole * below
    whole = whole + (rest >= below - rest)
    found: np.ndarray = np.where((units < 0) != (by < 0), -whole, whole)
    return found


def _rescale(to: int, value: Units) -> np.ndarray:
    """Return numbers as those of another scale, rounded half up."""
    units, scale = value
    if to >= scale:
        return _raise_power(units, to - scale)
    power = 10 ** (scale - to)
    (fit,) = _fit(max(power, _measure(units)), units)
    return _divide_half_up(fit, np.full(len(fit), power, fit.dtype))


def _add(scale: int, left: Units, right: Units) -> np.ndarray:
    wide = max(left[1], right[1])
    one, other = _raise_power(left[0], wide - left[1]), _raise_power(right[0], wide - right[1])
    one, other = _fit(_measure(one) + _measure(other), one, other)
    return _rescale(scale, (one + other, wide))


def _subtract(scale: int, left: Units, right: Units) -> np.ndarray:
    (minus,) = _fit(_measure(right[0]), right[0])
    return _add(scale, left, (-minus, right[1]))


def _multiply(scale: int, left: Units, right: Units) -> np.ndarray:
    one, other = _fit(_measure(left[0]) * _measure(right[0]), left[0], right[0])
    return _rescale(scale, (one * other, left[1] + right[1]))


def _divide(scale: int, left: Units, right: Units) -> np.ndarray:
    above = _raise_power(left[0], scale - left[1] + right[1])
    return _divide_half_up(*_fit(max(_measure(above), _measure(right[0])), above, right[0]))


def _take_remainder(scale: int, left: Units, right: Units) -> np.ndarray:
    one, other = _raise_power(left[0], scale - left[1]), _raise_power(right[0], scale - right[1])
    one, other = _fit(max(_measure(one), _measure(other)), one, other)
    above, below = abs(one), abs(other)
    if _measure(above // below) >= 10**MOST_DIGITS:
        raise OverflowError("a remainder of a quotient with too many digits")
    rest = above % below
    return np.where(one < 0, -rest, rest)


def _negate(scale: int, value: Units) -> np.ndarray:
    return -_refuse_rounded(value[0])


def _take_absolute(scale: int, value: Units) -> np.ndarray:
    return abs(_refuse_rounded(value[0]))


def _refuse_rounded(units: np.ndarray) -> np.ndarray:
    """Return numbers whose sign Spark can turn; of others it loses digits: Scala's negation rounds to so many."""
    largest = _measure(units)
    if largest >= 10**NEGATED_DIGITS:
        raise OverflowError("a decimal that Spark rounds where it turns the sign")
    return _fit(largest, units)[0]


def _round_down(scale: int, value: Units) -> np.ndarray:
    power = 10 ** value[1]
    (units,) = _fit(max(power, _measure(value[0])), value[0])
    found: np.ndarray = units // power
    return found


def _round_up(scale: int, value: Units) -> np.ndarray:
    (units,) = _fit(_measure(value[0]), value[0])
    (found,) = _fit(_measure(value[0]), _round_down(scale, (-units, value[1])))
    return -found


def _to_double(value: Units, known: np.ndarray) -> pa.Array[Any]:
    """Return the nearest floating numbers."""
    units, scale = value
    power = 10**scale
    if units.dtype != object and max(_measure(units), power) <= _EXACT:
        found = units / float(power)
    else:  # Python's quotients of whole numbers are the nearest ones
        found = np.array([unit / power for unit in units.tolist()], np.float64)
    return pa.array(found, pa.float64(), mask=~known)


def _to_bigint(value: Units, known: np.ndarray) -> pa.Array[Any]:
    """Return whole numbers, without what stands behind the point; raises OverflowError."""
    units, scale = value
    power = 10**scale
    (fit,) = _fit(max(power, _measure(units)), units)
    above = abs(fit) // power
    whole = np.where(fit < 0, -above, above)
    if _measure(whole) >= _SMALL:
        raise OverflowError("a decimal that is no BIGINT")
    return pa.array(whole.astype(np.int64), pa.int64(), mask=~known)


_KERNELS: dict[str, Callable[..., np.ndarray]] = {
    "decimal_add": _add,
    "decimal_subtract": _subtract,
    "decimal_multiply": _multiply,
    "decimal_divide": _divide,
    "decimal_remainder": _take_remainder,
    "decimal_negate": _negate,
    "decimal_abs": _take_absolute,
    "decimal_floor": _round_down,
    "decimal_ceil": _round_up,
    "decimal_round": _rescale,
    "decimal_scale": lambda scale, value: value[0],
    "decimal_widen": _rescale,
}
"""Functions by name, from the scale of the result and operands to its unscaled numbers."""
_LEAVING: dict[str, Callable[[Units, np.ndarray], pa.Array[Any]]] = {
    "decimal_to_double": _to_double,
    "decimal_to_bigint": _to_bigint,
}
DECIMAL_FUNCTIONS = frozenset((*_KERNELS, *_LEAVING))
FAILING = DECIMAL_FUNCTIONS - {"decimal_widen", "decimal_to_double"}
"""Those that have no value for some operands."""
OPERATORS = {
    "+": "decimal_add",
    "-": "decimal_subtract",
    "*": "decimal_multiply",
    "/": "decimal_divide",
    "%": "decimal_remainder",
}
