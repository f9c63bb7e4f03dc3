"""Commits that land together: all of them in one manifest, or none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import Conflict, StorageError, UnknownTable
from engine.hummock import Commit, Hummock, Put, Table, Version
from engine.hummock.staged_store import StagedStore

SCHEMA = pa.schema([("id", pa.int64())])


def table(name: str) -> Table:
    return Table(name, SCHEMA, ("id",))


def test_they_see_each_other_and_others_see_all_of_them_at_once(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store, Hummock.open(tmp_path.as_uri()) as other:
        store.commit(Commit(create=(table("a"),), catalog={"x": "1", "y": "1"}))
        before = store.version
        staged = StagedStore(store)
        staged.commit(Commit(drop=("a",), catalog={"x": None, "y": "2"}))
        staged.commit(Commit(create=(table("b"), table("c")), catalog={"x": "3"}))
        staged.commit(Commit(drop=("c",), acks={"b": {"r": 0}}))
        assert staged.version.tables.keys() == {"b"} and staged.refresh().catalog["x"] == "3"
        assert other.refresh().number == before.number and store.version is before
        landed = staged.land()
        assert landed.number == before.number + 1 == other.refresh().number
        assert other.version.tables.keys() == {"b"} and dict(other.version.catalog) == {"x": "3", "y": "2"}
        assert other.version.tables["b"].acks == {"r": 0}


def test_a_table_that_is_dropped_and_made_anew_begins_anew(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.ingest_batch({store.create_table("a", SCHEMA, ["id"]): [Put(pa.table({"id": [1]}))]})
        number = store.version.tables["a"].table_id
        staged = StagedStore(store)
        staged.commit(Commit(acks={"a": {"r": 0}}))
        staged.commit(Commit(drop=("a",)))
        staged.land()
        assert "a" not in store.refresh().tables
        store.create_table("a", SCHEMA, ["id"])
        assert store.version.tables["a"].table_id != number and not store.version.tables["a"].acks


def test_tables_get_other_names_and_what_is_done_with_them_lands_with_that(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.commit(Commit(create=(table("a"), table("b"), table("c")), acks={"a": {"c": 0, "b": 0}}))
        number = store.version.tables["a"].table_id
        staged = StagedStore(store)
        staged.commit(Commit(acks={"a": {"b": None}}))
        staged.commit(Commit(alter={"a": table("x"), "b": table("y"), "c": table("z")}))
        staged.commit(Commit(acks={"x": {"z": None, "r": 0}}, catalog={"k": "1"}))
        staged.commit(Commit(drop=("y",), acks={"x": {"y": None}}))
        staged.commit(Commit(create=(table("n"),)))
        staged.commit(Commit(alter={"n": table("m"), "x": table("w")}))
        assert staged.version.tables.keys() == {"w", "z", "m"} and store.version.tables.keys() == {
            "a",
            "b",
            "c",
        }
        before = store.version.number
        staged.land()
        assert store.version.number == before + 1 and store.version.tables.keys() == {"w", "z", "m"}
        assert store.version.tables["w"].table_id == number and store.version.tables["w"].acks == {"r": 0}


def test_two_tables_exchange_their_names(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.commit(Commit(create=(table("a"), table("b"))))
        ids = {name: found.table_id for name, found in store.version.tables.items()}
        staged = StagedStore(store)
        staged.commit(Commit(alter={"a": table("b"), "b": table("a")}))
        staged.commit(Commit(acks={"a": {"r": 0}}))
        staged.land()
        assert {name: found.table_id for name, found in store.version.tables.items()} == {
            "a": ids["b"],
            "b": ids["a"],
        }
        assert store.version.tables["a"].acks == {"r": 0}


def test_a_name_that_a_table_gives_up_is_free_in_the_next_commit(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.commit(Commit(create=(table("a"),)))
        staged = StagedStore(store)
        staged.commit(Commit(alter={"a": table("b")}))
        staged.commit(Commit(create=(table("a"),)))
        with pytest.raises(StorageError, match="gives another table's name a up"):
            staged.land()
        assert store.refresh().tables.keys() == {"a"}


def test_what_does_not_fit_any_more_lands_nothing(tmp_path: Path) -> None:
    def free(version: Version) -> None:
        if "x" in version.catalog:
            raise Conflict("x is there")

    with Hummock.open(tmp_path.as_uri()) as store:
        store.create_table("a", SCHEMA, ["id"])
        staged = StagedStore(store)
        staged.commit(Commit(drop=("a",)))
        staged.commit(Commit(catalog={"x": "1"}, precondition=free))
        store.commit(Commit(catalog={"x": "other"}))
        with pytest.raises(Conflict):
            staged.land()
        assert "a" in store.refresh().tables and store.version.catalog["x"] == "other"


def test_what_is_refused_is_none_of_them_and_rows_are(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        staged = StagedStore(store)
        with pytest.raises(UnknownTable):
            staged.commit(Commit(drop=("nowhere",)))
        with pytest.raises(StorageError, match="rows cannot land together"):
            staged.ingest_batch({store.create_table("a", SCHEMA, ["id"]): [Put(pa.table({"id": [1]}))]})
        with pytest.raises(StorageError, match="cannot take over"):
            staged.claim("w")
        number = store.version.number
        assert staged.land().number == number
