"""First content of views beside Spark's batch run of the same query: TPC-H, one query after the other.

`python -m benchmarks.builds [--scale 0.2] [--queries 1 3 17 18] [--rounds 2]`

All in one warm session. A build is CREATE MATERIALIZED VIEW until the view is visible, with the state tables and indexes that it
needs. Its measure is Spark's batch query over the same rows and one writing of its result as Parquet: over the store's tables by
the `tideline` source, and over plain Parquet. All take turns, round by round, and the least of each counts. The view is compared
with the batch run row by row and dropped, so that each build begins with the tables alone; what the shared indexes take of it is
told apart. Before, some views over ten rows are built. Ends with 1 where a build takes more than 2 x of its measure over the
store's tables, or a small one more than a second once the session is warm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks import tpch
from benchmarks.processors import measure_processors
from benchmarks.task_times import TaskTime, TimingExecutor
from engine.session import Session

LIMIT = 2.0
SMALL_SECONDS = 1.0
SMALL_ROWS = 10
SMALL = {
    "plain": "SELECT id, d * 2 AS d FROM few WHERE g > 1",
    "groups": "SELECT g, count(*) AS n, sum(d) AS d FROM few GROUP BY g",
    "joined": "SELECT few.id, few.d, named.name FROM few JOIN named ON few.g = named.id",
    "first": "SELECT id, g, d FROM few ORDER BY d DESC LIMIT 3",
    "left_groups": "SELECT name, count(few.id) AS n, max(d) AS m FROM named LEFT JOIN few ON g = named.id GROUP BY name",
}
TEXTS = Path(__file__).parent.parent / "tests" / "oracle" / "tpch"
BATCH_SETTINGS = {"spark.sql.autoBroadcastJoinThreshold": "10485760", "spark.sql.adaptive.enabled": "true"}
"""What a batch query runs with: Spark's own defaults, but for partitions, of which there are as many as pay on the cores."""


@dataclass
class LeastTimes:
    """Wall-clock and processor seconds of the least of some runs."""

    seconds: float = float("inf")
    cpu: float = float("inf")

    def record(self, seconds: float, cpu: float) -> None:
        """Count one more run."""
        self.seconds, self.cpu = min(self.seconds, seconds), min(self.cpu, cpu)


