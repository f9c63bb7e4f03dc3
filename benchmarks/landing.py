"""What landing costs: memory and time of a large file, and a look at a folder of which most was taken long ago.

python -m benchmarks.landing --gigabytes 4
python -m benchmarks.landing --taken 50000 1000000
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.process_memory import read_high_water_mib
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import FILES, FILES_SCHEMA, ensure_landing_tables
from engine.hummock import Hummock, Put

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("at", pa.string())])
LINES_AT_ONCE = 200_000
TICKS = 20


def write_large_file(path: Path, size: int) -> int:
    """Write a CSV file of at least `size` bytes; returns its rows."""
    rows = 0
    with path.open("w") as file:
        file.write("id,name,price,at\n")
        while file.tell() < size:
            numbers = range(rows, rows + LINES_AT_ONCE)
            file.writelines(
                f'{n},"customer {n * 7919 % 1_000_003}",{n % 10_000 / 4},2026-01-01T10:{n % 60:02}:00 some text about it\n'
                for n in numbers
            )
            rows += LINES_AT_ONCE
    return rows


def measure_large_file(gigabytes: float, home: Path) -> None:
    """Land one file and print rows, seconds and memory."""
    folder = home / "landing"
    folder.mkdir()
    rows = write_large_file(folder / "large.csv", int(gigabytes * (1 << 30)))
    with Hummock.open((home / "store").as_uri()) as store:
        store.create_table("large", SCHEMA, ["id"], ["id"])
        before = read_high_water_mib()
        report = LandingSource(store, "large", folder).poll()
        commits = len(store.refresh().tables["large"].log)
        assert (report.rows, report.dead_rows, report.files) == (rows, 0, 1), report
        print(
            f"{(folder / 'large.csv').stat().st_size / (1 << 30):.2f} GiB, {rows:,} rows: {report.seconds:.1f} s, "
            f"{rows / report.seconds:,.0f} rows/s, peak {read_high_water_mib():,.0f} MiB ({before:,.0f} MiB before the poll), "
            f"{commits} commits in the log"
        )


def make_ingested_folder(count: int, home: Path, store: Hummock) -> Path:
    """Make a folder of `count` files, all of which were taken."""
    folder = home / f"landing{count}"
    folder.mkdir()
    name = f"t{count}"
    store.create_table(name, SCHEMA, ["id"], ["id"])
    ensure_landing_tables(store)
    paths = [f"part-{number:09}.csv" for number in range(count)]
    times = np.empty(count, dtype=np.int64)
    sizes = np.empty(count, dtype=np.int64)
    first = folder / "first"
    for number, path in enumerate(paths):
        if number % 10_000 == 0:  # one file under many names: what is measured is the look, not the disk
            first.unlink(missing_ok=True)
            first.write_text(f"id,name\n{number},a\n")
            status = first.stat()
        os.link(first, folder / path)
        times[number], sizes[number] = status.st_mtime_ns, status.st_size
    first.unlink()
    table = store.version.tables[name].table_id
    columns = {"source": [name] * count, "path": paths, "table_id": np.full(count, table)}
    columns |= {"size": sizes, "mtime_ns": times, "seen_size": sizes, "seen_mtime_ns": times}
    columns |= {"rows": np.ones(count, np.int64), "dead_rows": np.zeros(count, np.int64)}
    columns |= {"position": pa.nulls(count, pa.int64()), "seen_etag": pa.nulls(count, pa.string())}
    store.ingest_batch({FILES: Put(pa.table(columns, schema=FILES_SCHEMA))})
    return folder


def _measure_seconds(what: Callable[[], object], times: int = TICKS) -> tuple[float, float]:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        what()
        found.append(time.perf_counter() - started)
    return sorted(found)[len(found) // 2], max(found)


def measure_ingested(count: int, home: Path) -> None:
    """Print the seconds of a tick and of a poll: by a process that begins, and by one that has looked before."""
    url = (home / f"store{count}").as_uri()
    with Hummock.open(url) as store:
        folder = make_ingested_folder(count, home, store)
    name = f"t{count}"

    def open_source(store: Hummock) -> LandingSource:
        return LandingSource(store, name, folder)

    def land_file(store: Hummock, number: int) -> float:
        (folder / f".new{number}.csv").write_text(f"id,name\n{-number},b\n")
        os.rename(folder / f".new{number}.csv", folder / f"new{number}.csv")
        started = time.perf_counter()
        assert open_source(store).poll().files == 1
        return time.perf_counter() - started

    with Hummock.open(url) as store:
        cold, _ = _measure_seconds(lambda: open_source(store).list_files(), 1)
    with Hummock.open(url) as store:
        cold_poll = land_file(store, 1)
        time.sleep(4)  # until the folder counts as settled
        open_source(store).list_files()
        idle, most = _measure_seconds(lambda: open_source(store).list_files())
        warm_poll = land_file(store, 2)
        (folder / "waiting.csv").write_text("id,name\n-3,c\n")
        first, _ = _measure_seconds(lambda: open_source(store).list_files(), 1)
        waiting, _ = _measure_seconds(lambda: open_source(store).list_files())
    print(
        f"{count:,} taken: tick cold {cold * 1e3:,.0f} ms, warm {idle * 1e3:.2f} ms (most {most * 1e3:,.1f}), with a new file "
        f"{first * 1e3:,.0f} ms, then {waiting * 1e3:.2f} ms; poll of one file cold {cold_poll * 1e3:,.0f} ms, warm "
        f"{warm_poll * 1e3:,.0f} ms; peak {read_high_water_mib():,.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gigabytes", type=float, help="size of a CSV file to land")
    parser.add_argument("--taken", type=int, nargs="*", default=[], help="files that a folder holds already")
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tideline-landing-"))
    try:
        if arguments.gigabytes:
            measure_large_file(arguments.gigabytes, home)
        for count in arguments.taken:
            measure_ingested(count, home)
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
