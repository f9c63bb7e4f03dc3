"""The first load of a landing folder of Parquet and CSV files: by Spark's tasks, by the process that polls, and Spark's own copy.

`python -m benchmarks.first_load [--rows 10000000] [--files 4] [--rounds 3] [--formats parquet csv] [--spark local[2]]`

The same files into a new table with a key each time. Spark reads them, with the table's types, and writes Parquet, in their own
order and in that of the key. Seconds are medians; each round begins with another way. Memory
is the peak of the driver's Python and of the largest Python worker, the most of all rounds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.dml import find_workers
from benchmarks.process_memory import read_high_water_mib, reset_high_water
from engine.connectors.contract.connector import Spark, no_spark
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tasks import SETTING
from engine.session import Session

COLUMNS = "id BIGINT, v STRING, n DOUBLE, at TIMESTAMP"
WARM_ROWS = 500_000
COPIED, SORTED, BY_TASKS, BY_ITSELF = (
    "Spark: copy",
    "Spark: copy in order",
    "by tasks",
    "by the polling process",
)


class Files:
    """Files of one format, and what is made of them."""

    def __init__(self, session: Session, home: Path, kind: str, rows: int, files: int) -> None:
        self.session, self.spark, self.home, self.kind = session, session.computing, home, kind
        self.rows, self.files = rows, files
        self.folder = home / "given"
        given = self.spark.range(0, rows, 1, files).selectExpr(*_list_items())
        writer = given.write.option("header", "true").option(
            "compression", "none" if kind == "csv" else "snappy"
        )
        writer.format(kind).save(str(self.folder))
        self.seconds: dict[str, list[float]] = {}
        self.memory: dict[str, tuple[float, float]] = {}

    def count_bytes(self) -> int:
        """Return the bytes of the files."""
        return sum(file.stat().st_size for file in self.folder.glob(f"*.{self.kind}"))

    def run(self, rounds: int) -> None:
        """Copy and load in all ways, each round in another order."""
        ways: list[tuple[str, Callable[[], None]]] = [
            (COPIED, lambda: self._copy("copy")),
            (BY_TASKS, lambda: self._load(lambda: self.spark)),
            (SORTED, lambda: self._copy("sorted", in_order=True)),
            (BY_ITSELF, lambda: self._load(no_spark)),
        ]
        for number in range(rounds):
            first = number % len(ways)
            for name, what in (*ways[first:], *ways[:first]):
                self._measure(name, what)

    def render_table(self) -> Table:
        """Return what was measured."""
        caption = f"{self.rows:,} rows in {self.files} files, {self.kind}, {self.count_bytes() >> 20} MiB"
        table = Table(title=f"{caption}, median of {len(self.seconds[COPIED])}")
        for title in ("what", "seconds", "ratio", "driver MiB", "worker MiB"):
            table.add_column(title, justify="left" if title == "what" else "right")
        copied = statistics.median(self.seconds[COPIED])
        for name in (COPIED, SORTED, BY_TASKS, BY_ITSELF):
            seconds = statistics.median(self.seconds[name])
            memory = (f"{each:,.0f}" for each in self.memory[name])
            table.add_row(name, f"{seconds:.1f}", f"{copied / seconds:.2f}", *memory)
        return table

    def _copy(self, name: str, *, in_order: bool = False) -> None:
        rows = (
            self.spark.read.schema(COLUMNS).option("header", "true").format(self.kind).load(str(self.folder))
        )
        if in_order:
            parts = self.spark.sparkContext.defaultParallelism
            rows = rows.repartition(parts, "id").sortWithinPartitions("id")
        rows.write.mode("overwrite").parquet(str(self.home / name))

    def _load(self, spark: Spark) -> None:
        with_ = f"WITH (connector = 'landing', path = '{self.folder}')"
        self.session.sql(f"CREATE TABLE loaded ({COLUMNS}, PRIMARY KEY (id)) {with_}")
        source = LandingSource.of_relation(self.session.store, self.session.catalog.get("loaded"))
        report = source.poll(spark)
        assert (report.rows, report.dead_rows, report.warnings) == (self.rows, 0, ()), report

    def _measure(self, name: str, what: Callable[[], None]) -> None:
        for pid in ("self", *find_workers()):
            reset_high_water(pid)
        started = time.perf_counter()
        what()
        self.seconds.setdefault(name, []).append(time.perf_counter() - started)
        worker = max((read_high_water_mib(pid) for pid in find_workers()), default=0.0)
        before = self.memory.get(name, (0.0, 0.0))
        self.memory[name] = max(before[0], read_high_water_mib("self")), max(before[1], worker)
        self._check()

    def _check(self) -> None:
        """Count what was loaded, and take it away again."""
        if "loaded" in self.session.catalog.relations:
            found = self.session.sql("SELECT count(*) AS c, sum(id) AS s, max(v) AS v FROM loaded")
            assert found is not None
            whole = {"c": self.rows, "s": self.rows * (self.rows - 1) // 2}
            assert found.to_pylist()[0].items() >= whole.items(), found
            self.session.sql("DROP TABLE loaded")


def _list_items() -> list[str]:
    return ["id", "concat('value ', id) AS v", "id / 3 AS n", "timestamp_seconds(id) AS at"]


def main() -> None:
    """Print a table for each format."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", nargs="+", default=["parquet", "csv"], choices=["parquet", "csv"])
    parser.add_argument("--spark", default="local[2]")
    given = parser.parse_args()
    os.environ[SETTING] = "0"
    with tempfile.TemporaryDirectory(prefix="tideline-load-") as folder:
        os.environ["TIDELINE_CACHE_DIR"] = f"{folder}/cache"
        os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
        for kind in given.formats:
            home = Path(folder) / kind
            with Session((home / "store").as_uri(), given.spark) as session:
                Files(session, home / "warm", kind, WARM_ROWS, 2).run(1)
                files = Files(session, home, kind, given.rows, given.files)
                files.run(given.rounds)
                Console().print(files.render_table())
            shutil.rmtree(home)


if __name__ == "__main__":
    main()
