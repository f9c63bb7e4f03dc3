"""A staged checkpoint is readable by who holds it, invisible to the store, and becomes visible as a whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import InvariantViolation
from engine.hummock import Commit, Hummock, Table, Version
from engine.meta.epochs.staged_checkpoint import StagedCheckpoint

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Hummock:
    opened = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    opened.create_table("source", SCHEMA, ["id"], ["id"])
    return opened


def part(store: Hummock, version: Version, name: str, epoch: int, rows: list[int]) -> Commit:
    table = Table(name, SCHEMA, ("id",), ("id",))
    operations = pa.table({"id": pa.array(rows, pa.int64()), "_op": pa.array([0] * len(rows), pa.uint8())})
    create = () if name in version.tables else (table,)
    return Commit(
        create=create, writes={name: tuple(store.reader.write_run(table, operations))}, epochs={name: epoch}
    )


def rows_of(store: Hummock, version: Version, name: str, epoch: int) -> list[int]:
    return sorted(
        row["id"] for batch in store.reader.scan(version.tables[name], epoch) for row in batch.to_pylist()
    )


def test_a_later_part_reads_what_an_earlier_one_has_staged(store: Hummock) -> None:
    epoch = store.version.epoch
    checkpoint = StagedCheckpoint(store.version)
    checkpoint.add(part(store, checkpoint.version, "state", epoch, [1, 2]))
    assert rows_of(store, checkpoint.version, "state", epoch) == [1, 2]
    assert checkpoint.version.epoch == epoch
    assert "state" not in store.refresh().tables


def test_all_parts_become_visible_in_one_manifest(store: Hummock) -> None:
    epoch, number = store.version.epoch, store.version.number
    generation = store.claim("view")
    checkpoint = StagedCheckpoint(store.version)
    checkpoint.add(part(store, checkpoint.version, "state", epoch, [1]))
    checkpoint.add(part(store, checkpoint.version, "view", epoch, [2]))
    version = store.commit(checkpoint.commit("view", generation, {"note": "x"}))
    assert version.number == number + 2  # the claim and the checkpoint
    assert rows_of(store, version, "state", epoch) == [1] and rows_of(store, version, "view", epoch) == [2]
    assert version.catalog["note"] == "x"


def test_a_part_that_breaks_an_invariant_is_refused_when_it_is_staged(store: Hummock) -> None:
    checkpoint = StagedCheckpoint(store.version)
    with pytest.raises(InvariantViolation, match="above"):
        checkpoint.add(part(store, checkpoint.version, "state", store.version.epoch + (1 << 60), [1]))
