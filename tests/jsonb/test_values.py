"""Values of SQL as json and jsonb, as PostgreSQL 16 writes them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from engine.jsonb import values

UTC = datetime.UTC
ROW = {"bb": 1, "a": [1.0, None], "j": '{"x": 1}'}
ROWS = pa.struct([("bb", pa.int32()), ("a", pa.list_(pa.float64())), ("j", pa.string())])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (1, "1"),
        (1.0, "1"),
        (1e20, "100000000000000000000"),
        (-0.5, "-0.5"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        (Decimal("1.50"), "1.50"),
        ('a"b', '"a\\"b"'),
        (b"\xab", '"\\\\xab"'),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 600000), '"2026-01-02T03:04:05.6"'),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02T03:04:05+00:00"'),
        (datetime.time(3, 4, 5), '"03:04:05"'),
        (datetime.timedelta(days=1, hours=2), '"1 day 02:00:00"'),
    ],
)
def test_a_plain_value(value: object, shown: str) -> None:
    assert values.render_documents(pa.array([value, None]), "", sort=True) == [shown, None]


def test_a_float_of_four_bytes_has_the_digits_that_tell_it_from_others() -> None:
    assert values.render_documents(pa.array([0.1], pa.float32()), "", sort=True) == ["0.1"]


def test_rows_and_arrays_hold_json_as_json_and_texts_as_strings() -> None:
    column = pa.array([ROW, None], ROWS)
    kind = "struct<bb:int,a:array<double>,j:jsonb>"
    assert values.render_documents(column, kind, sort=True) == [
        '{"a": [1, null], "j": {"x": 1}, "bb": 1}',
        None,
    ]
    assert values.render_documents(column, kind, sort=False) == ['{"bb":1,"a":[1,null],"j":{"x": 1}}', None]
    assert values.render_documents(column, "", sort=False) == [
        '{"bb":1,"a":[1,null],"j":"{\\"x\\": 1}"}',
        None,
    ]


def test_groups_are_written_as_postgres_writes_them() -> None:
    numbers = pa.array([[1, None], None], pa.list_(pa.int32()))
    assert values.aggregate_lists(numbers, "int") == ["[1, null]", None]
    nested = pa.array([[[1], [2]]], pa.list_(pa.list_(pa.int32())))
    assert values.aggregate_lists(nested, "array<int>") == ["[[1], \n [2]]"]
    keys = pa.array([["b", "a", "b"]], pa.list_(pa.string()))
    found = pa.array([[1, None, 3]], pa.list_(pa.int32()))
    assert values.aggregate_objects(keys, found, "int", sort=True) == ['{"a": null, "b": 3}']
    assert values.aggregate_objects(keys, found, "int", sort=False) == ['{ "b" : 1, "a" : null, "b" : 3 }']
    assert values.build_json_object(["b", "a"], ["1", None]) == '{"b" : 1, "a" : null}'


def test_a_key_that_is_null_is_told() -> None:
    assert values.build_object([None], ["1"]) == "!a key of a JSON object must not be null"
