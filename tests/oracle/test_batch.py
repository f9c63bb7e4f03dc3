"""The comparison of the judges: it must not pass over what differs."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.oracle.batch import assert_equal

WIDE = pa.decimal128(38, 18)


def column(*values: object, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": pa.array(list(values), kind)})


def test_decimals_of_more_than_28_digits_are_told_apart() -> None:
    one, two = Decimal("123456789012.345678901234567890"), Decimal("123456789012.345678901234567895")
    with pytest.raises(AssertionError, match="1 rows missing"):
        assert_equal(column(one, kind=WIDE), column(two, kind=WIDE), "wide")
    assert_equal(column(Decimal("1.50")), column(Decimal("1.5")), "the scale says nothing")


def test_an_infinity_is_no_number() -> None:
    with pytest.raises(AssertionError, match="inf is not"):
        assert_equal(column(math.inf), column(1.0), "infinity")
    assert_equal(column(math.inf, math.nan, -0.0), column(math.inf, math.nan, 0.0), "the same")


def test_floats_that_are_no_sums_are_compared_exactly() -> None:
    near = 1.0 + 1e-12
    assert_equal(column(1.0), column(near), "a sum", sums=(0,))
    with pytest.raises(AssertionError):
        assert_equal(column(1.0), column(near), "no sum", sums=())
    assert_equal(column(math.nan, -0.0), column(math.nan, 0.0), "no sum", sums=())
