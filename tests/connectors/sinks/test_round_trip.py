"""What a sink writes lands again as it was: every type and what is nested of it, with the values at its ends, in each format."""

from __future__ import annotations

import datetime as dt
import io
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.formats import json_reader, parquet_reader
from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.rows import LandingTarget, land_rows
from engine.connectors.sinks.files import encode_rows
from engine.connectors.sinks.options import FORMATS
from engine.sql.catalog import RelationColumn
from engine.sql.typing.types import _SIMPLE, to_arrow

READERS = {"jsonl": json_reader.read_json, "parquet": parquet_reader.read_parquet}
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127, 0],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1, 2**53 + 1],
    "float": [0.1, -0.0, 3.4028234663852886e38, 1.401298464324817e-45, math.nan, math.inf, -math.inf],
    "double": [0.1, -0.0, 1.7976931348623157e308, 5e-324, math.nan, math.inf, -math.inf],
    "decimal(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38)],
    "decimal(38,38)": [Decimal("0." + "9" * 38), Decimal("-0." + "0" * 37 + "1")],
    "decimal(10,2)": [Decimal("99999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("5.00")],
    "string": ["", " ", "a\r\nb\rc\nd", '"', "\\", "null", "\u2028ü日\U0001f600", "\0", "5", "[1]", "\\x41"],
    "binary": [b"", b"\0\xff\r\n", b"plain", b"\\x41"],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)],
    "timestamp": [
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC),
    ],
    "timestamp_ntz": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "time(6)": [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12, 30)],
    "interval day to second": [
        dt.timedelta(microseconds=-1),
        dt.timedelta(days=106751990, microseconds=999999),
        dt.timedelta(days=-106751990, microseconds=1),
        dt.timedelta(seconds=90),
    ],
}
SHAPES = ("{}", "array<{}>", "map<int,{}>", "map<{},string>", "struct<a:{},B:array<{}>>")


def shaped(shape: str, value: Any) -> list[Any]:
    """Return values of a nested type around one."""
    match shape:
        case "{}":
            return [value, None]
        case "array<{}>":
            return [[value, None, value], [], None]
        case "map<int,{}>":
            return [[(1, value), (2, None)], [], None]
        case "map<{},string>":
            return [[(value, "x")], [(value, None)], None]
    return [{"a": value, "B": [value]}, {"a": None, "B": None}, None]


def again(rows: pa.Table, form: str, limited: dict[str, RelationColumn]) -> tuple[pa.Table, list[str]]:
    """Return rows that were written and read, and why some were not."""
    documents = frozenset(limited)
    file = io.BytesIO(encode_rows(rows, form, "none", documents))
    target = LandingTarget("t", rows.schema, ("id",), frozenset({"id"}), limited=limited)
    options = FileOptions(columns=target.columns_to_read, documents=target.documents, row_groups=())
    found = [land_rows(batch, target) for batch in READERS[form](file, options, ReadLimits())]
    return pa.concat_tables([each.rows for each in found]), [bad.reason for each in found for bad in each.bad]


def same(one: pa.Table, other: pa.Table) -> bool:
    """Tell whether rows are equal to the bit; NaN is NaN."""
    return one.schema == other.schema and repr(one.to_pylist()) == repr(other.to_pylist())


@pytest.mark.parametrize("form", FORMATS)
def test_every_value_lands_again_as_it_was_written(form: str) -> None:
    assert {kind for kind in _SIMPLE if kind != "void"} <= VALUES.keys(), "a type has no values here"
    for kind, values in VALUES.items():
        for shape in SHAPES:
            text = shape.format(*[kind] * shape.count("{}"))
            cells = [cell for value in values for cell in shaped(shape, value)]
            rows = pa.table(
                {"id": pa.array(range(len(cells)), pa.int64()), "v": pa.array(cells, to_arrow(text))}
            )
            found, bad = again(rows, form, {})
            assert not bad, f"{text}: {bad[:3]}"
            assert same(found, rows), text


def _without_null(cell: Any) -> Any:
    return [part for part in cell if part != "null"] if isinstance(cell, list) else cell


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_documents_land_again_as_they_were_written(form: str, kind: str) -> None:
    texts = [
        '"asd"',
        '"5"',
        "5",
        "null",
        "true",
        '{"a": 1.10, "bb": [null, "x"]}',
        "[]",
        '"\\r\\n"',
        "1" * 40,
    ]
    for column, cells in (
        (RelationColumn("v", "string", sql_type=kind), [*texts, None]),
        (RelationColumn("v", "array<string>", sql_type=f"array<{kind}>"), [texts, [], None]),
    ):
        if form == "jsonl":  # a line has one null, which lands as no value
            cells = [_without_null(cell) for cell in cells if cell != "null"]
        rows = pa.table(
            {"id": pa.array(range(len(cells)), pa.int64()), "v": pa.array(cells, to_arrow(column.type))}
        )
        found, bad = again(rows, form, {"v": column})
        assert not bad, bad
        assert same(found, rows), found.to_pylist()
