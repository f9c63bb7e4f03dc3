"""Files of every format against one table: names are found by one rule, and each row keeps what stands in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.formats import csv_reader, json_reader, parquet_reader
from engine.connectors.formats.file_format import FileOptions, FileRows, MalformedFile
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.rows import LandingTarget, land_rows
from engine.errors import InvalidRow
from engine.session import Session

READERS = {"csv": csv_reader.read_csv, "json": json_reader.read_json, "parquet": parquet_reader.read_parquet}
TARGET = LandingTarget("t", pa.schema([("id", pa.int64()), ("v", pa.string())]), ("id",), frozenset({"id"}))
HAS_OP = LandingTarget("t", pa.schema([("id", pa.int64()), ("_op", pa.string())]), ("id",), frozenset({"id"}))


def csv_of(names: list[str], rows: list[list[Any]]) -> bytes:
    lines = [names, *([str(value) for value in row] for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines).encode()


def json_of(names: list[str], rows: list[list[Any]]) -> bytes:
    pairs = (
        ", ".join(f'"{name}": "{value}"' for name, value in zip(names, row, strict=True)) for row in rows
    )
    return "".join(f"{{{one}}}\n" for one in pairs).encode()


def parquet_of(names: list[str], rows: list[list[Any]]) -> bytes:
    sink = io.BytesIO()
    columns = [pa.array([str(row[at]) for row in rows]) for at in range(len(names))]
    pq.write_table(pa.Table.from_arrays(columns, names=names), sink)
    return sink.getvalue()


WRITERS = {"csv": csv_of, "json": json_of, "parquet": parquet_of}


def batches(kind: str, data: bytes, target: LandingTarget) -> list[FileRows]:
    options = FileOptions(columns=target.columns_to_read, documents=target.documents, row_groups=())
    return list(READERS[kind](io.BytesIO(data), options, ReadLimits()))


def landed(kind: str, data: bytes, target: LandingTarget = TARGET) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows, each with whether it goes, and what was set aside."""
    found = [land_rows(batch, target) for batch in batches(kind, data, target)]
    rows = [
        (*row.values(), bool(gone))
        for each in found
        for row, gone in zip(each.rows.to_pylist(), each.deletes, strict=True)
    ]
    return rows, [bad.reason for each in found for bad in each.bad]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("names", "rows", "wanted"),
    [
        (["ID", "V", "_OP"], [[1, "a", "insert"], [2, "", "DELETE"]], [(1, "a", False), (2, None, True)]),
        (["Id", "id", "v"], [[1, 2, "a"]], [(2, "a", False)]),
        (["v", "note", "note", "Id"], [["a", "x", "y", 7]], [(7, "a", False)]),
        (["id", "v", "N", "n"], [[3, "c", "x", "y"]], [(3, "c", False)]),
    ],
)
def test_names_are_found_by_one_rule(kind: str, names: list[str], rows: list[Any], wanted: Any) -> None:
    found, bad = landed(kind, WRITERS[kind](names, rows))
    texts = [tuple(value or None if isinstance(value, str) else value for value in row) for row in found]
    assert (texts, bad) == (wanted, [])


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["id", "v", "v"], "v twice"),
        (["ID", "Id", "v"], "id as ID and as Id"),
        (["id", "_OP", "_Op"], "_op as _OP and as _Op"),
    ],
)
def test_a_name_that_is_needed_and_stands_twice_is_told(kind: str, names: list[str], message: str) -> None:
    data = WRITERS[kind](names, [[1, 1, 1]])
    if kind == "json":
        assert landed(kind, data) == ([], [f"the object names {message}"])
        return
    with pytest.raises(MalformedFile, match=message):
        landed(kind, data)


def test_each_object_has_names_of_its_own() -> None:
    text = b'{"ID": 1, "v": "a"}\n{"id": 2, "V": "b"}\n{"Id": 3, "ID": 4}\n{"iD": 5, "v": null, "w": 1, "w": 2}\n'
    rows, bad = landed("json", text)
    assert rows == [(1, "a", False), (2, "b", False), (5, None, False)]
    assert bad == ["the object names id as Id and as ID"]
    assert land_rows(batches("json", text, TARGET)[0], TARGET).unknown == ("w",)


@pytest.mark.parametrize("kind", READERS)
def test_a_tables_own_column_of_that_name_is_no_operation(kind: str) -> None:
    rows, bad = landed(kind, WRITERS[kind](["id", "_OP"], [[1, "delete"]]), HAS_OP)
    assert (rows, bad) == ([(1, "delete", False)], [])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_breaks_within_quotes_are_kept(end: str) -> None:
    values = ["x\r\ny", "x\ry", "x\ny", "\r", "\r\n\r\n", "plain", "\n\r"]
    text = "id,v" + end + "".join(f'{n},"{value}"{end}' for n, value in enumerate(values))
    for longest in (4, 7, 1 << 20):

        class Blocks(ReadLimits):
            block = property(lambda self, size=longest: size)  # type: ignore[assignment]

        found = csv_reader.read_csv(io.BytesIO(text.encode()), FileOptions(nulls=()), Blocks())
        read = [value for batch in found for value in pa.chunked_array([batch.columns["v"]]).to_pylist()]
        assert read == values


def test_rows_that_are_written_are_named_by_the_same_rule(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        session.write("t", pa.table({"ID": [1, 2], "V": ["a", "b"]}))
        session.write("t", pa.table({"Id": [2]}), mode="delete")
        assert session.sql("SELECT * FROM t").to_pylist() == [{"id": 1, "v": "a"}]
        twice = pa.table([pa.array([1]), pa.array(["a"]), pa.array(["b"])], names=["id", "v", "V"])
        session.write("t", twice.rename_columns(["id", "v", "w"]).drop_columns("w"))
        for names, message in (
            (["id", "v", "v"], "v twice"),
            (["id", "V", "v_"], "no column v_"),
            (["ID", "Id", "v"], "id as ID and as Id"),
        ):
            with pytest.raises(InvalidRow, match=message):
                session.write("t", twice.rename_columns(names))
