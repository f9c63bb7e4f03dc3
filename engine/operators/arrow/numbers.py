"""Functions of numbers on Arrow: remainders, whole parts, hashes, and comparisons of doubles by Spark's order of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType

from engine.arrow import intersect_masks, to_mask
from engine.hummock.rows.row_hash import xxhash64
from engine.operators.arrow.expressions import Inexact, Kernel, Value, find_arrow_type
from engine.operators.arrow.whole_numbers import WIDTHS

_LARGEST = 2.0**63
_EXACT = 2.0**52
_NEAR_HALF = 2.0**-48
"""A number of units that is nearer than this part of it to a half is rounded by its digits."""
_MOST_DIGITS = 22
"""Up to this, powers of ten are floating numbers as they are."""


def _read_pair(left: pa.Array[Any], right: pa.Array[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two columns of numbers, 1 where one of them is null, and where none is."""
    valid = to_mask(left.is_valid()) & to_mask(right.is_valid())
    numbers = (side.fill_null(1).to_numpy(zero_copy_only=False) for side in (left, right))
    first, second = (np.where(valid, side, side.dtype.type(1)) for side in numbers)
    if (second == 0).any():
        raise Inexact("a division by zero")
    return first, second, valid


def _find_remainder(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    """Return what is left over, with the sign of the dividend."""
    first, second, valid = _read_pair(left, right)
    if pa.types.is_integer(left.type):
        second = np.where(second == -1, second.dtype.type(1), second)
    with np.errstate(all="ignore"):
        found = np.fmod(first, second)
    remainders: pa.Array[Any] = pa.array(found, left.type, mask=~valid, from_pandas=False)
    return remainders


def _divide_whole(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    first, second, valid = _read_pair(left.cast(pa.int64()), right.cast(pa.int64()))
    if ((first == -(2**63)) & (second == -1)).any():
        raise Inexact("a quotient beyond 64 bits")
    down = np.where(second == -1, -first, first // second)
    found = np.where((second != -1) & (first % second != 0) & ((first < 0) != (second < 0)), down + 1, down)
    return pa.array(found, pa.int64(), mask=~valid)


def cut_to_whole(numbers: pa.Array[Any], way: str, bits: int = 64) -> pa.Array[Any]:
    """Return doubles as whole numbers, by `floor`, `ceil` or `trunc`."""
    valid = to_mask(numbers.is_valid())
    found = getattr(np, way)(numbers.fill_null(0.0).to_numpy(zero_copy_only=False))
    limit = 2.0 ** (bits - 1)
    if not ((found >= -limit) & (found < limit)).all():  # NaN is neither
        raise Inexact(f"a number beyond {bits} bits")
    kinds = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
    return pa.array(found.astype(np.int64), pa.int64(), mask=~valid).cast(kinds[bits])


def _round_doubles(numbers: pa.Array[Any], digits: int) -> pa.Array[Any]:
    """Return doubles rounded half up to so many digits behind the point, by the digits of the least text that stands for each."""
    valid, given = to_mask(numbers.is_valid()), numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
    power = 10.0**digits
    with np.errstate(all="ignore"):
        units = abs(given) * power
        whole = np.floor(units + 0.5)
        rounded = np.copysign(whole / power, given)
        plain = (units < _EXACT) & (abs(units - np.floor(units) - 0.5) > _NEAR_HALF * np.maximum(units, 1))
    for at in np.flatnonzero(~plain & np.isfinite(given)):
        digits_of = Decimal(repr(float(given[at])))
        step = Decimal(1).scaleb(-digits)
        whole_digits = max(digits_of.adjusted(), 0) + digits + 2
        rounded[at] = float(digits_of.quantize(step, ROUND_HALF_UP, Context(prec=whole_digits)))
    found = np.where(np.isfinite(given), rounded + 0.0, given)  # there is no -0.0 among decimals
    return pa.array(found, pa.float64(), mask=~valid, from_pandas=False)


def _find_modulus(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    """Return what is left over, not below zero; of a divisor below zero Spark's result has either sign."""
    first, second, valid = _read_pair(left, right)
    if (second < 0).any():
        raise Inexact("a modulus below zero")
    numbers: pa.Array[Any] = pa.array(np.mod(first, second), left.type, mask=~valid)
    return numbers


def _hash(*columns: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array(xxhash64(columns), pa.int64())


def _is_equal(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _is_less(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    return pc.or_(pc.less(left, right), pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))


def _compare(left: pa.Array[Any], right: pa.Array[Any], way: str) -> pa.Array[Any]:
    match way:
        case "equal":
            return _is_equal(left, right)
        case "not_equal":
            return pc.invert(_is_equal(left, right))
        case "less":
            return _is_less(left, right)
        case "greater":
            return _is_less(right, left)
        case "less_equal":
            return pc.invert(_is_less(right, left))
        case "greater_equal":
            return pc.invert(_is_less(left, right))
    both = intersect_masks(left.is_null(), right.is_null())
    return pa.array(to_mask(_is_equal(left, right)) | both, pa.bool_())


def _find_root(numbers: Any) -> pa.Array[Any]:
    roots: pa.Array[Any] = pc.sqrt(numbers)
    return roots


_NO_DIGITS = Value(IntegerType(), "constant", constant=0)


# ---- from values to values -----------------------------------------------------------------------------------------
def compare_doubles(way: str, left: Value, right: Value) -> Value:
    """Return a comparison of doubles: NaN is the largest and equals itself, and both zeros are one."""
    return Value(BooleanType(), f"{way} of doubles", (left, right), kernel=Kernel(_compare, (way,)))


def _compile_abs(number: Value) -> Value | None:
    if number.kind not in (*WIDTHS, DoubleType()):
        return None
    return Value(number.kind, "abs", (number,), kernel=Kernel(pc.abs_checked, may_fail=True))


def _compile_root(number: Value) -> Value | None:
    if number.kind != DoubleType():
        return None
    return Value(DoubleType(), "sqrt", (number,), kernel=Kernel(_find_root))


def _make_cut(way: str) -> Callable[..., Value | None]:
    def compile_cut(number: Value) -> Value | None:
        if number.kind == LongType():
            return number
        if number.kind != DoubleType():
            return None
        return Value(LongType(), way, (number,), kernel=Kernel(cut_to_whole, (way,), True))

    return compile_cut


def _compile_round(number: Value, digits: Value = _NO_DIGITS) -> Value | None:
    """Return a number rounded to a constant number of digits behind the point."""
    many = digits.constant
    if not isinstance(many, int) or not 0 <= many <= _MOST_DIGITS:
        return None
    if number.kind in WIDTHS:
        return number
    if number.kind != DoubleType():
        return None
    return Value(number.kind, "round", (number,), kernel=Kernel(_round_doubles, (many,)))


def compile_remainder(left: Value, right: Value) -> Value:
    """Return the remainder of a division of numbers of one type."""
    return Value(left.kind, "remainder", (left, right), kernel=Kernel(_find_remainder, may_fail=True))


def compile_whole_quotient(left: Value, right: Value) -> Value:
    """Return the quotient of whole numbers, cut to a whole one."""
    return Value(LongType(), "div", (left, right), kernel=Kernel(_divide_whole, may_fail=True))


def compile_modulus(left: Value, right: Value) -> Value:
    """Return the remainder of a division of whole numbers of one type, with the sign of the divisor: pmod."""
    return Value(left.kind, "pmod", (left, right), kernel=Kernel(_find_modulus, may_fail=True))


def _compile_hash(first: Value, *others: Value) -> Value | None:
    if any(find_arrow_type(value.kind) is None for value in (first, *others)):
        return None
    return Value(LongType(), "xxhash64", (first, *others), kernel=Kernel(_hash))


FUNCTIONS: Mapping[str, Callable[..., Value | None]] = {
    "abs": _compile_abs,
    "round": _compile_round,
    "sqrt": _compile_root,
    "xxhash64": _compile_hash,
    "floor": _make_cut("floor"),
    **dict.fromkeys(("ceil", "ceiling"), _make_cut("ceil")),
}
"""By Spark's name of a function, what gives its value of the values of its arguments, or None where Spark has to."""
