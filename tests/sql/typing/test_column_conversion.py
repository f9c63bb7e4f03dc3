"""Columns by the table of conversions: what is taken, where a fault is, and that parts of values follow it as columns do."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.arrow import as_values
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.conversions import (
    FAMILIES,
    TABLE,
    ConversionVerdict,
    classify_conversion,
    find_family,
    find_refused_part,
    format_arrow_type,
)
from engine.sql.typing.types import to_arrow
from tests.sql.typing.spark_conversions import VALUES, column_of

UTC = datetime.UTC
LINES = "struct<lines:array<struct<qty:int,note:string>>>"


def list_faults(values: list[Any] | pa.Array[Any], kind: str, column: str = "c") -> list[str]:
    """Return what is said of each value that does not fit."""
    given = values if isinstance(values, pa.Array) else pa.array(values)
    return [
        fault.describe(column) for _, fault in sorted(convert_to_type(given, to_arrow(kind)).faults.items())
    ]


def test_a_column_of_its_type_is_handed_on_as_it_is() -> None:
    column = pa.array([1, 2, None])
    assert convert_to_type(column, pa.int64()).values is column


def test_a_column_of_a_type_that_never_fits_is_set_aside_as_a_whole() -> None:
    found = convert_to_type(pa.array([{"a": 1}, None, {"a": 2}]), pa.int32())
    assert (found.values.to_pylist(), found.bad.tolist()) == ([None, None, None], [0, 2])


def test_nested_texts_that_cannot_be_read_are_set_aside() -> None:
    texts = ["[1, 2]", "[" * 5000, "[" + "1" * 5000 + "]", '["\\ud800"]', '{"a": 1}', "[3]"]
    found = convert_to_type(pa.array(texts), pa.list_(pa.int32()))
    assert found.values.to_pylist() == [[1, 2], None, None, None, None, [3]]
    halves = convert_to_type(pa.array(['"\\ud800"', '["\\ud800"]', "null"]), pa.list_(pa.string()))
    assert [fault.value for fault in halves.faults.values()] == ["\\ud800", "\\ud800"]


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (1706954400, "timestamp", "a number says no unit"),
        (5, "boolean", "compare it: n <> 0"),
        (True, "int", "CASE WHEN"),
        (5, "date", "a number says no unit"),
        (datetime.datetime(2024, 1, 1, tzinfo=UTC), "timestamp_ntz", "in which zone"),
        (b"a", "int", "no BINARY is taken"),
        (datetime.date(2024, 1, 1), "bigint", "no DATE is taken"),
    ],
)
def test_a_type_that_a_column_does_not_take_is_told_with_a_remedy(value: Any, kind: str, said: str) -> None:
    (only,) = list_faults([value], kind)
    assert said in only and f"is no {format_arrow_type(to_arrow(kind))}" in only


@pytest.mark.parametrize(
    ("values", "kind", "bad"),
    [
        ([1e300, 3.4e38, float("inf"), float("nan"), 0.1], "float", [0]),
        ([1.0, 1.5, float("nan"), -0.0, 2.0**63, None], "bigint", [1, 2, 4]),
        ([2**53, 2**53 + 1, -(2**63), 2**63 - 1], "double", [1, 3]),
        ([127, 128, -128, -129], "tinyint", [1, 3]),
        ([0.1, 0.125, 1e9, 999999999.99, 99999999.99], "decimal(10,2)", [1, 2, 3]),
        ([Decimal("1.5"), Decimal(2)], "int", [0]),
        ([Decimal("0.005"), Decimal("0.010")], "decimal(10,2)", [0]),
        ([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 5)], "date", [1]),
        ([b"a", b"\xff"], "string", [1]),
        (["1e300", "Infinity", "-inf", "x", "0.1"], "float", [0, 3]),
        (["1e999", "1e308"], "double", [0]),
        ([5, 126], "decimal(38,38)", [0, 1]),
    ],
)
def test_a_value_that_is_none_of_the_type_is_set_aside_alone(
    values: list[Any], kind: str, bad: list[int]
) -> None:
    found = convert_to_type(pa.array(values), to_arrow(kind))
    assert found.bad.tolist() == bad
    assert [at for at, value in enumerate(found.values.to_pylist()) if value is None] == [
        at for at, value in enumerate(values) if at in bad or value is None
    ]


@pytest.mark.parametrize("calendar", [False, True])
def test_years_that_python_lacks_are_told_where_they_are_asked_about(calendar: bool) -> None:
    days = pa.array([-719_163, -719_162, 2_932_896, 2_932_897], pa.int32()).cast(pa.date32())
    for column, kind in ((days, pa.date32()), (days, pa.timestamp("us", "UTC"))):
        assert convert_to_type(column, kind, calendar=calendar).bad.tolist() == ([0, 3] if calendar else [])


def test_a_fault_names_its_place_below_the_column() -> None:
    rows: list[Any] = [
        {"lines": [{"qty": 1.0, "note": "a"}]},
        None,
        {"lines": [{"qty": 1.0, "note": None}, {"qty": 1.5, "note": "b"}]},
        {"lines": None},
    ]
    found = convert_to_type(pa.array(rows), to_arrow(LINES))
    assert found.values.to_pylist() == [{"lines": [{"qty": 1, "note": "a"}]}, None, None, {"lines": None}]
    assert list_faults(rows, LINES, "addr") == ['column addr.lines[].qty: "1.5" is no INT']
    assert list_faults(['{"lines": [{"qty": 1}, {"qty": 1.5}]}', '{"lines": [7]}'], LINES, "addr") == [
        'column addr.lines[].qty: "1.5" is no INT',
        'column addr.lines[]: "7" is no STRUCT<qty:INT,note:STRING>',
    ]
    pairs = pa.array([[("a", 1)], [("b", 70_000)]], pa.map_(pa.string(), pa.int64()))
    assert list_faults(pairs, "map<string,smallint>") == ['column c.value: "70000" is no SMALLINT']
    assert list_faults(['{"1": true, "x": false}'], "map<int,boolean>") == ['column c.key: "x" is no INT']
    assert list_faults(["[1, 1.5]", '["2"]', "[[3]]"], "array<int>") == [
        'column c[]: "1.5" is no INT',
        'column c[]: "[3]" is no INT',
    ]


def test_a_refused_part_is_found_before_values_are_looked_at() -> None:
    given = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.map_(pa.string(), pa.int64()))]))
    wanted = to_arrow("array<struct<a:int,b:map<string,boolean>>>")
    assert find_refused_part(given, wanted, "c") == ("c[].b.value", pa.int64(), pa.bool_())
    assert find_refused_part(given, given) is None
    by_place = pa.struct([("b", pa.int64()), ("a", pa.string())])
    assert find_refused_part(by_place, to_arrow("struct<a:int,b:string>")) is None
    assert find_refused_part(by_place, to_arrow("struct<a:boolean,b:string>"), by_name=False) is not None


def test_fields_are_matched_by_name_and_those_that_the_column_lacks_are_told() -> None:
    rows = pa.array([{"B": 1, "a": 2, "more": 3}])
    kind = to_arrow("struct<a:int,b:bigint,c:string>")
    for given in (rows, pa.array(['{"B": 1, "a": 2, "more": 3}'])):
        found = convert_to_type(given, kind)
        assert found.values.to_pylist() == [{"a": 2, "b": 1, "c": None}]
        assert (found.unknown, dict(found.faults)) == (("more",), {})


def test_json_gives_maps_of_objects_and_of_pairs() -> None:
    texts = ['{"a": 1}', '[["a", 1]]', '[{"key": "a", "value": 1}]', "[1]", "3", "null", "{}"]
    found = convert_to_type(pa.array(texts), to_arrow("map<string,decimal(3,1)>"))
    assert found.values.to_pylist() == [*[[("a", Decimal(1))]] * 3, None, None, None, []]
    assert found.bad.tolist() == [3, 4]


@pytest.mark.parametrize("nulls", [False, True])
def test_elements_fields_and_values_follow_the_table_as_columns_do(nulls: bool) -> None:
    for given, wanted in itertools.product(VALUES, VALUES):
        column, kind = column_of(given), to_arrow(wanted)
        plain = convert_to_type(column, kind)
        count = len(column)
        absent = pa.array([nulls and at % 3 == 0 for at in range(count)])
        ones = np.arange(count + 1).astype(np.int32)
        keys = pa.array([str(at) for at in range(count)])
        as_list = pa.ListArray.from_arrays(pa.array(ones), column, mask=absent)
        as_map = pa.MapArray.from_arrays(pa.array(ones), keys, column, mask=absent)
        as_struct = pa.StructArray.from_arrays([column], ["x"], mask=absent)
        bad = [at for at in plain.bad.tolist() if not absent[at].as_py()]
        values = as_values(plain.values)
        for nested, target, shown in (
            (as_list, pa.list_(kind), lambda value, _: [value]),
            (as_list.cast(pa.large_list(column.type)), pa.list_(kind), lambda value, _: [value]),
            (as_map, pa.map_(pa.string(), kind), lambda value, at: [(str(at), value)]),
            (as_struct, pa.struct([("x", kind)]), lambda value, _: {"x": value}),
        ):
            for start in (0, 2):
                part = nested.slice(min(start, count))
                found = convert_to_type(part, target)
                assert found.bad.tolist() == [at - start for at in bad if at >= start], (given, wanted)
                expected = [
                    None if absent[at].as_py() or at in bad else shown(values[at], at)
                    for at in range(min(start, count), count)
                ]
                assert repr(as_values(found.values)) == repr(expected), (given, wanted, target)
                found.values.validate(full=True)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_view(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_(pa.uint8()),
        pa.large_list_view(pa.int8()),
    ],
)
def test_all_kinds_of_lists_are_taken(kind: pa.DataType) -> None:
    assert convert_to_type(pa.array([[1, 2], None, []], kind), pa.list_(pa.int32())).values.to_pylist() == [
        [1, 2],
        None,
        [],
    ]


def test_arrows_other_forms_are_taken_as_what_they_hold() -> None:
    fixed = pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    assert convert_to_type(fixed, pa.list_(pa.int32())).values.to_pylist() == [[1, 2], None]
    words = pa.array(["1", "2", "1", None]).dictionary_encode()
    assert convert_to_type(words, pa.int32()).values.to_pylist() == [1, 2, 1, None]
    assert convert_to_type(pa.array([2**64 - 1], pa.uint64()), pa.int64()).bad.tolist() == [0]
    assert convert_to_type(pa.array([1.5], pa.float16()), pa.float64()).values.to_pylist() == [1.5]
    assert convert_to_type(
        pa.array([Decimal("1.5")], pa.decimal256(50, 2)), pa.decimal128(3, 1)
    ).values.to_pylist() == [Decimal("1.5")]
    nanos = pa.array([1_000, 1_001], pa.timestamp("ns", "Europe/Berlin"))
    found = convert_to_type(nanos, pa.timestamp("us", "UTC"))
    assert (found.values.cast(pa.int64()).to_pylist(), found.bad.tolist()) == ([1, None], [1])
    assert convert_to_type(pa.array([1, 1_001], pa.time64("ns")), to_arrow("time(6)")).bad.tolist() == [0, 1]


def test_the_table_knows_every_family_and_takes_each_as_itself() -> None:
    assert set(TABLE) == set(FAMILIES) == {find_family(to_arrow(kind)) for kind in VALUES}
    for kind in VALUES:
        assert classify_conversion(to_arrow(kind), to_arrow(kind)) is ConversionVerdict.TAKEN


@pytest.mark.parametrize("given", list(VALUES))
def test_what_is_taken_is_taken_whatever_the_values(given: str) -> None:
    for wanted in VALUES:
        found = convert_to_type(column_of(given), to_arrow(wanted))
        kind = classify_conversion(to_arrow(given), to_arrow(wanted))
        beyond = given == "date" and wanted.startswith("timestamp")  # days that no timestamp reaches
        if kind is ConversionVerdict.TAKEN and not beyond:
            assert not found.faults, wanted
        if kind is ConversionVerdict.REFUSED:
            assert len(found.faults) == len(found.values) - column_of(given).null_count, wanted
