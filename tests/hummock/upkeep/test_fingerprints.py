"""The fingerprints that a store keeps: equal to a scan of all rows after every step of random programs, and what they find."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Conflict, InvalidRow
from engine.hummock import Commit, Delete, Hummock, Put, with_new_keys
from engine.hummock.backups.back_up import BackupOptions, back_up
from engine.hummock.backups.backup_place import open_place
from engine.hummock.backups.restore import open_target, restore_backup
from engine.hummock.in_flight_store import InFlightStore
from engine.hummock.manifests.preconditions import require_unchanged
from engine.hummock.rows.column_defaults import with_default
from engine.hummock.rows.fingerprint import add_fingerprints, compute_fingerprint
from engine.hummock.version import Fingerprint
from tests.hummock.upkeep.planted_cells import plant
from tests.long_rest import mark_rest_long

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("t", pa.string())])


def scan(store: Hummock, name: str, epoch: int | None = None) -> int:
    """The fingerprint of all rows of a table, as readers see them."""
    table = store.refresh().tables[name]
    batches = store.iter(name, epoch=table.committed_epoch if epoch is None else epoch)
    return add_fingerprints(compute_fingerprint(batch, table.schema.names) for batch in batches)


def check(store: Hummock, name: str, *, current: bool | None = None) -> None:
    """Check that what is kept is right at its epoch, and once it is brought on."""
    table = store.refresh().tables[name]
    assert table.fingerprint is not None
    assert table.fingerprint.value == scan(store, name, table.fingerprint.epoch)
    if current is not None:
        assert (table.fingerprint.epoch == table.committed_epoch) == current
    status = store.fingerprint(name)
    assert not status.is_behind
    assert status.value == scan(store, name)


def rows_of(random: random.Random, count: int, names: list[str]) -> pa.Table:
    """Random rows of some of few keys."""
    keys = random.sample(range(60), count)
    made: dict[str, Any] = {
        "k": keys,
        "x": [random.choice([None, 0.0, -0.0, float("nan"), 1.5]) for _ in keys],
        "t": [random.choice([None, "", "a", "b" * 300]) for _ in keys],
    }
    for name in names:
        made.setdefault(name, [random.choice([None, 1, 2]) for _ in keys])
    return pa.table(
        {
            name: pa.array(made[name], SCHEMA.field(name).type if name in SCHEMA.names else pa.int64())
            for name in names
        }
    )


def test_writes_without_old_rows_leave_it_behind_and_those_with_them_do_not(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        table = store.create_table("t", SCHEMA, ["k"], ["k"])
        check(store, "t", current=True)
        one = pa.table({"k": [1, 2], "x": [0.5, None], "t": ["a", None]}, schema=SCHEMA)
        store.ingest_batch({table: Put(one, new_keys=True)})
        check(store, "t", current=True)
        store.ingest_batch({table: [Put(one.slice(0, 1)), Delete(pa.table({"k": [2]}))]})
        check(store, "t", current=False)
        seen = store.version.tables["t"]
        two = pa.table({"k": [1, 3], "x": [-0.0, 2.0], "t": ["b", "c"]}, schema=SCHEMA)
        store.ingest_batch(
            {table: Put(two)}, precondition=require_unchanged(seen), replaced={"t": one.slice(0, 1)}
        )
        check(store, "t", current=True)


def test_a_known_change_after_an_unknown_one_counts_once_that_is_read(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        table = store.create_table("t", SCHEMA, ["k"])
        for at in range(6):
            new = pa.table({"k": [at], "x": [1.0], "t": ["n"]}, schema=SCHEMA)
            store.ingest_batch({table: Put(new, new_keys=True)})
            if at % 2:
                store.ingest_batch(
                    {table: Put(pa.table({"k": [0], "x": [float(at)], "t": ["u"]}, schema=SCHEMA))}
                )
        check(store, "t", current=False)
        check(store, "t", current=True)


@pytest.mark.parametrize("seed", mark_rest_long(range(8), keep=3))
def test_random_programs_keep_it_right(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    url = (tmp_path / "store").as_uri()
    store = Hummock.open(url, auto_compact="inline", retention_seconds=chance.choice([0.0, 600.0]))
    store.create_table("t", SCHEMA, ["k"], ["k"] if seed % 2 else None)
    lost = False
    for step in range(60):
        version = store.refresh().tables["t"]
        names = version.schema.names
        match chance.randrange(12):
            case 0 | 1 | 2:
                store.ingest_batch({"t": Put(rows_of(chance, chance.randrange(1, 30), names))})
            case 3 | 4:
                keys = rows_of(chance, chance.randrange(1, 30), names)
                known = store.multi_get("t", keys.select(["k"]))
                new = keys.filter(pa.array([row is None for row in known.column("k").to_pylist()]))
                if new.num_rows:
                    put = Put(new, new_keys=True)
                    store.ingest_batch({"t": put}, precondition=require_unchanged(version))
            case 5:
                store.ingest_batch({"t": Delete(rows_of(chance, 9, names).select(["k"]))})
            case 6:
                with store.epoch(wait=False) as batch:
                    batch.put("t", rows_of(chance, 5, names))
                batch.sealed.result()
            case 7:
                chance.choice([store.compact, store.compact_l0])("t")
            case 8:
                store.gc(grace_seconds=0)
            case 9:
                store.alter_table("t", add=[pa.field(f"n{step}", pa.int64())])
            case 10:
                name = f"b{step}"
                branch = store.create_branch(name)
                with Hummock.open(branch.url) as other:
                    other.ingest_batch({"t": Put(rows_of(chance, 7, names))})
                    if not lost:
                        check(other, "t")
                store.drop_branch(name)
            case 11 if step % 5 == 0:
                added = with_default(pa.field(f"d{step}", pa.int64()), pa.scalar(7, pa.int64()))
                store.alter_table("t", add=[added], drop=["x"] if "x" in names else [])
                assert store.version.tables["t"].fingerprint is None
                assert store.verify_fingerprint("t").expected is None
            case _:
                store.close()
                store = Hummock.open(url, auto_compact="inline", retention_seconds=600.0)
        check(store, "t")
        if step % 20 == 0:
            assert store.verify_fingerprint("t").is_right
    store.close()


def test_columns_that_go_or_come_with_a_value_end_it_and_a_scan_begins_another(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.create_table("t", SCHEMA, ["k"])
        one = pa.table({"k": [1, 2], "x": [0.5, None], "t": ["a", None]}, schema=SCHEMA)
        store.ingest_batch({"t": Put(one, new_keys=True)})
        value = store.fingerprint("t").value
        store.alter_table("t", add=[pa.field("n", pa.string())])
        assert store.fingerprint("t").value == value
        check(store, "t", current=True)
        store.alter_table("t", drop=["t"])
        assert "columns changed" in str(store.fingerprint("t").reason)
        assert store.verify_fingerprint("t").expected is None
        check(store, "t", current=True)
        store.alter_table("t", add=[with_default(pa.field("d", pa.int64()), pa.scalar(7, pa.int64()))])
        assert store.fingerprint("t").value is None


def test_a_file_of_other_columns_that_is_committed_later_leaves_it_behind(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        table = store.create_table("t", SCHEMA, ["k"])
        rows = pa.table({"k": [1], "x": [0.5], "t": ["a"], "_op": pa.array([0], pa.uint8())})
        ssts = [msgspec.structs.replace(sst, new_keys=True) for sst in store.reader.write_run(table, rows)]
        store.alter_table("t", drop=["t"])
        store.verify_fingerprint("t")
        store.commit(Commit(writes={"t": ssts}))
        check(store, "t", current=False)


def test_a_fingerprint_that_was_read_is_refused_when_the_table_became_another(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        table = store.create_table("t", SCHEMA, ["k"])
        store.alter_table("t", drop=["t"])
        with pytest.raises(Conflict, match="other columns"):
            store.maintenance.keep_fingerprint("t", Fingerprint(0, 5, table.form))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ttl_seconds": 60.0}, "expire"),
        ({"watermark_column": "k"}, "watermark"),
        ({"fingerprint": False}, "without"),
        ({"passes": True}, "not kept"),
    ],
)
def test_tables_that_hide_rows_say_why_they_have_none(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.create_table("t", SCHEMA, ["k"], **options)
        store.ingest_batch({"t": Put(pa.table({"k": [1], "x": [0.5], "t": ["a"]}, schema=SCHEMA))})
        status = store.fingerprint("t")
        assert status.value is None
        assert reason in str(status.reason)
        assert all(sst.fingerprint is None for sst in store.version.tables["t"].live_ssts)
        with pytest.raises(InvalidRow, match=reason):
            store.verify_fingerprint("t")


def test_history_that_goes_takes_it_along_only_where_nobody_brings_it_on(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri(), retention_seconds=0.0) as store:
        store.create_table("t", SCHEMA, ["k"])
        for _ in range(3):
            store.ingest_batch({"t": Put(pa.table({"k": [1], "x": [0.5], "t": ["a"]}, schema=SCHEMA))})
            store.compact("t")
            store.gc(grace_seconds=0)
        check(store, "t", current=True)


@pytest.mark.parametrize("compacts", [False, True])
def test_one_flipped_cell_is_found(tmp_path: Path, compacts: bool) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.create_table("t", pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"], ["k"])
        rows = pa.table({"k": np.arange(20_000), "v": np.arange(20_000)})
        store.ingest_batch({"t": Put(rows, new_keys=True)})
        if compacts:
            store.ingest_batch({"t": Put(rows.slice(0, 5))})
            store.compact("t")
        assert store.verify_fingerprint("t").is_right
        path = plant(store, "t", column="v")
        found = store.verify_fingerprint("t")
        assert not found.is_right
        assert found.rows == 20_000
        assert found.damaged == (() if compacts else (path,))
        assert (path in found.describe_mismatch()) is not compacts
        assert "Restore the store from a backup" in found.describe_mismatch()


def test_a_backup_and_a_branch_have_it_and_a_restored_store_is_held_against_it(tmp_path: Path) -> None:
    place = open_place((tmp_path / "backups").as_uri(), create=True)
    with Hummock.open((tmp_path / "store").as_uri()) as store:
        store.create_table("t", SCHEMA, ["k"], ["k"])
        one = pa.table({"k": [1, 2], "x": [0.5, None], "t": ["a", None]}, schema=SCHEMA)
        store.ingest_batch({"t": Put(one, new_keys=True)})
        value = store.fingerprint("t").value
        branch = store.create_branch("b")
        back_up(store, place, BackupOptions())
    with Hummock.open(branch.url) as other:
        assert other.fingerprint("t").value == value
    restored = restore_backup(place, open_target((tmp_path / "restored").as_uri()))
    with Hummock.open(restored.url) as other:
        assert other.fingerprint("t").value == value
        found = other.verify_fingerprint("t")
        assert (found.is_right, found.expected) == (True, value)


def test_commits_on_their_way_and_those_that_are_lost(tmp_path: Path) -> None:
    """What is on its way moves it ahead of what stands; what a process that died had not committed moves nothing."""
    url = tmp_path.as_uri()
    with Hummock.open(url) as store:
        table = store.create_table("t", SCHEMA, ["k"], ["k"])
        ahead = InFlightStore(store, spool=False)
        labels = [store.commit(Commit(catalog={"k": str(key)})).epoch for key in range(5)]
        for key, label in enumerate(labels):
            rows = pa.table({"k": [key], "x": [0.5], "t": ["a"], "_op": pa.array([0], pa.uint8())})
            ssts = with_new_keys(table, store.reader.write_run(table, rows))
            ahead.hand_over(Commit(writes={"t": ssts}, epochs={"t": label}))
            assert ahead.version.tables["t"].fingerprint is not None
        known = ahead.version.tables["t"].fingerprint
        ahead.settle()
        ahead.close()
        check(store, "t", current=True)
        assert known is not None
        assert known.value == store.fingerprint("t").value
        store.reader.write_run(table, rows)  # an orphan
    with Hummock.open(url) as store:
        assert store.fingerprint("t").value == known.value
        check(store, "t", current=True)


def test_a_checkpoint_holds_it(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        store.create_table("t", SCHEMA, ["k"])
        for key in range(70):
            put = Put(pa.table({"k": [key], "x": [0.5], "t": ["a"]}, schema=SCHEMA), new_keys=True)
            store.ingest_batch({"t": put})
        before = store.version.tables["t"].fingerprint
    with Hummock.open(tmp_path.as_uri()) as store:
        assert store.version.tables["t"].fingerprint == before
        check(store, "t", current=True)
