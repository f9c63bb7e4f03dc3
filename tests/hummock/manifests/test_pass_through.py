"""Tables that pass their changes on: what consumers see of them, and what is let go of."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import Conflict, EpochExpired, RowsNotKept
from engine.hummock import Commit, Hummock, Table, TableOptions
from engine.hummock.manifests.pass_through import WAS, build_load, old_column
from engine.hummock.reads import merge
from engine.hummock.reads.merge import HIGHEST, LOWEST, HashRange

SCHEMA = pa.schema(
    [("id", pa.int64()), ("v", pa.string()), (WAS, pa.bool_()), (old_column("v"), pa.string())]
)
PASSING = TableOptions(passes=True)
State = dict[int, str | None]


@pytest.fixture
def store(tmp_path: Path) -> Hummock:
    return Hummock.open((tmp_path / "store").as_uri(), retention_seconds=0.001)


def create(store: Hummock) -> None:
    store.commit(Commit(create=(Table("s", SCHEMA, ("id",), ("id",), PASSING),)))


def change(store: Hummock, before: State, after: State) -> int:
    """Commit the change from one state to the next, old values beside new ones."""
    rows = []
    for key in before.keys() | after.keys():
        if key in before and key in after and before[key] == after[key]:
            continue
        rows.append(
            {
                "id": key,
                "v": after.get(key),
                WAS: key in before,
                old_column("v"): before.get(key),
                "_op": int(key not in after),
            }
        )
    schema = SCHEMA.append(pa.field("_op", pa.uint8()))
    ssts = store.reader.write_run(store.version.tables["s"].table, pa.Table.from_pylist(rows, schema))
    return store.commit(Commit(writes={"s": ssts})).epoch


def follow(store: Hummock, epoch: int, name: str = "view") -> None:
    store.commit(Commit(acks={"s": {name: epoch}}))


def seen(
    store: Hummock, after: int, upto: int, part: HashRange | None = None
) -> Counter[tuple[int, str | None, int]]:
    table = store.version.tables["s"]
    found = store.reader.read_changes(table, after, upto, columns=["id", "v"], hash_range=part)
    return Counter((row["id"], row["v"], row["_w"]) for batch in found for row in batch.to_pylist())


def difference(before: State, after: State) -> Counter[tuple[int, str | None, int]]:
    gone = Counter((k, v, -1) for k, v in before.items() if k not in after or after[k] != v)
    return gone + Counter((k, v, 1) for k, v in after.items() if k not in before or before[k] != v)


@pytest.mark.parametrize("seed", range(5))
def test_changes_over_any_range_are_those_between_two_states(
    store: Hummock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(merge, "MERGE_ROWS", chance.choice([2, 500_000]))  # how many come in a part
    create(store)
    follow(store, start := store.version.epoch)
    state: State = {}
    states = {start: state}
    for _ in range(8):
        then = dict(state)
        for _ in range(chance.randint(1, 6)):
            key = chance.randint(0, 8)
            if chance.random() < 0.3:
                then.pop(key, None)
            else:
                then[key] = chance.choice(["a", "b", None])
        if then != state:
            states[change(store, state, then)] = then
        state = then
    epochs = sorted(states)
    for n, after in enumerate(epochs):
        for upto in epochs[n:]:
            assert seen(store, after, upto) == difference(states[after], states[upto])
            halves = [seen(store, after, upto, part) for part in ((LOWEST, -1), (0, HIGHEST))]
            assert halves[0] + halves[1] == difference(states[after], states[upto])


def test_rows_are_read_only_while_they_are_loaded(store: Hummock) -> None:
    create(store)
    follow(store, store.version.epoch)
    first = change(store, {}, {1: "a", 2: "b"})
    with pytest.raises(RowsNotKept, match="the rows of s are not kept"):
        store.get("s", {"id": 1})
    second = change(store, {1: "a", 2: "b"}, {2: "c", 3: "d"})
    table = store.version.tables["s"]
    rows = pa.Table.from_pylist([{"id": 1, "v": "a", WAS: False}, {"id": 2, "v": "b", WAS: False}], SCHEMA)
    rows = rows.append_column("_op", pa.array([0, 0], pa.uint8()))
    runs = (tuple(store.reader.write_run(table.table, rows)),)
    store.commit(Commit(compactions={"s": build_load(table, first, runs)}, pins={"s": {"build": first}}))
    table = store.version.tables["s"]
    for epoch, held in ((first, {1: "a", 2: "b"}), (second, {2: "c", 3: "d"})):
        found = store.reader.scan(table, epoch, columns=["id", "v"])
        assert {row["id"]: row["v"] for batch in found for row in batch.to_pylist()} == held
    follow(store, second)
    store.maintenance.truncate()
    assert store.version.tables["s"].has_rows_at(second)  # as long as it is pinned
    store.commit(Commit(pins={"s": {"build": None}}))
    store.maintenance.truncate()
    table = store.version.tables["s"]
    assert (table.log, [one.runs for one in table.generations]) == ((), [()])
    assert not table.has_rows_at(second)
    store.gc(grace_seconds=0)
    assert not list(table.iterate_ssts())


def test_changes_stay_until_all_consumers_have_taken_them(store: Hummock) -> None:
    create(store)
    start = store.version.epoch
    follow(store, start, "slow")
    follow(store, start, "fast")
    state: State = {}
    epochs = []
    for n in range(4):
        then = {**state, n: "x"}
        epochs.append(change(store, state, then))
        state = then
    follow(store, epochs[3], "fast")
    follow(store, epochs[1], "slow")
    store.maintenance.truncate()
    assert [entry.epoch for entry in store.version.tables["s"].log] == epochs[2:]
    assert seen(store, epochs[1], epochs[3]) == Counter({(2, "x", 1): 1, (3, "x", 1): 1})
    with pytest.raises(EpochExpired):
        seen(store, epochs[0], epochs[3])
    store.commit(Commit(acks={"s": {"slow": None}}))
    store.maintenance.truncate()
    assert store.version.tables["s"].log == ()


def test_what_was_not_written_is_never_taken_for_no_change(store: Hummock) -> None:
    create(store)
    before = store.version.epoch
    store.commit(Commit(writes={"s": ()}, truncate={"s": (1 << 63) - 1}))  # a change that nobody followed
    with pytest.raises(Conflict, match="history"):
        follow(store, before)
    follow(store, store.version.epoch)


def test_many_changes_stop_no_writer_and_are_never_merged(store: Hummock) -> None:
    create(store)
    follow(store, store.version.epoch)
    state: State = {}
    for n in range(200):
        then = {n: "x"}
        change(store, state, then)
        state = then
    table = store.version.tables["s"]
    assert len(table.log) == 200 and store.next_task("s") is None
    store.compact("s")
    assert store.version.tables["s"].log == table.log
