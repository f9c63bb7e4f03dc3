"""What a function gets and gives, by type: nothing is bent."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from engine.python_functions.values import (
    WrongValue,
    build_column,
    describe,
    find_formless,
    find_writer,
    read_arguments,
)

UTC = dt.UTC
GIVEN: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), 127),
    (pa.int64(), -(2**63)),
    (pa.float64(), 3),
    (pa.float32(), 0.1),
    (pa.decimal128(5, 2), 12),
    (pa.decimal128(5, 2), Decimal("1E+2")),
    (pa.bool_(), False),
    (pa.string(), "\U0001f600"),
    (pa.binary(), bytearray(b"x")),
    (pa.date32(), dt.date(1, 1, 1)),
    (pa.time64("ns"), dt.time(1, 2, 3, 4)),
    (pa.duration("us"), dt.timedelta(days=1)),
    (pa.timestamp("us"), dt.datetime(2026, 1, 1)),
    (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    (pa.list_(pa.int32()), (1, None)),
    (pa.map_(pa.string(), pa.int32()), {"a": None}),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), {"b": ["x"], "a": 1}),
]
REFUSED: list[tuple[pa.DataType, Any, str]] = [
    (pa.int32(), True, "bool"),
    (pa.int32(), 1.0, "float"),
    (pa.int32(), "1", "str"),
    (pa.int32(), 2**31, "32 bits"),
    (pa.float64(), 2**53 + 1, "without a loss"),
    (pa.float64(), 10**400, "too large"),
    (pa.float64(), Decimal(1), "Decimal"),
    (pa.float32(), 1e39, "too large"),
    (pa.float32(), 2**24 + 1, "without a loss"),
    (pa.duration("us"), dt.timedelta.max, "64 bits"),
    (pa.duration("us"), pd.Timedelta(1, "ns"), "nanoseconds"),
    (pa.timestamp("us"), pd.Timestamp("2026-01-01 00:00:00.000000001"), "nanoseconds"),
    (pa.timestamp("us"), pd.NaT, "is no datetime: return None"),
    (pa.timestamp("us", "UTC"), pd.NaT, "is no datetime: return None"),
    (pa.map_(pa.float32(), pa.int32()), {0.1: 1, 0.1 + 1e-12: 2}, "two keys are one"),
    (pa.map_(pa.float64(), pa.int32()), {float("nan"): 1, -float("nan"): 2}, "two keys are one"),
    (pa.decimal128(5, 2), 1.5, "float"),
    (pa.decimal128(5, 2), Decimal("1.234"), "more digits"),
    (pa.decimal128(5, 2), 1000, "too large"),
    (pa.decimal128(5, 2), Decimal("NaN"), "NaN"),
    (pa.bool_(), 1, "int"),
    (pa.string(), b"x", "bytes"),
    (pa.string(), "\ud800", "surrogate"),
    (pa.binary(), "x", "str"),
    (pa.date32(), dt.datetime(2026, 1, 1), "value.date"),
    (pa.time64("ns"), dt.time(1, tzinfo=UTC), "time zone"),
    (pa.timestamp("us"), dt.datetime(2026, 1, 1, tzinfo=UTC), "time zone"),
    (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 1), "no time zone"),
    (pa.timestamp("us", "UTC"), dt.date(2026, 1, 1), "date"),
    (pa.list_(pa.int32()), "ab", "str"),
    (pa.list_(pa.int32()), ["a"], "str"),
    (pa.map_(pa.string(), pa.int32()), {None: 1}, "None"),
    (pa.map_(pa.string(), pa.int32()), [("a", 1)], "list"),
    (pa.struct([("a", pa.int32())]), {"a": 1, "b": 2}, "fields are a"),
    (pa.struct([("a", pa.int32())]), {}, "none"),
]


@pytest.mark.parametrize(("kind", "value"), GIVEN)
def test_a_value_of_a_type_is_taken_and_null_always(kind: pa.DataType, value: Any) -> None:
    write = find_writer(kind)
    column = build_column([write(value), write(None)], kind)
    assert column.type == kind and column.is_null().to_pylist() == [False, True]


@pytest.mark.parametrize(("kind", "value", "said"), REFUSED)
def test_a_value_of_another_type_is_refused(kind: pa.DataType, value: Any, said: str) -> None:
    with pytest.raises(WrongValue, match=said):
        find_writer(kind)(value)


def test_a_zero_as_a_key_of_a_map_has_no_sign() -> None:
    ((key, _),) = find_writer(pa.map_(pa.float64(), pa.int32()))({-0.0: 1})
    assert str(key) == "0.0"


def test_types_that_hold_what_python_has_no_form_for_are_found() -> None:
    keyed = pa.map_(pa.list_(pa.int32()), pa.int32())
    for kind in (keyed, pa.list_(keyed), pa.map_(pa.string(), keyed), pa.struct([("a", keyed)])):
        assert "keys are lists or structs" in find_formless(kind)
    assert find_formless(pa.null()) and not any(find_formless(kind) for kind, _ in GIVEN)


def test_a_function_gets_moments_in_utc_and_maps_as_dicts() -> None:
    moment = dt.datetime(2026, 7, 1, 12, tzinfo=UTC)
    there = pa.array([moment, None], pa.timestamp("us", "Europe/Berlin"))
    first, second = read_arguments(there)
    assert first == moment and first.utcoffset() == dt.timedelta(0) and second is None
    nested = pa.array([[[("k", moment)], None]], pa.list_(pa.map_(pa.string(), pa.timestamp("us", "UTC"))))
    assert read_arguments(nested) == [[{"k": moment}, None]]
    rows = pa.array([{"m": [("a", 1)]}, {"m": None}], pa.struct([("m", pa.map_(pa.string(), pa.int32()))]))
    assert read_arguments(rows) == [{"m": {"a": 1}}, {"m": None}]


def test_a_time_that_python_has_not_stands_as_an_error_in_its_place() -> None:
    days = pa.array([0, 2_932_897], pa.int32()).cast(pa.date32())
    for column in (days, pa.array([[0], [2_932_897]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))):
        first, second = read_arguments(column)
        assert first in (dt.date(1970, 1, 1), [dt.date(1970, 1, 1)])
        assert isinstance(second, WrongValue) and "+10000-01-01" in str(second)


def test_a_message_is_bounded_whatever_a_value_is() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert len(describe("x" * 10_000)) == 120
    assert describe(Odd()) == "<Odd whose repr raises RuntimeError>"
