"""What a store takes up, and what its readers see, while compaction and garbage collection run on schedule."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.compaction import WRITE_STOP_RUNS
from engine.hummock.compaction.task import list_live_runs
from engine.hummock.compaction.worker import CompactionWorker
from engine.testing.manual_clock import ManualClock
from tests.hummock.conftest import content, keys, rows

EPOCH_SECONDS = 1.0


@dataclass(frozen=True)
class Space:
    """Bytes of a store's objects, of its live rows in one run, and of what only older epochs need; runs at most."""

    stored: int
    live: int
    retained: int
    most_runs: int

    @property
    def ratio(self) -> float:
        """Stored bytes over live bytes, what the retention demands apart."""
        return (self.stored - self.retained) / self.live


def stored_bytes(store: Hummock) -> int:
    """Return the bytes of all objects below the store's prefix."""
    return sum(info.size for info in store.objects.list(""))


def random_epoch(store: Hummock, table: Table, chance: random.Random, keys_: int, step: int) -> None:
    ids = chance.sample(range(keys_), keys_ // 50)
    gone = chance.sample(range(keys_), keys_ // 500)
    values = {i: f"{step}-{chance.getrandbits(64):x}" for i in ids}
    store.ingest_batch({table: [Delete(keys(*gone)), Put(rows(values))]})


def keep_house(store: Hummock, clock: ManualClock) -> None:
    """Do what the schedules do: compact what needs it, collect garbage."""
    CompactionWorker(store).run_once()
    store.gc(grace_seconds=1.0)


def updates(store: Hummock, table: Table, clock: ManualClock, epochs: int, keys_: int, every: int) -> Space:
    """Write `epochs` epochs of updates with housekeeping every so often, and measure."""
    chance = random.Random(epochs)
    store.ingest_batch({table: [Put(rows({i: f"first-{chance.getrandbits(64):x}" for i in range(keys_)}))]})
    most = 0
    for step in range(epochs):
        clock.sleep(EPOCH_SECONDS)
        random_epoch(store, table, chance, keys_, step)
        most = max(most, len(list_live_runs(store.version.tables[table.name])))
        if step % every == every - 1:
            keep_house(store, clock)
    assert most < WRITE_STOP_RUNS
    before = content(store, table.name)
    clock.sleep(3600.0)  # past the retention: nobody may ask for the epochs before
    keep_house(store, clock)
    clock.sleep(3600.0)  # and past the time for which what was replaced just now is kept
    keep_house(store, clock)
    stored = stored_bytes(store)
    assert content(store, table.name) == before
    store.compact(table)
    live = store.version.tables[table.name].size_bytes
    return Space(stored, live, 0, most)


def read_the_past(
    store: Hummock,
    table: Table,
    clock: ManualClock,
    epochs: int,
    keys_: int,
    reads: int,
    read: Callable[[int], dict[int, str]],
) -> int:
    """Write epochs under housekeeping; read random retained ones through `read`, which may be another handle; return how many."""
    chance = random.Random(7)
    seen: dict[int, dict[int, str]] = {}
    done = 0
    for step in range(epochs):
        clock.sleep(EPOCH_SECONDS)
        random_epoch(store, table, chance, keys_, step)
        seen[store.version.epoch] = content(store, table.name)
        if step % 10 == 9:
            keep_house(store, clock)
        if step >= epochs // 4 and done < reads and step % max(1, epochs // (2 * reads)) == 0:
            safe = store.refresh().tables[table.name].safe_epoch
            epoch = chance.choice([e for e in seen if e >= safe])
            assert read(epoch) == seen[epoch], f"epoch {epoch} reads otherwise than when it was new"
            done += 1
    return done