@dataclass
class Build:
    """What one query's builds and batch runs took."""

    query: str
    view: LeastTimes = field(default_factory=LeastTimes)
    stored: LeastTimes = field(default_factory=LeastTimes)
    parquet: LeastTimes = field(default_factory=LeastTimes)
    planning: float = float("inf")
    building: float = float("inf")
    steps: list[TaskTime] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The build over the batch query and one writing of its result."""
        return self.view.seconds / self.stored.seconds

    @property
    def index_seconds(self) -> float:
        """The seconds of the tasks that made shared indexes."""
        return sum(step.seconds for step in self.steps if step.rule == "index")

    def format_lines(self) -> Iterator[str]:
        """Tell table by table what was done: steps, rows, seconds by stage."""
        for table, rows in self.rows.items():
            steps = [step for step in self.steps if step.table == table]
            stages: dict[str, float] = {}
            for step in steps:
                for stage, seconds in step.stages.items():
                    stages[stage] = stages.get(stage, 0.0) + seconds
            stage_times = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.items())
            read = (
                f"{min(s.rows for s in steps):,} to {max(s.rows for s in steps):,}"
                if len(steps) > 1
                else f"{steps[0].rows:,}"
            )
            yield (
                f"  {table} ({steps[0].rule}): {len(steps)} step(s) of {read} rows read, {rows:,} rows stored, "
                f"{sum(s.seconds for s in steps):.2f} s ({stage_times})"
            )
        rest = self.building - sum(step.seconds for step in self.steps)
        yield f"  planning {self.planning:.2f} s, commits and the rest {rest:.2f} s"


def measure_work(work: Callable[[], object], into: LeastTimes) -> None:
    """Run something and count its seconds."""
    cpu, started = measure_processors().total, time.perf_counter()
    work()
    into.record(time.perf_counter() - started, measure_processors().total - cpu)


class BuildRun:
    """The builds of some queries over one store."""

    def __init__(self, session: Session, folder: Path, scale: float) -> None:
        self.session, self.folder, self.scale = session, folder, scale
        self.executor = TimingExecutor.install(session)

    def load(self) -> int:
        """Write the tables into the store and as Parquet; return how many rows there are."""
        self.session.dialect = "postgres"
        for statement in filter(str.strip, (TEXTS / "schema.sql").read_text().split(";")):
            self.session.sql(statement)
        rows = 0
        for name in tpch.KEYS:
            folder = self.folder / "parquet" / name
            folder.mkdir(parents=True)
            for number, block in enumerate(gather_blocks(tpch.generate_blocks(name, self.scale))):
                pq.write_table(block, folder / f"{number}.parquet", compression="zstd", compression_level=1)
                self.session.write(name, block)
                rows += block.num_rows
            self.session.compact(name)
        return rows

    def measure_query(self, number: int, rounds: int) -> Build:
        """Measure one query; raises AssertionError where the view is not what Spark's batch run gives."""
        name = f"q{number:02}"
        text = (TEXTS / f"{name}.sql").read_text()
        (spark_text,) = sqlglot.transpile(text, read="postgres", write="spark")
        done = Build(name)
        for _ in range(rounds):
            measure_work(lambda: self.run_batch(spark_text, "parquet"), done.parquet)
            measure_work(lambda: self.run_batch(spark_text, "tideline"), done.stored)
            measure_work(lambda: self.build(name, text, done), done.view)
            self.compare(name)
            version = self.session.store.version
            tables = {step.table: version.tables[step.table].row_count for step in done.steps}
            done.rows = tables
            self.session.sql(f"DROP MATERIALIZED VIEW {name}")
        return done

    def build(self, name: str, text: str, done: Build) -> None:
        """Create the view and compute it."""
        self.executor.times, started = [], time.perf_counter()
        self.session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}", build=False)
        planned = time.perf_counter()
        self.session.flush([name]).raise_for_errors()
        built = time.perf_counter()
        if built - started < done.planning + done.building:
            done.planning, done.building, done.steps = planned - started, built - planned, self.executor.times

    def run_batch(self, text: str, kind: str) -> None:
        """Run a query by Spark over all tables and write its result as Parquet."""
        spark, saved = self.session.spark, {}
        settings = BATCH_SETTINGS | {"spark.sql.shuffle.partitions": str(2 * self.executor.parallelism)}
        try:
            for key, value in settings.items():
                saved[key] = spark.conf.get(key)
                spark.conf.set(key, value)
            for name in tpch.KEYS:
                self.read_rows(spark, name, kind, text).createOrReplaceTempView(name)
            spark.sql(text).write.mode("overwrite").parquet(str(self.folder / f"result-{kind}"))
        finally:
            for key, value in saved.items():
                spark.conf.set(key, str(value))
            for name in tpch.KEYS:
                spark.catalog.dropTempView(name)

    def read_rows(self, spark: SparkSession, name: str, kind: str, text: str) -> DataFrame:
        """Return a table's rows; of the store's just the columns that the query names, since Spark does not push that down."""
        if kind == "parquet":
            return spark.read.parquet(str(self.folder / "parquet" / name))
        version = self.session.store.version.tables[name]
        used = [c for c in version.schema.names if c in text] or list(version.primary_key)
        source = spark.read.format("tideline").option("store", self.session.url)
        return source.option("columns", ", ".join(used)).load(name)

    def compare(self, name: str) -> None:
        """Compare a view's rows with those that Spark's batch run has written."""
        expected = pq.read_table(self.folder / "result-tideline").to_pylist()
        found = self.session.sql(f"SELECT * FROM {name}")
        assert found is not None

        def count_rows(rows: list[dict[str, object]]) -> Counter[tuple[object, ...]]:
            return Counter(
                tuple(round(v, 6) if isinstance(v, float) else v for v in row.values()) for row in rows
            )

        one, two = count_rows(found.to_pylist()), count_rows(expected)
        if one != two:
            raise AssertionError(
                f"{name} differs from the batch run: {list((one - two).items())[:3]} instead of {list((two - one).items())[:3]}"
            )


