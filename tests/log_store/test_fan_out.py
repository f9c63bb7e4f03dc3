"""One reading of a log for several readers: each gets every epoch in order, at its own pace, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs

from engine.errors import LogStoreError
from engine.hummock import Commit, Delete, Hummock, Put
from engine.log_store.changes import Changes
from engine.log_store.fan_out import FanOut
from engine.log_store.sink import SinkLogStore, VnodeGroup

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
WHOLE = VnodeGroup(0, 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / "store").as_uri(), cache_dir=tmp_path / "cache") as opened:
        opened.create_table("t", SCHEMA, ["id"], ["id"])
        yield opened


def put(store: Hummock, rows: dict[int, str]) -> int:
    table = pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA)
    return store.ingest_batch({"t": [Put(table)]})


def reader(store: Hummock, name: str, group: VnodeGroup = WHOLE) -> SinkLogStore:
    """A reader that has acknowledged everything so far."""
    at = store.version.tables["t"].committed_epoch
    store.commit(Commit(acks={"t": {name: at}}))
    return SinkLogStore(store, "t", name, ["id", "v"], group)


def shown(parts: Iterator[Changes]) -> list[tuple[str, dict, dict]]:
    found = []
    for part in parts:
        operations = part.name_operations().to_pylist()
        found += list(zip(operations, part.rows.to_pylist(), part.old.to_pylist(), strict=True))
    return found


def test_every_reader_gets_what_it_would_have_read_by_itself(store: Hummock) -> None:
    put(store, {1: "a", 2: "b"})
    readers = [reader(store, name) for name in ("x", "y")]
    put(store, {1: "c", 3: "d"})
    store.ingest_batch({"t": [Delete(pa.table({"id": [2]}))]})
    table = store.version.tables["t"]
    fan_out = FanOut(table, readers)
    fan_out.run()
    for one in readers:
        for part in one.list_ranges(table, each_epoch=True):
            channel = fan_out.channels[one.consumer]
            assert channel.is_next(part)
            assert shown(channel.read(part)) == shown(one.read(table, part))


def test_a_reader_that_takes_nothing_stops_nobody_and_its_memory_is_bounded(store: Hummock) -> None:
    fast, slow = reader(store, "fast"), reader(store, "slow")
    for n in range(60):
        put(store, {n: "x" * 500, n + 1: "y" * 500})
    table = store.version.tables["t"]
    fan_out = FanOut(table, [fast, slow], buffer_bytes=10_000)
    taken: list[int] = []
    parts = list(fast.list_ranges(table, each_epoch=True))
    fan_out.run()  # ends, though nobody has taken anything
    for part in parts:
        taken += [row["id"] for _, row, _ in shown(fan_out.channels["fast"].read(part))]
    assert len(taken) == 120
    metrics = fan_out.channels["slow"].metrics
    assert metrics.peak_buffered_bytes <= 10_000 and metrics.put.rows == 120
    assert [p for p in store.version.tables if p.startswith("_log_")] == []  # nothing was written for it
    late = [row["id"] for part in parts for _, row, _ in shown(fan_out.channels["slow"].read(part))]
    assert late == taken


def test_a_reader_further_behind_reads_the_rest_by_itself(store: Hummock) -> None:
    behind = reader(store, "behind")
    put(store, {1: "a"})
    ahead = reader(store, "ahead")
    put(store, {2: "b"})
    table = store.version.tables["t"]
    fan_out = FanOut(table, [behind, ahead])
    first, second = behind.list_ranges(table, each_epoch=True)
    channel = fan_out.channels["behind"]
    assert not channel.is_next(first) and channel.is_next(second)
    fan_out.run()
    assert [row["id"] for _, row, _ in shown(channel.read(second))] == [2]


def test_a_reading_that_fails_is_told_to_every_reader(store: Hummock) -> None:
    readers = [reader(store, name) for name in ("x", "y")]
    put(store, {1: "a"})
    table = store.version.tables["t"]
    fan_out = FanOut(table, readers)

    def broken(*_: object) -> Iterator[Changes]:
        raise OSError("disk on fire")
        yield

    readers[0].read = broken  # type: ignore[method-assign]
    fan_out.run()
    (part,) = readers[1].list_ranges(table, each_epoch=True)
    with pytest.raises(LogStoreError, match="disk on fire"):
        shown(fan_out.channels["y"].read(part))


def test_readers_of_a_group_of_vnodes_get_just_its_keys(store: Hummock) -> None:
    groups = [VnodeGroup(n, 3) for n in range(3)]
    readers = [reader(store, f"r{n}", group) for n, group in enumerate(groups)]
    put(store, {n: "x" for n in range(200)})
    table = store.version.tables["t"]
    found = []
    for one in readers:
        (part,) = one.list_ranges(table, each_epoch=True)
        mine = [row["id"] for _, row, _ in shown(one.read(table, part))]
        assert 30 < len(mine) < 110
        found += mine
    assert sorted(found) == list(range(200))
    assert groups[0].first == 0 and groups[2].last == 255 and groups[1].first == groups[0].last + 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    epochs=hs.lists(hs.dictionaries(hs.integers(0, 9), hs.text("ab", max_size=40), min_size=1), max_size=8),
    buffer=hs.sampled_from([1_500, 6_000, 1 << 20]),
    takes=hs.lists(hs.booleans(), max_size=8),
)
def test_any_pace_and_any_buffer_give_the_same_changes(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[dict[int, str]], buffer: int, takes: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("fan")
    with Hummock.open((folder / "store").as_uri(), cache_dir=folder / "cache") as store:
        store.create_table("t", SCHEMA, ["id"], ["id"])
        readers = [reader(store, name) for name in ("x", "y")]
        for rows in epochs:
            put(store, rows)
        table = store.version.tables["t"]
        fan_out = FanOut(table, readers, buffer_bytes=buffer)
        fan_out.run()
        waiting = {one.consumer: list(one.list_ranges(table, each_epoch=True)) for one in readers}
        expected = {
            one.consumer: [shown(one.read(table, p)) for p in waiting[one.consumer]] for one in readers
        }
        found: dict[str, list] = {"x": [], "y": []}
        turns = ["x" if take else "y" for take in takes] + ["x", "y"] * len(epochs)
        for name in turns:
            if waiting[name]:
                found[name].append(shown(fan_out.channels[name].read(waiting[name].pop(0))))
        assert found == expected
