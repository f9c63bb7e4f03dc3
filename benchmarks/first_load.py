"""The first load of a landing folder of Parquet and CSV files: by Spark's tasks, by the process that polls, and Spark's own copy.

`python -m benchmarks.first_load [--rows 10000000] [--files 4] [--formats parquet csv] [--spark local[2]]`

The same files into a new table with a key each time. Spark reads them, with the table's types, and writes Parquet, in their own
order and in that of the key. Memory is the peak of the driver's Python and of the largest Python worker.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.dml import high_water_mib, reset_mark, workers
from engine.connectors import landing_tasks
from engine.connectors.contract import Spark, no_spark
from engine.connectors.landing import LandingSource
from engine.session import Session

COLUMNS = "id BIGINT, v STRING, n DOUBLE, at TIMESTAMP"
WARM_ROWS = 50_000


class Files:
    """Files of one format, and what is made of them."""

    def __init__(self, session: Session, home: Path, kind: str, rows: int, files: int) -> None:
        self.session, self.spark, self.home, self.kind, self.rows = (
            session,
            session.computing,
            home,
            kind,
            rows,
        )
        self.folder = home / "given"
        given = self.spark.range(0, rows, 1, files).selectExpr(*_items())
        writer = given.write.option("header", "true").option(
            "compression", "none" if kind == "csv" else "snappy"
        )
        writer.format(kind).save(str(self.folder))
        self.table = Table(title=f"{rows:,} rows in {files} files, {kind}, {self.size() >> 20} MiB")
        for title in ("what", "seconds", "ratio", "driver MiB", "worker MiB"):
            self.table.add_column(title, justify="left" if title == "what" else "right")
        self.copied = 0.0

    def size(self) -> int:
        """Return the bytes of the files."""
        return sum(file.stat().st_size for file in self.folder.glob(f"*.{self.kind}"))

    def run(self) -> None:
        """Copy, then load in both ways."""
        self.copied = self._measured("Spark: copy", lambda: self._copy("copy"))
        self._measured("Spark: copy in order", lambda: self._copy("sorted", in_order=True))
        self._measured("by tasks", lambda: self._load("by_tasks", lambda: self.spark))
        self._measured("by the polling process", lambda: self._load("by_itself", no_spark))

    def _copy(self, name: str, *, in_order: bool = False) -> None:
        rows = (
            self.spark.read.schema(COLUMNS).option("header", "true").format(self.kind).load(str(self.folder))
        )
        if in_order:
            parts = self.spark.sparkContext.defaultParallelism
            rows = rows.repartition(parts, "id").sortWithinPartitions("id")
        rows.write.parquet(str(self.home / name))

    def _load(self, name: str, spark: Spark) -> None:
        table = f"{self.home.name}_{name}"
        with_ = f"WITH (connector = 'landing', path = '{self.folder}')"
        self.session.sql(f"CREATE TABLE {table} ({COLUMNS}, PRIMARY KEY (id)) {with_}")
        report = LandingSource.of_relation(self.session.store, self.session.catalog.get(table)).poll(spark)
        assert (report.rows, report.dead_rows) == (self.rows, 0), report

    def _measured(self, name: str, what: Callable[[], None]) -> float:
        for pid in ("self", *workers()):
            reset_mark(pid)
        started = time.perf_counter()
        what()
        seconds = time.perf_counter() - started
        worker = max((high_water_mib(pid) for pid in workers()), default=0.0)
        ratio = f"{self.copied / seconds:.2f}" if self.copied else ""
        self.table.add_row(name, f"{seconds:.1f}", ratio, f"{high_water_mib('self'):,.0f}", f"{worker:,.0f}")
        return seconds


def _items() -> list[str]:
    return ["id", "concat('value ', id) AS v", "id / 3 AS n", "timestamp_seconds(id) AS at"]


def main() -> None:
    """Print a table for each format."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--formats", nargs="+", default=["parquet", "csv"], choices=["parquet", "csv"])
    parser.add_argument("--spark", default="local[2]")
    given = parser.parse_args()
    landing_tasks.TASKS_FROM_BYTES = 1
    with tempfile.TemporaryDirectory(prefix="tideline-load-") as folder:
        os.environ["TIDELINE_CACHE_DIR"] = f"{folder}/cache"
        os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
        home = Path(folder)
        with Session((home / "store").as_uri(), given.spark) as session:
            for kind in given.formats:
                Files(session, home / f"warm_{kind}", kind, WARM_ROWS, 2).run()
                files = Files(session, home / kind, kind, given.rows, given.files)
                files.run()
                Console().print(files.table)


if __name__ == "__main__":
    main()
