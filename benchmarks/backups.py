"""What a backup costs: `python -m benchmarks.backups [--rows 4000000] [--files 2000] [--store s3://… --to s3://…]`.

Without addresses both are in a temporary folder. The store has a large table, compacted, and a table of many small files. It is
backed up as a whole, again with nothing changed, with each copy verified, and after 1 % of the large table has changed; then it
is restored, which reads and checks each file. At last a process writes epochs of 100 rows, first alone and then beside one backup
after the other, each of which copies all files. Wall seconds; what was just written is in the memory of the machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from engine.hummock import Hummock, Put
from engine.hummock.backups.back_up import BackupOptions, BackupReport, back_up
from engine.hummock.backups.backup_place import BackupPlace, open_place
from engine.hummock.backups.restore import open_target, restore_backup

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "v": pa.string()})
SMALL_ROWS, EPOCH_ROWS, WRITE_SECONDS = 20, 100, 10.0
T = TypeVar("T")


def make_rows(ids: np.ndarray, seed: int) -> pa.Table:
    """Return rows of some hundred bytes that do not compress well."""
    chance = np.random.default_rng(seed)
    numbers = chance.integers(0, 1 << 62, len(ids))
    texts = [number.tobytes().hex() for number in chance.integers(0, 1 << 62, (len(ids), 4))]
    return pa.table({"id": ids, "n": numbers, "v": texts}, schema=SCHEMA)


def make_store(url: str, rows: int, files: int) -> None:
    """Write the store: `large` has so many rows, `small` so many files."""
    with Hummock.open(url, auto_compact="off") as store:
        for name in ("large", "small", "written"):
            store.create_table(name, SCHEMA, ["id"], ["id"])
        for part in np.array_split(np.arange(rows), max(1, rows // 1_000_000)):
            store.ingest_batch({"large": Put(make_rows(part, int(part[0])))})
        store.compact("large")
        for n in range(files):
            if n % 150 == 149:  # before reads would merge too many runs; the files stay, as history
                store.compact_l0("small")
            store.ingest_batch({"small": Put(make_rows(np.arange(SMALL_ROWS) + n * SMALL_ROWS, n))})


def measure(what: str, work: Callable[[], T]) -> tuple[T, float]:
    """Do some work, print what it is and its seconds, and return both."""
    started = time.perf_counter()
    done = work()
    seconds = time.perf_counter() - started
    print(f"{what:48} {seconds:7.2f} s", end="")
    return done, seconds


def measure_backup(what: str, store: Hummock, place: BackupPlace, options: BackupOptions) -> BackupReport:
    """Make a backup, and print what it copied and how quickly."""
    report, seconds = measure(what, lambda: back_up(store, place, options))
    summary = report.summary
    copied = f"{summary.copied:6,} of {summary.files:6,} files, {summary.copied_bytes / 1e6:8,.1f} MB copied"
    print(
        f"  {copied}: {summary.copied_bytes / 1e6 / seconds:6,.0f} MB/s, {summary.copied / seconds:6,.0f} files/s"
    )
    return report


def write_epochs(url: str, seconds: float) -> float:
    """Write small epochs for so long; return how many a second."""
    with Hummock.open(url) as store:
        until, done = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            store.ingest_batch({"written": Put(make_rows(np.arange(EPOCH_ROWS) + done * EPOCH_ROWS, done))})
            done += 1
        return done / seconds


def measure_writer(url: str, to: str) -> None:
    """Print the epochs a second of a process that writes alone, and beside backups."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(write_epochs, (url, 1.0))
        alone = pool.apply(write_epochs, (url, WRITE_SECONDS))
        running = pool.apply_async(write_epochs, (url, WRITE_SECONDS))
        backups, copied = 0, 0
        with Hummock.open(url) as store:
            while not running.ready():
                report = back_up(store, open_place(f"{to}-{backups}", create=True))
                backups, copied = backups + 1, copied + report.summary.copied_bytes
        beside = running.get()
    print(
        f"a writer beside backups: {beside:,.1f} epochs a second of {alone:,.1f} alone ({beside / alone:.0%}); "
        f"{backups} backups copied {copied / 1e6:,.0f} MB meanwhile"
    )


def run(url: str, to: str, rows: int, files: int) -> None:
    """Measure backups of a store at a new address."""
    make_store(url, rows, files)
    place = open_place(to, create=True)
    with Hummock.open(url, auto_compact="off") as store:
        measure_backup("the first backup", store, place, BackupOptions())
        measure_backup("again, nothing has changed", store, place, BackupOptions())
        measure_backup("again, each copy is verified", store, place, BackupOptions(verify=True))
        changed = np.random.default_rng(0).choice(rows, max(1, rows // 100), replace=False)
        store.ingest_batch({"large": Put(make_rows(np.sort(changed), 1))})
        measure_backup("after 1 % of the large table has changed", store, place, BackupOptions())
        measure_backup("again, all but 2 backups are dropped", store, place, BackupOptions(keep=2))
    report, seconds = measure("a restore", lambda: restore_backup(place, open_target(f"{url}-restored")))
    print(
        f"  {report.summary.files:6,} files, {report.summary.bytes / 1e6:8,.1f} MB: "
        f"{report.summary.bytes / 1e6 / seconds:6,.0f} MB/s, {report.summary.files / seconds:6,.0f} files/s"
    )
    measure_writer(url, to)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--store", default="", help="a new address; by default a temporary folder")
    parser.add_argument("--to", default="", help="another one")
    given = parser.parse_args(None if arguments is None else list(arguments))
    with tempfile.TemporaryDirectory() as folder:
        url = given.store or (Path(folder) / "store").as_uri()
        run(url, given.to or (Path(folder) / "backups").as_uri(), given.rows, given.files)


if __name__ == "__main__":
    main()
