"""A table that follows a Delta table, beside Spark's own copy of the same rows from Delta to Delta.

`python -m benchmarks.delta_source [--rows 10000000] [--rounds 1] [--spark local[2]] [--feedless [--changes 1000]]`

The first load and a feed in which a tenth of the rows is updated. Spark reads the same version and writes it as a new Delta
table, plain and sorted by its key (as the rows of a table here are), and brings a copy to the next version by MERGE from the
same feed. Each ratio is Spark's seconds through Tideline's. Memory is the peak of the driver's Python and of the largest Python
worker. Rounds change the order: who comes first finds the rows uncached.

With `--feedless` tables without a feed are updated in some rows, spread over all their files, and two tables follow: one by the
files that changed, one by comparing versions as a whole. The ratio is the comparison's seconds through those by files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.dml import find_workers
from benchmarks.process_memory import read_high_water_mib, reset_high_water
from engine.connectors.delta.source import DeltaSource
from engine.connectors.delta.steps import Means
from engine.session import Session

COLUMNS = "id BIGINT, v STRING, n DOUBLE, at TIMESTAMP"
ROWS = "id, concat('value ', id) AS v, id / 3 AS n, timestamp_seconds(id) AS at"
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
WARM_ROWS = 50_000
_TRACKS, _VECTORS = "'delta.enableRowTracking' = 'true'", "'delta.enableDeletionVectors'"
FEEDLESS = {
    "row tracking, vectors": f"{_TRACKS}, {_VECTORS} = 'true'",
    "vectors": f"{_VECTORS} = 'true'",
    "row tracking, files rewritten": f"{_TRACKS}, {_VECTORS} = 'false'",
    "neither, files rewritten": f"{_VECTORS} = 'false'",
}
LOADED, COPIED, SORTED = "first load", "Spark: copy", "Spark: copy in order"
FOLLOWED, MERGED = "feed of a tenth", "Spark: MERGE of it"


class Round:
    """One Delta table, the table that follows it, and what Spark makes of it."""

    def __init__(self, session: Session, folder: Path, rows: int) -> None:
        self.session, self.spark, self.rows = session, session.computing, rows
        self.folder, self.name = folder, f"t_{folder.name}"
        self.given = self._build_path("given")
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, tuple[float, float]] = {}
        self.sql(f"CREATE TABLE {self.given} ({COLUMNS}) USING delta {FEED}")
        self.sql(f"INSERT INTO {self.given} SELECT {ROWS} FROM range(0, {rows}, 1, 4)")

    def run(self, *, first: bool) -> None:
        """Load and copy, in this order if this system is the `first`; then the same with a feed."""
        self._run_each(first, self.load, (COPIED, self.copy), (SORTED, self.copy_sorted))
        self.sql(f"UPDATE {self.given} SET n = n + 1 WHERE id % 10 = 0")
        self._run_each(first, self.follow, (MERGED, self.merge))
        self.check()

    def _run_each(
        self, first: bool, ours: Callable[[], None], *spark: tuple[str, Callable[[], None]]
    ) -> None:
        if first:
            ours()
        for name, done in spark:
            self._measure(name, done)
        if not first:
            ours()

    def load(self) -> None:
        """Create the table, and take the snapshot."""
        with_ = f"WITH (connector = 'delta', path = '{self.folder}/given')"
        self.session.sql(f"CREATE TABLE {self.name} (PRIMARY KEY (id)) {with_}")
        self._measure(LOADED, self._make_poll(self.rows))

    def follow(self) -> None:
        """Take the feed."""
        self._measure(FOLLOWED, self._make_poll((self.rows + 9) // 10))

    def _make_poll(self, rows: int) -> Callable[[], None]:
        def poll() -> None:
            source = DeltaSource(self.session.store, self.session.catalog.get(self.name))
            report = source.poll(lambda: self.spark)
            assert (report.rows, report.dead_rows) == (rows, 0), report

        return poll

    def copy(self) -> None:
        """Read the Delta table and write it as another one."""
        self.spark.read.format("delta").load(f"{self.folder}/given").write.format("delta").save(
            f"{self.folder}/copy"
        )

    def copy_sorted(self) -> None:
        """The same, with the rows spread and sorted by their key."""
        read = self.spark.read.format("delta").load(f"{self.folder}/given")
        parts = self.spark.sparkContext.defaultParallelism
        spread = read.repartition(parts, "id").sortWithinPartitions("id")
        spread.write.format("delta").save(f"{self.folder}/sorted")

    def merge(self) -> None:
        """Bring the copy to the newest version by the feed."""
        feed = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
        changed = feed.load(f"{self.folder}/given").where("_change_type = 'update_postimage'")
        changed.createOrReplaceTempView("changed")
        self.sql(
            f"MERGE INTO {self._build_path('copy')} c USING changed n ON c.id = n.id "
            "WHEN MATCHED THEN UPDATE SET id = n.id, v = n.v, n = n.n, at = n.at WHEN NOT MATCHED THEN "
            "INSERT (id, v, n, at) VALUES (n.id, n.v, n.n, n.at)"
        )

    def check(self) -> None:
        """Hold all three against each other."""
        select = "SELECT count(*) AS c, sum(n) AS s, max(v) AS v, max(at) AS a FROM"
        here = self.session.sql(f"{select} {self.name}")
        assert here is not None
        ours = here.to_pylist()[0]
        for there in (self.given, self._build_path("copy")):
            theirs = self.spark.sql(f"{select} {there}").collect()[0]
            assert (ours["c"], ours["v"]) == (theirs["c"], theirs["v"]), (ours, theirs)
            assert abs(ours["s"] - theirs["s"]) <= 1e-9 * abs(theirs["s"]), (ours, theirs)

    def _measure(self, name: str, what: Callable[[], None]) -> None:
        for pid in ("self", *find_workers()):
            reset_high_water(pid)
        started = time.perf_counter()
        what()
        self.seconds[name] = time.perf_counter() - started
        worker = max((read_high_water_mib(pid) for pid in find_workers()), default=0.0)
        self.memory[name] = (read_high_water_mib("self"), worker)

    def _build_path(self, name: str) -> str:
        return f"delta.`{self.folder}/{name}`"

    def sql(self, text: str) -> None:
        """Run a statement of Spark SQL."""
        self.spark.sql(text).collect()


class ComparingSource(DeltaSource):
    """A source that compares versions as a whole, whatever their log tells."""

    @property
    def _means(self) -> frozenset[Means]:
        return frozenset()


def measure_feedless(session: Session, folder: Path, rows: int, changes: int, properties: str) -> list[float]:
    """Return the seconds of following changes in a table without a feed: by its files, and by comparing."""
    spark, given = session.computing, f"delta.`{folder}`"
    spark.sql(f"CREATE TABLE {given} ({COLUMNS}) USING delta TBLPROPERTIES ({properties})").collect()
    spark.sql(f"INSERT INTO {given} SELECT {ROWS} FROM range(0, {rows}, 1, 4)").collect()
    kinds = {f"files_{folder.name}": DeltaSource, f"whole_{folder.name}": ComparingSource}
    for name in kinds:
        session.sql(f"CREATE TABLE {name} (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{folder}')")
        report = DeltaSource(session.store, session.catalog.get(name)).poll(lambda: spark)
        assert report.rows == rows, report
    spark.sql(f"UPDATE {given} SET n = n + 1 WHERE id % {rows // changes} = 0").collect()
    seconds = []
    for name, kind in kinds.items():
        source = kind(session.store, session.catalog.get(name))
        started = time.perf_counter()
        report = source.poll(lambda: spark)
        seconds.append(time.perf_counter() - started)
        assert changes <= report.rows <= changes + 1, report
    found = [session.sql(f"SELECT sum(n) AS s, count(*) AS c FROM {name}") for name in kinds]
    assert found[0] == found[1], found
    return seconds


def run_feedless(session: Session, home: Path, rows: int, changes: int) -> Table:
    """Return what was measured of tables without a feed, as a table."""
    measure_feedless(session, home / "warm", WARM_ROWS, 100, FEEDLESS["vectors"])
    table = Table(title=f"{changes:,} changes in {rows:,} rows, without a feed")
    table.add_column("Delta table")
    for title in ("by files, s", "compared, s", "ratio"):
        table.add_column(title, justify="right")
    for number, (kind, properties) in enumerate(FEEDLESS.items()):
        files, whole = measure_feedless(session, home / f"kind{number}", rows, changes, properties)
        table.add_row(kind, f"{files:.1f}", f"{whole:.1f}", f"{whole / files:.1f}")
        Console().print(f"{kind}: {files:.2f} s by files, {whole:.2f} s compared")
    return table


def render_table(rounds: list[Round]) -> Table:
    """Return the medians of rounds, with the ratios, as a table."""
    table = Table(title=f"{rounds[0].rows:,} rows, median of {len(rounds)}")
    table.add_column("what")
    for title in ("seconds", "ratio", "driver MiB", "worker MiB"):
        table.add_column(title, justify="right")
    ours = 0.0
    for name in (LOADED, COPIED, SORTED, FOLLOWED, MERGED):
        seconds = statistics.median(one.seconds[name] for one in rounds)
        ours = seconds if name in (LOADED, FOLLOWED) else ours
        ratio = "" if name in (LOADED, FOLLOWED) else f"{seconds / ours:.2f}"
        peaks = [max(one.memory[name][at] for one in rounds) for at in range(2)]
        table.add_row(name, f"{seconds:.1f}", ratio, *(f"{peak:,.0f}" for peak in peaks))
    return table


def main() -> None:
    """Print a table of what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--spark", default="local[2]")
    parser.add_argument("--feedless", action="store_true")
    parser.add_argument("--changes", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tideline-delta-") as folder:
        os.environ["TIDELINE_CACHE_DIR"] = f"{folder}/cache"
        os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
        home = Path(folder)
        with Session((home / "store").as_uri(), given.spark) as session:
            if given.feedless:
                Console().print(run_feedless(session, home, given.rows, given.changes))
                return
            Round(session, home / "warm", WARM_ROWS).run(first=True)
            rounds = []
            for number in range(given.rounds):
                rounds.append(Round(session, home / f"round{number}", given.rows))
                rounds[-1].run(first=number % 2 == 0)
            Console().print(render_table(rounds))


if __name__ == "__main__":
    main()
