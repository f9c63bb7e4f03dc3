"""What a place holds is discovered: the statements that are printed are taken as they are, and bring all rows."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.cli.sources import _format_script
from engine.connectors.contract.discovery import FoundTable, to_table_name
from engine.connectors.discovery import discover_tables
from engine.errors import SourceError, TidelineError
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable


def find(place: Path | str, **options: str) -> dict[str, FoundTable]:
    return {table.name: table for table in discover_tables(str(place), options)}


def show(table: FoundTable) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


def land(session: Session, table: FoundTable) -> list[tuple[object, ...]]:
    """Run the statement of a table, and return its rows once they have come."""
    assert not table.list_needs()
    session.sql(table.format_statement())
    session.poll()
    rows = session.sql(f"SELECT * FROM {table.name}").to_pylist()
    return [tuple(row.values()) for row in rows]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with files of each format, each kind in a folder of its own."""
    for name in ("Sales-EU", "events", "log", "packed", "parts/day=2024-01-02"):
        (tmp_path / "lake" / name).mkdir(parents=True)
    found = tmp_path / "lake"
    (found / "Sales-EU" / "a.csv").write_text(
        "Id;Name;Total;At;Ok\n1;x;1.5;2024-01-02 03:04:05;true\n2;;2;2024-01-02 03:04:06;\n"
    )
    (found / "events" / "a.jsonl").write_text(
        '{"id": 1, "who": {"name": "a", "tags": ["x"]}, "odd": {"a b": 1}, "none": null}\n'
    )
    (found / "packed" / "a.tsv.gz").write_bytes(gzip.compress(b"a\tb\n1\t2\n3\t4\n"))
    (found / "packed" / "b.tsv.bz2").write_bytes(bz2.compress(b"a\tb\n5\t6\n"))
    pq.write_table(
        pa.table({"n": pa.array([1, 2], pa.int32()), "t": pa.array([0, 1], pa.timestamp("us", "UTC"))}),
        found / "parts" / "day=2024-01-02" / "a.parquet",
    )
    return found


def test_folders_of_files_become_tables_that_land_them(lake: Path, session: Session) -> None:
    found = find(lake)
    assert list(found) == ["sales_eu", "events", "packed", "parts"]
    assert show(found["sales_eu"]) == {
        "id": "bigint", "name": "string", "total": "double", "at": "timestamp_ntz", "ok": "boolean",
    }  # fmt: skip
    assert found["sales_eu"].options["delimiter"] == ";"
    assert show(found["events"]) == {
        "id": "bigint", "who": "struct<name:string,tags:array<string>>", "odd": "jsonb", "none": "string",
    }  # fmt: skip
    assert show(found["parts"]) == {"n": "int", "t": "timestamp", "day": "string"}
    assert len(land(session, found["sales_eu"])) == 2
    assert land(session, found["events"])[0][1] == {"name": "a", "tags": ["x"]}
    assert sorted(land(session, found["packed"])) == [(1, 2), (3, 4), (5, 6)]
    assert {row[2] for row in land(session, found["parts"])} == {"2024-01-02"}


