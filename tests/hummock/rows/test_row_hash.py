"""The hash equals Spark's: values printed once by `SELECT xxhash64(...)` of Spark 4.2."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import InvalidRow
from engine.hummock import vnode_of, xxhash64

US, US_UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
SPARK = [
    (pa.bool_(), True, -6698625589789238999),
    (pa.bool_(), False, 3614696996920510707),
    (pa.int8(), 5, 504019808641096632),
    (pa.int8(), -3, 1399955818750051488),
    (pa.int16(), 300, 4595878464234128934),
    (pa.int32(), 1, -6698625589789238999),
    (pa.int32(), -1, 2017008487422258757),
    (pa.int32(), 2147483647, 1508894993788531228),
    (pa.int64(), 0, -5252525462095825812),
    (pa.int64(), 42, -6876166290308861218),
    (pa.int64(), -9223372036854775807, -3362613479881488794),
    (pa.string(), "", -7444071767201028348),
    (pa.string(), "a", -8582455328737087284),
    (pa.string(), "abcdefgh", 2470326616177429180),
    (pa.string(), "The quick brown fox jumps over the lazy dog", -6152153990451020481),
    (pa.string(), "żółć", -7923092457811661584),
    (pa.large_string(), "abcdefgh", 2470326616177429180),
    (pa.binary(), b"\x00\xff\x10", 5415089035989094387),
    (pa.float32(), 1.5, 6163473420726370430),
    (pa.float32(), -0.0, 3614696996920510707),
    (pa.float32(), float("nan"), 2692338816207849720),
    (pa.float64(), 2.25, 8187679590067029592),
    (pa.float64(), -0.0, -5252525462095825812),
    (pa.float64(), float("nan"), -3127944061524951246),
    (pa.float64(), float("-inf"), 5326262080505358431),
    (pa.date32(), dt.date(2024, 2, 29), 4183429117450946631),
    (pa.date32(), dt.date(1969, 12, 31), 2017008487422258757),
    (US_UTC, dt.datetime(2024, 2, 29, 12, 34, 56, 789012, dt.UTC), -2021281541725647388),
    (US, dt.datetime(1960, 1, 1, 0, 0, 1), 7861910652954894205),
    (pa.decimal128(10, 2), Decimal("123.45"), 8791244235932249694),
    (pa.decimal128(18, 2), Decimal("-0.01"), 3858142552250413010),
    (pa.decimal128(38, 2), Decimal("123.45"), -3765588051240043440),
    (pa.decimal128(20, 0), Decimal("-1"), -4006032525457443936),
    (pa.decimal128(20, 0), Decimal("128"), 6715097930120473301),
    (pa.decimal128(38, 0), Decimal("-12345678901234567890123"), 93767350383175058),
    (pa.decimal128(38, 0), Decimal("0"), -8959994473701255385),
    (pa.int32(), None, 42),
]


@pytest.mark.parametrize(("kind", "value", "expected"), SPARK, ids=lambda part: str(part)[:24])
def test_one_column_hashes_as_in_spark(kind: pa.DataType, value: object, expected: int) -> None:
    array = pa.array([value, None, value], kind)
    assert xxhash64([array]).tolist() == [expected, 42, expected]
    assert xxhash64([array.slice(2)]).tolist() == [expected]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([pa.array([1], pa.int64()), pa.array(["a"])], -8527884376001292090),
        ([pa.array([None], pa.int64()), pa.array(["a"])], -8582455328737087284),
        (
            [
                pa.array(["a"]),
                pa.array([1], pa.int64()),
                pa.array([None], pa.string()),
                pa.array([dt.date(2024, 1, 1)]),
            ],
            -7144769704479101065,
        ),
        (
            [pa.array([True]), pa.array(["x"]), pa.array([1.0]), pa.array([7], pa.int32())],
            -6875141457923280499,
        ),
    ],
)
def test_several_columns_chain_as_in_spark(columns: list[pa.Array], expected: int) -> None:
    assert xxhash64(columns).tolist() == [expected]


def test_repeated_strings_hash_the_same_by_dictionary_and_one_by_one() -> None:
    values = [f"k{i % 7}" for i in range(6000)] + [None]
    assert xxhash64([pa.array(values)])[:100].tolist() == xxhash64([pa.array(values[:100])]).tolist()


def test_a_nested_column_cannot_be_hashed() -> None:
    with pytest.raises(InvalidRow, match="list"):
        xxhash64([pa.array([[1]])])


def test_vnodes_follow_the_order_of_the_hashes() -> None:
    hashes = np.array([-(2**63), -1, 0, 2**63 - 1])
    assert vnode_of(hashes).tolist() == [0, 127, 128, 255]