def gather_blocks(blocks: Iterator[pa.Table], rows: int = 500_000) -> Iterator[pa.Table]:
    """Yield blocks put together to about `rows` each."""
    waiting: list[pa.Table] = []
    for block in blocks:
        waiting.append(block)
        if sum(some.num_rows for some in waiting) >= rows:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def measure_small_views(session: Session, rounds: int) -> Table:
    """Return the seconds of each of some views over tables of a few rows: the first round, and the least of the others."""
    session.sql("CREATE TABLE few (id bigint primary key, g bigint, d decimal(15, 2))")
    session.sql("CREATE TABLE named (id bigint primary key, name text)")
    numbers = list(range(SMALL_ROWS))
    few = {"id": numbers, "g": [n % 4 for n in numbers], "d": pa.array(numbers, pa.int32())}
    session.write("few", pa.table(few))
    session.write("named", pa.table({"id": numbers, "name": [f"name {n}" for n in numbers]}))
    table = Table("small view", "first s", "then s", "limit", "processor s")
    slow = False
    for name, query in SMALL.items():
        first, then = LeastTimes(), LeastTimes()
        for spent in (first, *[then] * rounds):
            measure_work(lambda: session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}"), spent)  # noqa: B023
            session.sql(f"DROP MATERIALIZED VIEW {name}")
        slow = slow or then.seconds > SMALL_SECONDS
        table.add_row(name, *(f"{n:.2f}" for n in (first.seconds, then.seconds, SMALL_SECONDS, then.cpu)))
    table.caption = "too slow" if slow else None
    return table


def render_table(builds: list[Build]) -> Table:
    """Return what was measured as a table."""
    names = (
        "query",
        "build s",
        "of it indexes s",
        "batch + write s",
        "ratio",
        "limit",
        "over Parquet s",
        "ratio",
    )
    table = Table(*names, "processor s: build", "batch", "over Parquet")
    for one in builds:
        table.add_row(
            one.query,
            *(
                f"{n:.2f}"
                for n in (one.view.seconds, one.index_seconds, one.stored.seconds, one.ratio, LIMIT)
            ),
            *(f"{n:.2f}" for n in (one.parquet.seconds, one.view.seconds / one.parquet.seconds)),
            *(f"{n:.2f}" for n in (one.view.cpu, one.stored.cpu, one.parquet.cpu)),
        )
    return table


def main() -> None:
    """Print seconds and ratios; ends with 1 where a build takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 3, 17, 18])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--spark", default="local[2]")
    options = parser.parse_args()
    console = Console(width=160)
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
        Session((Path(folder) / "store").as_uri(), options.spark) as session,
    ):
        run = BuildRun(session, Path(folder), options.scale)
        session.sql("SELECT 1 + 1")
        small = measure_small_views(session, 1 + options.rounds)
        console.print(small)
        started = time.perf_counter()
        rows = run.load()
        console.print(
            f"scale {options.scale}: {rows:,} rows written in {time.perf_counter() - started:.0f} s"
        )
        builds = []
        for number in options.queries:
            builds.append(run.measure_query(number, options.rounds))
            console.print(
                f"{builds[-1].query}: {builds[-1].view.seconds:.2f} s, ratio {builds[-1].ratio:.2f}"
            )
            for line in builds[-1].format_lines():
                console.print(line, highlight=False)
    console.print(render_table(builds))
    sys.exit(1 if small.caption or any(one.ratio > LIMIT for one in builds) else 0)


if __name__ == "__main__":
    main()
