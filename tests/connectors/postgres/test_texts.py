"""Texts of PostgreSQL's values in the forms that texts have here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.postgres.columns import PostgresType
from engine.connectors.postgres.texts import BrokenArray, build_text_column, parse_array
from engine.sql.catalog import RelationColumn
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.types import to_arrow


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{}", []),
        ("{1,2,NULL}", ["1", "2", None]),
        ('{"NULL","",a b}', ["NULL", "", "a b"]),
        (r'{"a\"b","c\\d","{x}",","}', ['a"b', r"c\d", "{x}", ","]),
        ("{{1,2},{3,4}}", [["1", "2"], ["3", "4"]]),
        ("[0:1]={7,8}", ["7", "8"]),
    ],
)
def test_an_array_is_lists_of_texts(text: str, values: list[Any]) -> None:
    assert parse_array(text) == values


@pytest.mark.parametrize("text", ["", "1", "{", "{1", "{1,", '{"a', "{1}x", "{{1}"])
def test_a_broken_array_is_refused(text: str) -> None:
    with pytest.raises(BrokenArray):
        parse_array(text)


@pytest.mark.parametrize(
    ("name", "kind", "texts", "values"),
    [
        ("bool", "boolean", ["t", "f", None], [True, False, None]),
        ("int8", "bigint", ["-9223372036854775808", "7"], [-(1 << 63), 7]),
        (
            "float8",
            "double",
            ["1.5", "Infinity", "-Infinity", "1e+300"],
            [1.5, float("inf"), -float("inf"), 1e300],
        ),
        ("bytea", "binary", ["\\x0aff", "\\x"], [b"\n\xff", b""]),
        ("text", "string", ["", "ä\n"], ["", "ä\n"]),
        (
            "uuid",
            "string",
            ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
            ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
        ),
    ],
)
def test_texts_are_values_of_their_type(name: str, kind: str, texts: list[Any], values: list[Any]) -> None:
    column = RelationColumn("c", kind)
    made = build_text_column(pa.array(texts, pa.string()), PostgresType(name, "", name), column)
    found = convert_to_type(made, to_arrow(kind))
    assert not found.faults
    assert found.values.to_pylist() == values


@pytest.mark.parametrize(
    ("its", "kind", "text", "shown"),
    [
        (
            PostgresType("timestamptz", "", ""),
            "timestamp",
            "2024-02-29 10:00:00.5+00",
            "2024-02-29 10:00:00.500000+00:00",
        ),
        (PostgresType("timestamp", "", ""), "timestamp_ntz", "0001-01-01 00:00:00", "0001-01-01 00:00:00"),
        (PostgresType("date", "", ""), "date", "9999-12-31", "9999-12-31"),
        (PostgresType("time", "", ""), "time(6)", "23:59:59.999999", "23:59:59.999999"),
        (PostgresType("numeric", "", ""), "decimal(10,2)", "-12.50", "-12.50"),
        (PostgresType("_int4", "int4", ""), "array<int>", "{1,NULL}", "[1, None]"),
        (PostgresType("_int4", "int4", ""), "array<array<int>>", "{{1},{2}}", "[[1], [2]]"),
        (PostgresType("_int4", "int4", ""), "array<array<int>>", "{}", "[]"),
        (PostgresType("_bool", "bool", ""), "array<boolean>", "{t,f}", "[True, False]"),
        (PostgresType("_text", "text", ""), "array<string>", '{"a,b",NULL}', "['a,b', None]"),
    ],
)
def test_a_text_is_a_value(its: PostgresType, kind: str, text: str, shown: str) -> None:
    made = build_text_column(pa.array([text]), its, RelationColumn("c", kind))
    found = convert_to_type(made, to_arrow(kind))
    assert not found.faults
    assert str(found.values[0].as_py()) == shown


@pytest.mark.parametrize(
    ("its", "kind", "text"),
    [
        (PostgresType("numeric", "", ""), "decimal(10,2)", "NaN"),
        (PostgresType("numeric", "", ""), "decimal(4,2)", "100.00"),
        (PostgresType("numeric", "", ""), "decimal(4,2)", "1.005"),
        (PostgresType("timestamptz", "", ""), "timestamp", "infinity"),
        (PostgresType("timestamptz", "", ""), "timestamp", "0044-03-15 00:00:00+00 BC"),
        (PostgresType("date", "", ""), "date", "10000-01-01"),
        (PostgresType("_int4", "int4", ""), "array<int>", "{{1},{2}}"),
        (PostgresType("_text", "text", ""), "array<string>", "{{a},{b}}"),
        (PostgresType("_text", "text", ""), "array<array<string>>", "{a,b}"),
    ],
)
def test_a_value_that_the_type_has_not_is_a_fault(its: PostgresType, kind: str, text: str) -> None:
    made = build_text_column(pa.array([text]), its, RelationColumn("c", kind))
    assert list(convert_to_type(made, to_arrow(kind)).faults) == [0]