def test_files_of_one_folder_are_one_table_by_its_newest_file(tmp_path: Path, session: Session) -> None:
    (tmp_path / "old.csv").write_text("a\nx\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "new.csv").write_text("a,b\n1,2\n")
    (table,) = find(tmp_path, delimiter=",").values()
    assert table.path == str(tmp_path) and show(table) in ({"a": "string"}, {"a": "bigint", "b": "bigint"})
    assert table.options["delimiter"] == "," and "2 files" in table.notes[0]


def test_changes_are_no_plain_rows(tmp_path: Path) -> None:
    (tmp_path / "debezium").mkdir()
    (tmp_path / "marked").mkdir()
    (tmp_path / "debezium" / "a.json").write_text(
        '{"op": "c", "before": null, "after": {"id": 1, "v": "x"}}\n{"op": "d", "before": {"id": 1, "v": "x"}, "after": null}\n'
    )
    (tmp_path / "marked" / "a.csv").write_text("id,_op\n1,insert\n1,delete\n")
    found = find(tmp_path)
    assert found["debezium"].options["envelope"] == "debezium"
    assert show(found["debezium"]) == {"id": "bigint", "v": "string"}
    assert show(found["marked"]) == {"id": "bigint"}
    assert all("PRIMARY KEY" in table.key_need for table in found.values())
    (keyed,) = discover_tables(str(tmp_path / "debezium"), {}, {"debezium": ["ID"]})
    assert keyed.key == ("id",) and not keyed.list_needs()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.parquet", b"PAR1 no", "can't be read"),
        ("a.jsonl", b"[1]\n", "no objects of JSON"),
        ("a.jsonl", b"{", "can't be read"),
        ("a.csv", b"a,b\n1\n", "can't be read"),
        ("a.csv.gz", b"no gzip", "can't be read"),
        ("a.csv", b"\xff\xfe\n", "can't be read"),
        ("a.csv", b"a," + b"b" * (5 << 20), "its first line is longer than the 4 MiB"),
        ("a.json", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    ],
)
def test_a_file_that_says_nothing_stops_no_others(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    for folder in ("bad", "good"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bad" / name).write_bytes(data)
    (tmp_path / "good" / "a.csv").write_text("a\n1\n")
    found = find(tmp_path)
    assert why in found["bad"].needs[0] and not found["good"].needs


@pytest.mark.parametrize(
    ("name", "data"), [("a.csv", b"a,a\n1,2\n"), ("a.json", b'{"": 1}'), ("a.csv", b",\n1,2\n")]
)
def test_a_table_without_a_column_waits_for_some(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    (table,) = find(tmp_path).values()
    assert table.list_needs() == ["no column is known that a table can have: list them"]
    assert all("left out" in note and "case" not in note for note in table.notes if note.startswith("column"))


@pytest.mark.parametrize("depth", [10, 50, 300])
def test_what_nests_deep_is_a_document(tmp_path: Path, session: Session, depth: int) -> None:
    (tmp_path / "a.json").write_text('{"a":' * depth + "1" + "}" * depth)
    (table,) = find(tmp_path).values()
    assert (show(table)["a"] == "jsonb") is (depth > 16)
    assert len(land(session, table)) == 1


def test_maps_of_odd_fields_are_documents(tmp_path: Path) -> None:
    inner = pa.struct([("x y", pa.int32())])
    rows = pa.table({"m": pa.array([[("a", {"x y": 1})]], pa.map_(pa.string(), inner))})
    pq.write_table(rows, tmp_path / "a.parquet")
    (table,) = find(tmp_path).values()
    assert show(table) == {"m": "jsonb"}


def test_a_statement_keeps_odd_separators_of_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "a\u2028b"
    folder.mkdir()
    (folder / "a.csv").write_text("a\n1\n")
    text = "\n".join(_format_script(discover_tables(str(tmp_path), {})))
    assert "a\u2028b'" in text


def test_delta_tables_are_found_in_folders_and_followed(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    DeltaTable(spark, tmp_path / "lake" / "Orders").make().insert("VALUES (1, 'a')")
    DeltaTable(spark, tmp_path / "lake" / "inner" / "orders").make().insert("VALUES (2, 'b')")
    (tmp_path / "lake" / "Orders" / "_delta_log").joinpath("note.txt").write_text("")
    (tmp_path / "lake" / "broken" / "_delta_log").mkdir(parents=True)
    found = find(tmp_path / "lake")
    assert set(found) == {"orders", "orders_2", "broken"}
    assert "no version" in found["broken"].needs[0]
    assert found["orders"].key == ("id",) and "guess" in found["orders"].key_note
    assert land(session, found["orders"]) == [(1, "a")]
    (alone,) = find(tmp_path / "lake" / "inner" / "orders").values()
    assert alone.path.endswith("inner/orders")


@pytest.mark.parametrize(
    ("place", "options", "why"),
    [
        ("ftp://host/x", {}, "kafka://, postgres://"),
        ("mysql://host/x", {}, "is no address"),
        ("nowhere", {}, "no folder"),
        ("postgresql://me:secret@host/shop", {}, "a password has no place in an address"),
        ("postgresql://me@host/shop?colour=red", {}, "option colour is unknown"),
        ("postgresql://me@host/shop", {"table": "public.t"}, "option table is unknown"),
        ("postgresql://host/shop", {}, "needs username"),
        ("postgresql://me@host:99999/shop", {}, "is no address"),
        ("postgresql://me:secret@host:99999/shop", {}, "is no address"),
        ("postgresql://me:secret/more@host/shop", {}, "is no address"),
        ("postgresql://me:secret#more@host/shop", {}, "is no address"),
        ("postgresql://me:1#secret@host/shop", {}, "an @ stands behind the host"),
        ("postgresql://me:1?secret@host/shop", {}, "an @ stands behind the host"),
        ("postgresql://me@host", {}, "needs database"),
        ("kafka://me:secret@host:9092", {}, "no place in an address"),
        ("kafka://me:secret/more@host:9092", {}, "no place in an address"),
        ("kafka://host:9092?password=secret", {}, "no place in an address"),
        ("KAFKA://host", {}, "no host with a port"),
        ("kafka://", {}, "needs bootstrap_servers: write kafka://host:9092"),
        ("kafka://host", {}, "no host with a port"),
        ("kafka://host:9092", {"topic": "t"}, "option topic is unknown"),
        (".", {"colour": "red"}, "option colour is unknown"),
    ],
)
def test_what_is_no_place_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, options: dict[str, str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TidelineError) as told:
        find(place, **options)
    assert why in str(told.value) and "secret" not in str(told.value)


def test_places_outside_of_a_projects_home_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "a.csv").write_text("a\n1\n")
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    with pytest.raises((SourceError, TidelineError), match="outside"):
        find(tmp_path)


def test_odd_names_make_statements_that_can_be_read(tmp_path: Path, session: Session) -> None:
    folder = tmp_path / "it's"
    folder.mkdir()
    (folder / "a.csv").write_text('select,a b,"q`q",tideline__x,A,a\n1,2,3,4,5,6\n')
    (table,) = find(folder).values()
    assert table.name == "it_s" and [column.name for column in table.columns] == ["select", "a b", "q`q"]
    assert len([note for note in table.notes if "left out" in note]) == 3
    assert land(session, table) == [(1, 2, 3)]


@pytest.mark.parametrize("keys", [{"nowhere": ["a"]}, {"it": ["b"]}])
def test_a_key_of_what_is_not_there_is_told(tmp_path: Path, keys: dict[str, list[str]]) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "a.csv").write_text("a\n1\n")
    with pytest.raises(SourceError, match=r"there is no table nowhere|has no column b"):
        discover_tables(str(tmp_path / "it"), {}, keys)


def test_names_of_tables_are_plain() -> None:
    assert [to_table_name(name) for name in ("_x", "1", "ä-b", "select")] == ["x", "t_1", "ä_b", "select"]
