"""A table that is altered: columns come with a default or null, others vanish, and a new name loses nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import InvalidRow, InvariantViolation, TableExists, UnknownTable
from engine.hummock import Commit, Delete, Hummock, Put, Table
from engine.hummock.rows.column_defaults import with_default
from tests.hummock.conftest import rows

OLD = pa.schema([("id", pa.int64()), ("a", pa.string())])
NEW = pa.schema(
    [("id", pa.int64()), with_default(pa.field("n", pa.int32()), pa.scalar(7)), ("m", pa.string())]
)


def opened(tmp_path: Path) -> Hummock:
    """A store with a table of three rows in two files."""
    store = Hummock.open((tmp_path / "store").as_uri())
    store.create_table("t", OLD, ["id"], ["id"])
    store.ingest_batch({"t": [Put(pa.table({"id": [1, 2], "a": ["x", "y"]}))]})
    store.ingest_batch({"t": [Put(pa.table({"id": [3], "a": ["z"]}))]})
    return store


def altered(store: Hummock, schema: pa.Schema, name: str = "t") -> None:
    store.commit(Commit(alter={"t": dataclasses.replace(store.table("t"), schema=schema, name=name)}))


def content(store: Hummock, table: str = "t") -> list[tuple[object, ...]]:
    rows = [row for batch in store.iter(table) for row in batch.to_pylist()]
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("compact", [False, True])
def test_columns_come_and_go_in_every_way_of_reading(tmp_path: Path, compact: bool) -> None:
    store = opened(tmp_path)
    before = store.version.epoch
    altered(store, NEW)
    store.ingest_batch(
        {"t": [Put(pa.table({"id": [2, 4], "n": pa.array([1, None], pa.int32()), "m": ["k", None]}))]}
    )
    store.ingest_batch({"t": [Delete(pa.table({"id": [3]}))]})
    if compact:
        store.compact("t")
    with Hummock.open(store.url) as other:
        assert content(other) == [(1, 7, None), (2, 1, "k"), (4, None, None)]
        assert other.get("t", {"id": 1}) == {"id": 1, "n": 7, "m": None}
        assert other.multi_get("t", pa.table({"id": [2, 1]}), columns=["n"]).to_pydict() == {"n": [1, 7]}
        found = [row for batch in other.iter_log("t", before) for row in batch.to_pylist()]
        assert {(r["_op"], r["id"], r["n"], r["_old_n"]) for r in found} == {
            ("update", 2, 1, 7),
            ("insert", 4, None, None),
            ("delete", 3, None, 7),
        }


def test_a_new_name_keeps_rows_history_and_what_the_table_consumes(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.create_table("other", OLD, ["id"])
    store.commit(Commit(acks={"other": {"t": store.version.epoch}}))
    altered(store, OLD, "u")
    assert content(store, "u") == [(1, "x"), (2, "y"), (3, "z")]
    assert set(store.version.tables["other"].acks) == {"u"}
    with pytest.raises(UnknownTable):
        store.get("t", {"id": 1})


def test_keys_and_types_stay(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(InvariantViolation, match="key column"):
        altered(store, pa.schema([("a", pa.string())]))
    with pytest.raises(InvariantViolation, match="type of column a"):
        altered(store, pa.schema([("id", pa.int64()), ("a", pa.int64())]))
    store.create_table("u", OLD, ["id"])
    with pytest.raises(TableExists):
        altered(store, OLD, "u")


def test_the_verb_adds_and_drops_columns_and_keeps_their_names_apart(store: Hummock, table: Table) -> None:
    before = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    wider = store.alter_table(table, add=[pa.field("w", pa.int64())], drop=["v"])
    assert wider.schema.names == ["id", "w"]
    assert store.get(table, {"id": 1}) == {"id": 1, "w": None}
    assert store.get(table, {"id": 1}, before) == {"id": 1, "w": None}
    store.ingest_batch({"t": [Put(pa.table({"id": [2], "w": [5]}))]})
    store.compact("t")
    (sst,) = store.version.tables["t"].live_ssts
    assert "v" not in store.reader.files.open_file(sst).rows.column_names
    with pytest.raises(InvalidRow, match="v was dropped"):
        store.alter_table("t", add=[pa.field("v", pa.string())])
    with pytest.raises(InvalidRow, match="primary key"):
        store.alter_table("t", drop=["id"])
    with pytest.raises(InvalidRow, match="must be nullable"):
        store.alter_table("t", add=[pa.field("z", pa.int64(), nullable=False)])
    with pytest.raises(InvalidRow, match="no option"):
        store.alter_table("t", dropped=())
