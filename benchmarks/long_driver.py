"""Whether a driver stays as it is: `python -m benchmarks.long_driver [--views 300] [--tables 60] [--epochs 10000]`.

One session that commits epoch after epoch, as the driver's does. Each epoch changes some rows of one table in turn, and brings on
the views that read it. Upkeep (compaction, log truncation, garbage collection) runs in a process of its own every few epochs.
Printed at 100, 1,000 … epochs: seconds an epoch, memory that no file backs of the driver, of Java and of Spark's Python workers,
what Java has in use after a search for garbage, threads and open files. At the end DuckDB computes all views anew. Exit status 1:
a view differs, or something has grown between the first reading after 1,000 epochs and the last one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.many_views import build_queries, make_rows
from benchmarks.process_memory import read_own_mib
from benchmarks.processors import list_processes
from engine.hummock import Hummock
from engine.hummock.transact import commit_once
from engine.runtime.spark.session import connect
from engine.session import Session

IN_FLIGHT = 4
SUBLEVELS = 8
GRACE_SECONDS = 60.0
SETTLED = 1_000
"""Epochs after which caches are full: from here on nothing may grow."""
MOST_GROWTH, SLACK_MIB = 1.1, 60.0
MOST_SLOWER = 1.3


@dataclass(frozen=True)
class Reading:
    """What a driver takes after so many epochs: seconds an epoch since the last reading (median), MiB, counts."""

    epochs: int
    seconds: float
    driver_mib: float
    java_mib: float
    workers_mib: float
    java_used_mib: float
    threads: int
    files: int

    def find_growth(self, since: Reading) -> list[str]:
        """Return what has grown since another reading."""
        grown = [
            f"{name}: {before:.0f} to {now:.0f} MiB"
            for name in ("driver_mib", "java_mib", "workers_mib", "java_used_mib")
            if (now := getattr(self, name)) > (before := getattr(since, name)) * MOST_GROWTH + SLACK_MIB
        ]
        if self.seconds > since.seconds * MOST_SLOWER:
            grown.append(f"seconds an epoch: {since.seconds:.3f} to {self.seconds:.3f}")
        if self.threads > since.threads + 5 or self.files > since.files + 20:
            grown.append(f"threads {since.threads} to {self.threads}, files {since.files} to {self.files}")
        return grown


def take_reading(spark: SparkSession, epochs: int, seconds: Sequence[float]) -> Reading:
    """Return what the processes have now."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.System.gc()
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    used = memory.getHeapMemoryUsage().getUsed() + memory.getNonHeapMemoryUsage().getUsed()
    found = {who: sum(map(read_own_mib, processes)) for who, processes in list_processes().items()}
    files = len(list(Path("/proc/self/fd").iterdir()))
    return Reading(
        epochs,
        statistics.median(seconds),
        found["driver"],
        found["java"],
        found["workers"],
        used / 2**20,
        threading.active_count(),
        files,
    )


def keep_store(url: str) -> None:
    """Compact the tables with several fresh runs, truncate logs, and delete what nobody needs."""
    with Hummock.open(url) as store:
        for name, table in sorted(store.refresh().tables.items()):
            if table.l0_count >= SUBLEVELS:
                commit_once(store, partial(store.compact_l0, name))
        store.maintenance.truncate()
        store.maintenance.delete_garbage(dry_run=False, grace_seconds=GRACE_SECONDS)


def find_different(session: Session, queries: dict[str, str], tables: Iterable[str]) -> list[str]:
    """Return the views that are not what DuckDB computes over their tables."""
    store = session.store
    version = store.refresh()
    batch = duckdb.connect()

    def read(name: str) -> pa.Table:
        table = version.tables[name]
        return pa.Table.from_batches(store.reader.scan(table, table.committed_epoch), table.schema)

    for name in tables:
        batch.register(name, read(name))
    different = []
    for name, query in queries.items():
        expected = batch.sql(query)
        shown = read(name).select(expected.columns)
        if sorted(shown.to_pylist(), key=str) != sorted(expected.arrow().read_all().to_pylist(), key=str):
            different.append(name)
    return different


def main() -> None:
    """Run it, print the readings; ends with 1 where a view differs or something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=300)
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--readings", type=int, nargs="+", default=[100, 1_000, 2_000, 5_000])
    parser.add_argument("--upkeep", type=int, default=250, help="epochs between two rounds of upkeep")
    options = parser.parse_args()
    console = Console(width=120)
    tables = [f"t{n}" for n in range(options.tables)]
    queries = build_queries(options.views, options.tables)
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        url = (Path(folder) / "store").as_uri()
        spark = connect("local[2]")
        with Session(url, spark, epochs_in_flight=IN_FLIGHT) as session:
            chance = random.Random(1)
            started = time.perf_counter()
            for name in tables:
                session.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
                session.write(name, make_rows(range(options.rows), chance, options.rows))
            for name, text in queries.items():
                session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}", build=False)
            session.flush().raise_for_errors()
            console.print(f"{len(queries)} views after {time.perf_counter() - started:.1f} s")
            shown = Table(*(field.name.replace("_", " ") for field in fields(Reading)))
            readings: list[Reading] = []
            seconds: list[float] = []
            upkeep = None
            for epoch in range(1, options.epochs + 1):
                name = tables[epoch % len(tables)]
                ids = chance.sample(range(options.rows * 2), options.changes)
                rows = make_rows(ids, chance, options.rows)
                began = time.perf_counter()
                session.write(name, rows)
                report = session.epochs.run_pending(wait=False)
                seconds.append(time.perf_counter() - began)
                report.raise_for_errors()
                if upkeep is not None and upkeep.exitcode:
                    sys.exit(f"upkeep ended with {upkeep.exitcode}")
                if epoch % options.upkeep == 0 and (upkeep is None or upkeep.exitcode == 0):
                    upkeep = processes.Process(target=keep_store, args=(url,), daemon=True)
                    upkeep.start()
                if epoch in options.readings or epoch == options.epochs:
                    readings.append(take_reading(spark, epoch, seconds))
                    seconds = []
                    console.print(readings[-1])
            session.flush().raise_for_errors()
            if upkeep is not None:
                upkeep.join(60)
            for reading in readings:
                shown.add_row(
                    *(
                        f"{value:.3f}" if isinstance(value, float) else str(value)
                        for value in astuple(reading)
                    )
                )
            console.print(shown)
            different = find_different(session, queries, tables)
        settled = next((one for one in readings if one.epochs >= SETTLED), readings[-1])
        grown = readings[-1].find_growth(settled)
        console.print(
            f"{len(queries) - len(different)} of {len(queries)} views equal; differ: {different or 'none'}"
        )
        console.print(
            f"grown from {settled.epochs} to {readings[-1].epochs} epochs: {'; '.join(grown) or 'nothing'}"
        )
    sys.exit(1 if different or grown else 0)


if __name__ == "__main__":
    main()
