"""Claims by which work is left out: each false one is found before its commit is visible, or at the read that relies on it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from engine import assumptions
from engine.errors import ClaimBroken
from engine.hummock import Commit, Delete, Hummock, Put, Table
from engine.hummock.compaction import execute, merging
from engine.hummock.compaction.task import CompactionTask, list_live_runs
from engine.hummock.reads import first_rows
from engine.hummock.sorted_files import file_set
from engine.hummock.sorted_files.assumption_checks import check_rows_at_most
from engine.hummock.sorted_files.bundle import Payload, write_payload
from engine.hummock.version import Generation
from engine.verification import Assumption
from tests.hummock.conftest import content, keys, rows


@pytest.fixture(autouse=True)
def all_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_VERIFY", "1")


@pytest.fixture
def filled(store: Hummock, table: Table) -> Table:
    for step in range(3):
        store.ingest_batch({table: [Put(rows({n: f"{step}" for n in range(step, 10, step + 1)}))]})
    return table


def breaks(claim: Assumption) -> Any:
    return pytest.raises(ClaimBroken, match=claim.name)


def test_a_key_that_is_not_new(store: Hummock, filled: Table) -> None:
    before = store.version.number
    with breaks(assumptions.NEW_KEYS):
        store.ingest_batch({filled: [Put(rows({3: "again", 100: "new"}), new_keys=True)]})
    assert store.refresh().number == before and 100 not in content(store)
    store.ingest_batch({filled: [Put(rows({100: "new"}), new_keys=True)]})
    store.ingest_batch({filled: [Delete(keys(100))]})
    store.ingest_batch({filled: [Put(rows({100: "anew"}), new_keys=True)]})
    assert content(store)[100] == "anew"


def test_a_file_that_names_other_rows_as_replaced(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    with breaks(assumptions.REPLACED):
        store.ingest_batch({table: [Put(rows({1: "c"}))]}, replaced={table.name: rows({1: "x"})})
    store.ingest_batch({table: [Put(rows({1: "c"}))]}, replaced={table.name: rows({1: "a"})})
    assert store.get(table, {"id": 1}) is not None


def test_a_deletion_among_new_keys(store: Hummock, filled: Table) -> None:
    deleted = rows({200: None}).append_column("_op", pa.array([1], pa.uint8()))
    (sst,) = store.reader.write_run(filled, deleted)
    with breaks(assumptions.NEW_KEYS):
        store.commit(Commit(writes={"t": [msgspec.structs.replace(sst, new_keys=True)]}))


@pytest.mark.parametrize("spoil", ["order", "twice"])
def test_rows_that_are_not_sorted(store: Hummock, filled: Table, spoil: str) -> None:
    piece = store.reader.files.open_file(store.version.tables["t"].live_ssts[0]).rows
    take = list(range(piece.num_rows))[::-1] if spoil == "order" else [0, 0]
    with breaks(assumptions.SORTED):
        write_payload(store.objects, store.reader.files, Payload("sst/1-x.parquet", (piece.take(take),)))
    assert store.objects.head("sst/1-x.parquet") is None


@pytest.mark.parametrize(
    "change", [{"max_hash": -(1 << 62)}, {"tombstones": 1}, {"min_hash": 1 << 62}], ids=str
)
def test_a_file_that_is_not_as_the_manifest_says(
    store: Hummock, filled: Table, change: dict[str, int]
) -> None:
    wrong = msgspec.structs.replace(store.version.tables["t"].live_ssts[0], **change)
    store.close()
    with breaks(assumptions.DESCRIBED):
        store.reader.files.open_file(wrong)


def test_a_cached_file_with_other_rows(store: Hummock, filled: Table) -> None:
    sst = store.version.tables["t"].live_ssts[0]
    held = store.reader.files.open_file(sst).rows
    at = held.column_names.index("v")
    other = held.set_column(at, held.schema.field(at), pa.array(["other"] * held.num_rows))
    store.reader.files.keep(sst.sst_id, other)
    store.close()
    with breaks(assumptions.CACHED):
        content(store)


def test_row_groups_that_are_left_out_wrongly(
    store: Hummock, filled: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_set, "SMALL_BYTES", 0)
    monkeypatch.setattr(
        file_set, "read_row_groups", lambda store, info, *_: file_set.read_sst(store, info).slice(0, 0)
    )
    for path in (tmp_path / "cache").glob("*/*"):
        path.unlink()
    store.close()
    with breaks(assumptions.ROW_GROUPS):
        store.get("t", {"id": 3})


def test_a_table_that_did_change_without_a_log_entry(store: Hummock, filled: Table) -> None:
    version = store.version.tables["t"]
    spoilt = dataclasses.replace(
        version,
        committed_epoch=version.committed_epoch + 1,
        generations=(
            *version.generations,
            Generation(version.committed_epoch + 1, list_live_runs(version)[1:]),
        ),
    )
    with breaks(assumptions.UNCHANGED):
        list(store.reader.read_log(spoilt, version.committed_epoch, version.committed_epoch + 1))


def test_files_that_were_moved_although_they_overlap(store: Hummock, filled: Table) -> None:
    version = store.version.tables["t"]
    runs = list_live_runs(version)
    with breaks(assumptions.MOVED):
        execute.run_task(store.reader, CompactionTask(version, runs[:2], runs[2:], move=True))


def test_a_compaction_that_drops_deletions_too_early(
    store: Hummock, filled: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.ingest_batch({filled: [Delete(keys(3))]})
    version = store.version.tables["t"]
    runs = list_live_runs(version)
    honest = execute.run_task(store.reader, CompactionTask(version, runs[:2], runs[2:]))
    assert honest.runs[0][0].tombstones == 1
    real = merging.merge_parts
    monkeypatch.setattr(
        merging, "merge_parts", lambda *given, **named: real(*given, **{**named, "keep_tombstones": False})
    )
    with breaks(assumptions.COMPACTED):
        execute.run_task(store.reader, CompactionTask(version, runs[:2], runs[2:]))


def test_a_scan_of_more_rows_than_there_can_be(store: Hummock, filled: Table) -> None:
    version = store.version.tables["t"]
    wrong = [msgspec.structs.replace(sst, tombstones=sst.rows) for sst in version.live_ssts]
    with breaks(assumptions.ROWS_AT_MOST):
        check_rows_at_most("t", 1, [(sst,) for sst in wrong])


def test_a_first_row_that_is_not_the_first(store: Hummock, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("g", pa.int64()), ("n", pa.int64())])
    table = store.create_table("g", schema, ["g", "n"], ["g"])
    store.ingest_batch({table: [Put(pa.table({"g": [1] * 20 + [2], "n": [*range(20), 7]}, schema=schema))]})
    version, asked = store.version.tables["g"], pa.table({"g": [1, 2]})
    _, found = store.reader.find_first_rows(version, asked, version.committed_epoch, columns=["n"])
    assert found.column("n").to_pylist() == [0, 7]
    _, found = store.reader.find_first_rows(version, asked, version.committed_epoch, columns=["n"], last=True)
    assert found.column("n").to_pylist() == [19, 7]
    real = first_rows._read_ends
    monkeypatch.setattr(
        first_rows, "_read_ends", lambda spans, open_, step, last: real(spans, open_, step, not last)
    )
    with breaks(assumptions.FIRST_ROWS):
        store.reader.find_first_rows(version, asked, version.committed_epoch, columns=["n"])


def test_a_checkpoint_that_holds_another_version(
    store: Hummock, filled: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.hummock.manifests import chain, manifest

    real = manifest.build_checkpoint
    monkeypatch.setattr(
        manifest, "build_checkpoint", lambda v: real(dataclasses.replace(v, catalog={"not": "there"}))
    )
    with breaks(assumptions.CHECKPOINT):
        for step in range(chain.CHECKPOINT_EVERY):
            store.commit(Commit(catalog={"step": str(step)}))


def test_unchecked_claims_cost_nothing(
    store: Hummock, filled: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_VERIFY", "0")
    before = store.metrics()
    store.ingest_batch({filled: [Put(rows({3: "again"}), new_keys=True)]})
    assert store.metrics().since(before).lookups == 0
