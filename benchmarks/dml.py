"""Seconds and peak memory of statements that write many rows: UPDATE, INSERT … SELECT, DELETE and CREATE TABLE AS.

`python -m benchmarks.dml [--rows 5000000] [--spark local[2]] [--small]`

Memory is the high-water mark of each process over one statement, as Linux tells it: the driver's Python process, the largest of
Spark's Python workers, and the heap that Spark's JVM used. With `--small` it measures statements of one row instead, many times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.process_memory import read_high_water_mib, read_resident_mib, reset_high_water
from engine.session import Session

CHUNK = 500_000
SMALL_ROWS, SMALL_TIMES = 1_000, 30
MIB = 1 << 20


@dataclass(frozen=True)
class StatementCost:
    """What one statement took: seconds, and peaks in MiB."""

    statement: str
    seconds: float
    driver: float
    driver_before: float
    worker: float
    heap: float


def find_workers() -> Iterator[int]:
    """Yield Spark's Python workers: the Python processes below this one's JVM."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    for pid in parents:
        above, seen = pid, set()
        while above in parents and above not in seen and above != os.getpid():
            seen.add(above)
            above = parents[above]
        if above == os.getpid() and pid != above:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"engine.runtime.spark.worker_daemon" in command.split(b"\0"):  # the JVM has it in a setting
                yield pid


def list_heap_pools(session: Session) -> list[Any]:
    """Return the JVM's heap pools, as its management interface shows them."""
    jvm: Any = session.spark.sparkContext._jvm
    beans = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return [bean for bean in beans if bean.getType().name() == "HEAP"]


def measure_statement(session: Session, statement: str) -> StatementCost:
    """Run a statement and return what it took."""
    pa.default_memory_pool().release_unused()
    pools = list_heap_pools(session)
    session.spark.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    for pool in pools:
        pool.resetPeakUsage()
    for pid in ("self", *find_workers()):
        reset_high_water(pid)
    before, started = read_resident_mib("self"), time.perf_counter()
    session.sql(statement)
    seconds = time.perf_counter() - started
    heap = sum(pool.getPeakUsage().getUsed() for pool in pools) / MIB
    worker = max((read_high_water_mib(pid) for pid in find_workers()), default=0.0)
    return StatementCost(statement, seconds, read_high_water_mib("self"), before, worker, heap)


def measure_large(session: Session, rows: int) -> Iterator[StatementCost]:
    """Yield what statements over a table of so many rows take."""
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT, name STRING)")
    session.sql("CREATE TABLE copy (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT, name STRING)")
    for start in range(0, rows, CHUNK):
        ids = np.arange(start, min(rows, start + CHUNK))
        names = pa.array(np.char.add("customer-", (ids % 100_000).astype(str)))
        session.write(
            "sale", pa.table({"id": ids, "shop": ids % 97, "price": ids % 1_000, "name": names}), "insert"
        )
    session.store.compact("sale")
    session.sql("SELECT count(*) FROM sale WHERE price + 1 > 0")
    yield measure_statement(session, "UPDATE sale SET price = price + 1")
    yield measure_statement(session, "INSERT INTO copy SELECT id, shop, price, name FROM sale")
    yield measure_statement(
        session, "CREATE TABLE made AS SELECT id, shop, price * 2 AS price, name FROM sale"
    )
    yield measure_statement(session, "DELETE FROM sale WHERE id >= 0")
    counts = [session.sql(f"SELECT count(*) AS n FROM {name}") for name in ("sale", "copy", "made")]
    found = [count.to_pylist()[0]["n"] for count in counts if count is not None]
    assert found == [0, rows, rows], found


def measure_small(session: Session) -> Iterator[tuple[str, list[float]]]:
    """Yield the seconds that statements of one row take."""
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT, name STRING)")
    session.sql("CREATE TABLE copy (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT, name STRING)")
    ids = np.arange(SMALL_ROWS)
    session.write("sale", pa.table({"id": ids, "shop": ids, "price": ids, "name": [f"c{i}" for i in ids]}))
    seconds: dict[str, list[float]] = {}
    for n in range(SMALL_TIMES):
        for verb, text in (
            ("UPDATE", "UPDATE sale SET price = price + 1 WHERE id = 7"),
            ("DELETE", f"DELETE FROM sale WHERE id = {SMALL_ROWS - 1 - n}"),
            (
                "INSERT … SELECT",
                f"INSERT INTO copy SELECT id + {n}, shop, price, name FROM sale WHERE id = 5",
            ),
        ):
            started = time.perf_counter()
            session.sql(text)
            seconds.setdefault(verb, []).append(time.perf_counter() - started)
    yield from ((verb, found[SMALL_TIMES // 3 :]) for verb, found in seconds.items())


def main() -> None:
    """Print a table of the statements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--spark", default="local[2]")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tideline-dml-") as folder:
        os.environ["TIDELINE_CACHE_DIR"] = f"{folder}/cache"
        os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
        with Session(Path(folder, "store").as_uri(), given.spark) as session:
            if given.small:
                for verb, seconds in measure_small(session):
                    median, best = statistics.median(seconds), min(seconds)
                    console.print(
                        f"{verb} of one row: median {median * 1000:.0f} ms, best {best * 1000:.0f} ms"
                    )
                return
            table = Table(title=f"{given.rows:,} rows")
            for title in (
                "statement",
                "seconds",
                "driver before",
                "driver MiB",
                "worker MiB",
                "JVM heap MiB",
            ):
                table.add_column(title, justify="left" if title == "statement" else "right")
            for one in measure_large(session, given.rows):
                peaks = (one.driver_before, one.driver, one.worker, one.heap)
                table.add_row(one.statement[:40], f"{one.seconds:.1f}", *(f"{peak:,.0f}" for peak in peaks))
            console.print(table)


if __name__ == "__main__":
    main()
