"""What a driver's events cost a Dagster instance: rows and bytes of its SQLite files after epochs of one a second.

    python -m benchmarks.event_log [epochs] [assets]

Each epoch brings on every asset, and the clock of the telling moves on by a second; what is told goes through a real run into a
real instance. The same without sampling is measured over fewer epochs and extrapolated, since each epoch costs the same there.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_tideline.runs.event_throttle import EventThrottle

EVENT_SECONDS = 30.0
UNSAMPLED_EPOCHS = 250
FIRST_EPOCH = 11_678_000_000_000_000


@dataclass(frozen=True)
class InstanceGrowth:
    """What an instance holds more after so many epochs: events of assets, rows of all tables, bytes, and the time it took."""

    epochs: int
    events: int
    rows: int
    bytes: int
    seconds: float

    def scale(self, epochs: int) -> InstanceGrowth:
        """Return the same for another number of epochs, each of which costs the same."""
        factor = epochs / self.epochs
        return InstanceGrowth(
            epochs,
            round(self.events * factor),
            round(self.rows * factor),
            round(self.bytes * factor),
            self.seconds * factor,
        )


def build_epoch_event(asset: str, number: int) -> dg.MaterializeResult[Any]:
    """Return the event of a view's epoch as a driver makes it, with all its numbers."""
    epoch = FIRST_EPOCH + (number << 16)
    metadata: dict[str, Any] = {
        "epoch": f"2026-11-22 06:59:04.767 UTC ({epoch})",
        "rows_at_most": 1_000_000 + number,
        "rows_in": 1_000,
        "rows_out": 120,
        "inserted": 20,
        "updated": 100,
        "deleted": 0,
        "seconds_total": 0.113,
        "state_bytes": 25_000_000 + 900 * number,
        "lag_seconds": 0.214,
        "rule": "aggregate",
    }
    metadata |= {f"seconds_{stage}": 0.021 for stage in ("read", "compute", "write", "commit")}
    tags = {"dagster/input_data_version/orders": str(epoch)}
    return dg.MaterializeResult(
        asset_key=asset, metadata=metadata, data_version=dg.DataVersion(str(epoch)), tags=tags
    )


def measure(epochs: int, assets: int, event_seconds: float) -> InstanceGrowth:
    """Return what so many epochs of so many assets leave in a new instance."""
    names = [f"view_{number}" for number in range(assets)]
    events = 0

    @dg.op(name="drive", out={})
    def drive() -> Iterator[Any]:
        nonlocal events
        throttle = EventThrottle(event_seconds, dict.fromkeys(names, "3f2a91c07b5d6e48"))
        for number in range(epochs):
            for event in throttle.submit([build_epoch_event(name, number) for name in names], float(number)):
                events += 1
                yield event
        for event in throttle.drain(throttle.reported_tags):
            events += 1
            yield event

    @dg.job(executor_def=dg.in_process_executor)
    def driver() -> None:
        drive()

    with tempfile.TemporaryDirectory() as folder, dg.DagsterInstance.local_temp(folder) as instance:
        rows, size = measure_databases(Path(folder))
        started = time.perf_counter()
        assert driver.execute_in_process(instance=instance).success
        seconds = time.perf_counter() - started
        now, grown = measure_databases(Path(folder))
    return InstanceGrowth(epochs, events, now - rows, grown - size, seconds)


def measure_databases(folder: Path) -> tuple[int, int]:
    """Return the rows and the bytes of the databases in a folder, after what waits in their logs is in them."""
    rows = size = 0
    for path in folder.rglob("*.db"):
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            names = [
                name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            rows += sum(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names)
        database.close()
        size += path.stat().st_size
    return rows, size


def format_line(name: str, measured: InstanceGrowth) -> str:
    """Return a row of the table that is printed."""
    return (
        f"| {name} | {measured.events:,} | {measured.rows:,} | {measured.bytes / 1e6:,.1f} | "
        f"{measured.bytes / measured.epochs * 86_400 / 1e6:,.0f} |"
    )


def main() -> None:
    """Measure, and print a table."""
    epochs, assets = (int(sys.argv[at]) if len(sys.argv) > at else n for at, n in ((1, 10_000), (2, 8)))
    logging.getLogger("dagster").setLevel(logging.ERROR)
    sampled = measure(epochs, assets, EVENT_SECONDS)
    every = measure(min(epochs, UNSAMPLED_EPOCHS), assets, 0.0)
    print(f"{epochs:,} epochs of {assets} assets, one a second")
    print("| events | of assets | rows | MB | MB a day |\n|---|---|---|---|---|")
    print(format_line(f"one in {EVENT_SECONDS:.0f} s", sampled))
    print(format_line(f"every one (measured over {every.epochs:,} epochs)", every.scale(epochs)))


if __name__ == "__main__":
    main()
