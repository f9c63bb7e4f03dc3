"""Texts of JSON in nested types: parts are read as fields of their types are, and what does not fit is told with its path."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.types import to_arrow

KIND = to_arrow(
    "struct<a:int,l:array<decimal(10,2)>,m:map<date,struct<x:time(6),b:binary>>,t:array<string>,i:map<int,boolean>>"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "l": ["1.50", 2, null]}', {"a": 1, "l": [Decimal("1.50"), Decimal("2.00"), None]}),
        ('{"A": "7", "unknown": {}}', {"a": 7}),
        ('{"a": 1, "A": 2}', {"a": 1}),
        (
            '{"m": {"2024-1-2": {"x": "10:00:00.5", "b": "aGk="}}}',
            {"m": [(dt.date(2024, 1, 2), {"x": dt.time(10, 0, 0, 500000), "b": b"hi"})]},
        ),
        ('{"m": [["2024-01-02", null], {"key": "2024-01-03", "value": {}}]}', None),
        ('{"t": ["x", 5, true, {"b": [1.0]}, null]}', {"t": ["x", "5", "true", '{"b": [1.0]}', None]}),
        ('{"i": {"1": true, "2": "no"}}', {"i": [(1, True), (2, False)]}),
        ("null", "null"),
    ],
)
def test_parts_are_read_by_their_types(text: str, found: Any) -> None:
    converted = convert_to_type(pa.array([text, None]), KIND)
    assert not converted.faults
    value = converted.values[0].as_py()
    if found == "null":
        assert value is None
    elif found is None:
        inner = {"x": None, "b": None}
        assert value["m"] == [(dt.date(2024, 1, 2), None), (dt.date(2024, 1, 3), inner)]
    else:
        assert value == dict.fromkeys(KIND.names) | found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"l": ["1.50", "x"]}', '.l[]: "x" is no DECIMAL(10,2)'),
        ('{"l": [1.555]}', '.l[]: "1.555" is no DECIMAL(10,2)'),
        ('{"l": {"a": 1}}', '.l: "{"a": 1}" is no ARRAY<DECIMAL(10,2)>'),
        ('{"m": {"2024-01-02": {"x": "25:00"}}}', '.m.value.x: "25:00" is no TIME'),
        ('{"m": {"today": null}}', '.m.key: "today" is no DATE'),
        ('{"m": [["2024-01-02"]]}', '.m: "[["2024-01-02"]]" is no MAP'),
        ('{"m": [[null, null]]}', '.m: "[[null, null]]" is no MAP'),
        ('{"m": {"2024-01-02": {"b": "?"}}}', '.m.value.b: "?" is no BINARY'),
        ('{"a": 1.5}', '.a: "1.5" is no INT'),
        ('{"a": [1]}', '.a: "[1]" is no INT'),
        ('{"L": [], "l ": 1, "Aa": 1, "a": true}', '.a: "true" is no INT'),
        ("[1]", ': "[1]" is no STRUCT'),
        ('{"a":', ': "{"a":" is no STRUCT'),
        ('{"a": 1, "a": 1}', ': "{"a": 1, "a": 1}" is no STRUCT'),
        ('{"m": {"2024-1-2": null, "2024-01-02": {}}}', '.m.key: "2024-01-02" occurs twice in one map'),
        (
            '{"m": [["2024-01-02", null], ["2024-01-02", null]]}',
            '.m.key: "2024-01-02" occurs twice in one map',
        ),
        ('{"i": {"1": true, "1": true}}', '.i.key: "1" occurs twice in one map'),
    ],
)
def test_what_does_not_fit_is_told_with_its_path(text: str, message: str) -> None:
    converted = convert_to_type(pa.array(['{"a": 1}', text, None, '{"a": 2}']), KIND)
    assert list(converted.faults) == converted.bad.tolist() == ([1] if message else [])
    if message:
        assert converted.faults[1].describe("v").startswith(f"column v{message}")
        values = [None if value is None else value["a"] for value in converted.values.to_pylist()]
        assert values == [1, None, None, 2]


def test_a_field_that_is_named_twice_but_for_case_is_told() -> None:
    converted = convert_to_type(
        pa.array(['{"B": 1, "b ": 2}', '{"B": 1, "b": 2}', '{"AB": 1, "Ab": 2}']),
        pa.struct({"ab": pa.int32()}),
    )
    assert list(converted.faults) == [2]


def test_texts_of_documents_are_json() -> None:
    texts = ['["a", 5, {"b": 1.10}, null, true]', None, "[]"]
    converted = convert_to_type(pa.array(texts), pa.list_(pa.string()), documents=True)
    assert converted.values.to_pylist() == [['"a"', "5", '{"b": 1.10}', None, "true"], None, []]


@pytest.mark.parametrize(
    ("key", "twice", "once"),
    [
        (pa.float64(), [0.0, -0.0], [0.0, 1.0]),
        (pa.float32(), [float("nan"), float("nan")], [float("nan"), float("inf")]),
        (pa.struct({"a": pa.int32()}), [{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 2}]),
        (pa.decimal128(5, 1), [Decimal("1.0"), Decimal(1)], [Decimal("1.0"), Decimal(2)]),
        (pa.bool_(), [True, True], [True, False]),
        (pa.string(), ["a", "a"], ["a", "A"]),
    ],
)
def test_a_map_of_any_form_has_a_key_once(key: pa.DataType, twice: list[Any], once: list[Any]) -> None:
    kind = pa.list_(pa.map_(key, pa.int32()))
    rows = [[list(zip(keys, (1, 2), strict=True))] for keys in (once, twice)]
    found = convert_to_type(pa.array([*rows, None, [None, []]], kind), kind)
    assert list(found.faults) == [1] and found.faults[1].path == "[].key"
    assert "occurs twice in one map" in found.faults[1].describe("v")
    assert found.values.to_pylist()[2:] == [None, [None, []]] and not found.values[1].is_valid


def test_names_that_nobody_needs_may_stand_twice() -> None:
    found = convert_to_type(pa.array(['{"x": 1, "a": 2, "x": 3}']), pa.struct({"a": pa.int32()}))
    assert found.values.to_pylist() == [{"a": 2}] and found.unknown == ("x",)
