"""A project of fifteen views over seven tables, hour by hour, beside Spark's and DuckDB's batch of all of them.

`python -m benchmarks.project [--of shop | tpch | tpcds] [--scale 0.2] [--hours 10] [--changes 4859] [--seed 1] [--json FILE]
[--profile]`

`--of tpch` takes the 22 queries of TPC-H as one project instead, with 0.1 % of the rows changed an hour. `--of tpcds` does so
with those of TPC-DS, whose texts are in a folder that the environment variable TPCDS names; scale 1, its default, is five million
rows. There a view that is refused or fails is told of, and the others go on.

An hour hands one batch of changes to every table and flushes once. Its seconds are those from the first row handed over to the
commit of the last view. Spark's batch runs in the same Spark over the same rows as Parquet, each view into Parquet, and later
views read that; a first batch, over the rows before the first hour, warms it up. After each hour every view is compared with the
batch, row by row; the batch computes decimals exactly, too. Floats may differ by 1e-9 of their value, and the last rows under a
LIMIT by which of equal rows they are. The first hour builds and compiles what the others run again: medians
are of the others. `--profile` prints what each fragment of the last hour took. Exit status 1: a view differs, or at the default
scale a bound does not hold; 2: TPC-DS has no texts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.epoch_cases import TableChange
from benchmarks.epoch_peers import open_session
from benchmarks.epochs import Requirement, judge
from benchmarks.first_rows import explain_other_rows
from benchmarks.many_views import measure_job_seconds
from benchmarks.processors import ProcessorSeconds, measure_processors
from benchmarks.shop import Shop
from benchmarks.task_times import TaskTime, TimingExecutor
from benchmarks.tpcds_hours import TpcdsHours
from benchmarks.tpcds_texts import MissingTexts
from benchmarks.tpch_hours import TpchHours
from engine.errors import TidelineError
from engine.runtime.epoch.report import FlushReport
from engine.runtime.executor import Place
from engine.runtime.spark.session import connect
from engine.session import Session
from engine.sql.incremental.rules import FullRefresh

SCALE, HOURS = 0.2, 10
FULL = FullRefresh().word
ROUNDED_TWICE = "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates"
"""Spark's rule that takes averages of short decimals by floating point: 4957.06 / 320 becomes 15.490812 and not 15.490813."""
console = Console(width=140 if not sys.stdout.isatty() else None)


@dataclass(frozen=True)
class HourCost:
    """One hour: its changed rows; seconds of writing and of the flush, and of the peers; what Spark did; processor seconds."""

    rows: int
    write: float
    flush: float
    fragments: tuple[TaskTime, ...]
    jobs: int
    in_jobs: float
    classes: int
    processors: ProcessorSeconds
    spark: float = 0.0
    duckdb: float = 0.0

    @property
    def seconds(self) -> float:
        """From the first row handed over to the last view."""
        return self.write + self.flush


class Workload(Protocol):
    """Tables that change from hour to hour, and the views over them, inputs before their readers."""

    ddl: Mapping[str, str]
    views: Mapping[str, str]

    def read(self, table: str) -> pa.Table:
        """Return a table's rows as they are now."""
        ...

    def generate_hour(self, changes: int) -> list[TableChange]:
        """Return the changes of the next hour, some `changes` rows together, and remember them."""
        ...


@dataclass(frozen=True)
class WorkloadBounds:
    """A project, and the demands on its hours at its default scale; None where there is none.

    Without `changes` an hour changes one row in a thousand. With `may_refuse` the others go on where a view is refused or fails.
    """

    generate: Callable[[float, int], Workload]
    changes: int | None
    times_spark: float
    most_seconds: float | None = None
    most_jobs: int | None = None
    times_each: float | None = None
    scale: float = SCALE
    may_refuse: bool = False


WORKLOADS = {
    "shop": WorkloadBounds(Shop, 4_859, 12.0, most_seconds=1.0, most_jobs=3),
    "tpch": WorkloadBounds(TpchHours, 1_732, 10.0, times_each=3.0),
    "tpcds": WorkloadBounds(TpcdsHours, None, 5.0, times_each=1.0, scale=1.0, may_refuse=True),
}


class ProjectBatch:
    """All views computed again, from the tables as Parquet, each into Parquet; views read what those before them wrote.

    With `may_refuse` those go on that a peer computes, and why it does not compute another one is kept.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        shop: Workload,
        views: Mapping[str, str] | None = None,
        may_refuse: bool = False,
    ) -> None:
        self.spark, self.folder, self.shop = open_session(spark), folder, shop
        self.views, self.may_refuse = shop.views if views is None else views, may_refuse
        self.seconds: dict[str, float] = {}
        """What each view took Spark last time."""
        self.refused: dict[str, dict[str, str]] = {"Spark": {}, "DuckDB": {}}
        """Why a peer has not computed views last time."""
        self.spark.conf.set("spark.sql.optimizer.excludedRules", ROUNDED_TWICE)

    def write_tables(self) -> None:
        """Write the tables as they are now."""
        for table in self.shop.ddl:
            path = self.folder / table
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            rows = self.shop.read(table)
            for n in range(2):  # a file for each core
                half = -(-rows.num_rows // 2)
                pq.write_table(rows.slice(n * half, half), path / f"part-{n}.parquet")

    def measure_spark(self) -> float:
        """Compute all views by Spark."""
        for table in self.shop.ddl:
            self.spark.read.parquet(str(self.folder / table)).createOrReplaceTempView(table)
        self.seconds, refused = {}, self.refused["Spark"]
        refused.clear()
        started = time.perf_counter()
        for view, query in self.views.items():
            began = time.perf_counter()
            path = str(self.folder / view)
            try:
                self.spark.sql(query).write.mode("overwrite").parquet(path)
                self.spark.read.parquet(path).createOrReplaceTempView(view)
            except PySparkException as error:
                if not self.may_refuse:
                    raise
                refused[view] = shorten(error)
                continue
            self.seconds[view] = time.perf_counter() - began
        return time.perf_counter() - started

    def measure_duckdb(self) -> float:
        """Compute all views by DuckDB, on two threads."""
        texts = {
            view: sqlglot.transpile(query, read="spark", write="duckdb")[0]
            for view, query in self.views.items()
        }
        refused = self.refused["DuckDB"]
        refused.clear()
        with duckdb.connect(config={"threads": 2}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for table in self.shop.ddl:
                connection.execute(
                    f"CREATE VIEW {table} AS FROM read_parquet('{self.folder / table}/*.parquet')"
                )
            started = time.perf_counter()
            for view, text in texts.items():
                path = self.folder / f"{view}-duckdb.parquet"
                try:
                    connection.execute(f"COPY ({text}) TO '{path}' (FORMAT parquet)")
                    connection.execute(f"CREATE VIEW {view} AS FROM read_parquet('{path}')")
                except duckdb.Error as error:
                    if not self.may_refuse:
                        raise
                    refused[view] = shorten(error)
            return time.perf_counter() - started

    def read(self, view: str) -> pa.Table:
        """Return what Spark's last batch wrote for a view."""
        return pq.read_table(self.folder / view)

    def list_empty(self) -> list[str]:
        """Return the views without a row, or with nothing in their rows but NULL and 0."""
        nothing = (None, 0)
        return [
            view
            for view in self.seconds
            if all(
                value in nothing
                for column in self.read(view).columns
                for value in column.unique().to_pylist()
            )
        ]


class Project:
    """A store with the tables and views of a workload.

    With `may_refuse` a view that is refused or fails leaves `views`, and `refused` tells why.
    """

    def __init__(
        self,
        session: Session,
        shop: Workload,
        views: Mapping[str, str] | None = None,
        may_refuse: bool = False,
    ) -> None:
        self.session, self.shop, self.may_refuse = session, shop, may_refuse
        self.views = dict(shop.views if views is None else views)
        self.refused: dict[str, str] = {}
        self.tied: set[str] = set()
        """Views that have shown other rows than the batch, but such as come as early in the order."""
        self.other_types: dict[str, str] = {}
        """Views with whole numbers of another width than the batch's."""
        self.whole: list[str] = []
        """Views that are computed as a whole, each hour."""
        self.executor = TimingExecutor.install(session)

    def load_tables(self) -> float:
        """Write the rows before the first hour; return the seconds."""
        started = time.perf_counter()
        for table, ddl in self.shop.ddl.items():
            self.session.sql(ddl)
            self.session.write(table, self.shop.read(table), mode="insert")
        return time.perf_counter() - started

    def create_views(self) -> float:
        """Create the views with their first content; return the seconds."""
        started = time.perf_counter()
        for view, query in list(self.views.items()):
            try:
                self.session.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}", build=False)
            except TidelineError as error:
                if not self.may_refuse:
                    raise
                self.refused[view] = shorten(error)
                del self.views[view]
        self.executor.times.clear()
        self._settle(self.session.flush())
        self.whole = [
            view
            for view in self.views
            if any(each.rule == FULL for each in select_fragments(view, self.executor.times))
        ]
        return time.perf_counter() - started

    def _settle(self, report: FlushReport) -> None:
        """Let go of views that have failed, if the others are to go on."""
        if not self.may_refuse:
            report.raise_for_errors()
        for failed in report.failed:
            self.refused[failed.view] = shorten(failed.error or "")
            self.session.sql(f"DROP MATERIALIZED VIEW {failed.view}")
            del self.views[failed.view]

    def run_hour(self, change: Sequence[TableChange]) -> HourCost:
        """Hand an hour's changes over and bring all views up to date."""
        spark = self.session.computing
        self.executor.times.clear()
        classes, before, began = count_classes(spark), measure_processors(), time.time()
        started = time.perf_counter()
        for each in change:
            self.session.write(each.table, each.rows, mode=each.mode)
        written = time.perf_counter()
        report = self.session.flush()
        ended = time.perf_counter()
        self._settle(report)
        spent = measure_processors() - before
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
        in_jobs, jobs = measure_job_seconds(spark, began)
        return HourCost(
            sum(each.rows.num_rows for each in change),
            written - started,
            ended - written,
            tuple(self.executor.times),
            jobs,
            in_jobs,
            count_classes(spark) - classes,
            spent,
        )

    def find_differences(self, batch: ProjectBatch) -> list[str]:
        """Return the views that are not what the batch has computed."""
        found = []
        for view, query in self.views.items():
            if view not in batch.seconds:
                continue
            expected = batch.read(view)
            names = expected.column_names
            stored = self.session.sql(f"SELECT * FROM {view}")
            assert stored is not None
            stored = stored.rename_columns(names)  # Spark names what has no name in another way
            if self.may_refuse:
                own, stored = stored.schema, fit_integers(stored, expected.schema)
                if own.types != stored.schema.types:
                    pairs = zip(own, stored.schema, strict=True)
                    self.other_types[view] = ", ".join(
                        f"{mine.name} is {mine.type}, Spark's {other.type}"
                        for mine, other in pairs
                        if mine.type != other.type
                    )
            if is_same_bag(stored, expected) or is_close_bag(stored, expected):
                continue
            if stored.schema.types != expected.schema.types:
                found.append(f"{view}: other types, {stored.schema.types}, not {expected.schema.types}")
                continue
            why = explain_other_rows(batch.spark, query, stored)
            if why is None:
                self.tied.add(view)
            else:
                found.append(f"{view}: {stored.num_rows:,} rows, {expected.num_rows:,} in the batch: {why}")
        return found


def fit_integers(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return rows with whole numbers as wide as those of a schema with as many columns."""
    kinds = zip(rows.schema, wanted.types, strict=True)
    return rows.cast(
        pa.schema(
            [
                field.with_type(kind)
                if pa.types.is_integer(kind) and pa.types.is_integer(field.type)
                else field
                for field, kind in kinds
            ]
        )
    )


def is_same_bag(found: pa.Table, expected: pa.Table) -> bool:
    """Tell whether two tables hold the same rows, each as often: values and types, decimals to the last digit."""
    if found.schema.types != expected.schema.types or found.num_rows != expected.num_rows:
        return False
    order = [(column, "ascending") for column in expected.column_names]
    one, other = (rows.sort_by(order).combine_chunks() for rows in (found, expected))
    return all(one.column(name).equals(other.column(name)) for name in expected.column_names)


def is_close_bag(found: pa.Table, expected: pa.Table) -> bool:
    """Tell whether two tables hold the same rows but for floats that differ by 1e-9 of their value."""
    floats = [field.name for field in expected.schema if pa.types.is_floating(field.type)]
    if not floats or found.schema.types != expected.schema.types or found.num_rows != expected.num_rows:
        return False
    exact = [name for name in expected.column_names if name not in floats]
    order = [(name, "ascending") for name in (*exact, *floats)]
    one, other = (rows.sort_by(order).combine_chunks() for rows in (found, expected))
    return all(one.column(name).equals(other.column(name)) for name in exact) and all(
        one.column(name).is_null().equals(other.column(name).is_null())
        and np.allclose(
            *(_fill(rows.column(name)) for rows in (one, other)), rtol=1e-9, atol=0, equal_nan=True
        )
        for name in floats
    )


def _fill(values: pa.ChunkedArray) -> np.ndarray:
    return pc.fill_null(values, 0.0).to_numpy()


def shorten(error: Exception | str) -> str:
    """Return the beginning of a message, in one line."""
    return " ".join(str(error).split())[:300]


def select_fragments(view: str, times: Iterable[TaskTime]) -> list[TaskTime]:
    """Return what the fragments of a view took."""
    return [each for each in times if each.table == view or each.table.startswith(f"_state_{view}_")]


def count_classes(spark: SparkSession) -> int:
    """Return how many classes Spark has generated and compiled in this process."""
    metrics: Any = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics  # type: ignore[union-attr]
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def run_hours(
    project: Project, batch: ProjectBatch, hours: int, changes: int
) -> tuple[list[HourCost], list[str]]:
    """Run hour after hour, ours and the batches; return what each took, and the views that differ."""
    costs: list[HourCost] = []
    wrong: list[str] = []
    for number in range(1, hours + 1):
        cost = project.run_hour(project.shop.generate_hour(changes))
        batch.write_tables()
        spark, duck = batch.measure_spark(), batch.measure_duckdb()
        costs.append(HourCost(**{**vars(cost), "spark": spark, "duckdb": duck}))
        differences = project.find_differences(batch)
        wrong += [f"hour {number}, {difference}" for difference in differences]
        equal = len(set(project.views) & set(batch.seconds)) - len(differences)
        console.print(
            f"  hour {number}: {costs[-1].seconds:.2f} s, Spark {spark:.2f} s, DuckDB {duck:.2f} s; {equal} views equal",
            highlight=False,
        )
    return costs, wrong


def show(costs: Sequence[HourCost]) -> None:
    """Print what each hour took, and the medians of all but the first."""
    title = (
        "processor seconds by Java, driver and Python workers; beside a peer's seconds how many times ours"
    )
    head = ("hour", "rows", "seconds", "write", "flush", "fragments", "jobs", "in jobs", "classes")
    table = Table(*head, "java", "driver", "workers", "Spark s", "DuckDB s", title=title)
    for column in table.columns:
        column.justify = "right"
    for number, cost in enumerate(costs, 1):
        table.add_row(str(number), *_list_cells([cost]))
    table.add_section()
    table.add_row("median", *_list_cells(list_warm_hours(costs)))
    console.print(table)


def list_warm_hours(costs: Sequence[HourCost]) -> Sequence[HourCost]:
    """Return the hours that run what an hour before has built."""
    return costs[1:] or costs


def _list_cells(costs: Sequence[HourCost]) -> Iterable[str]:
    def median(values: Iterable[float]) -> float:
        return statistics.median(values)

    seconds = median(cost.seconds for cost in costs)
    yield f"{median(cost.rows for cost in costs):,.0f}"
    yield f"{seconds:.2f}"
    yield f"{median(cost.write for cost in costs):.2f}"
    yield f"{median(cost.flush for cost in costs):.2f}"
    yield f"{median(len(cost.fragments) for cost in costs):.0f}"
    yield f"{median(cost.jobs for cost in costs):.0f}"
    yield f"{median(cost.in_jobs for cost in costs):.2f}"
    yield f"{median(cost.classes for cost in costs):.0f}"
    yield f"{median(cost.processors.java for cost in costs):.2f}"
    yield f"{median(cost.processors.driver for cost in costs):.2f}"
    yield f"{median(cost.processors.workers for cost in costs):.2f}"
    for peer in (median(cost.spark for cost in costs), median(cost.duckdb for cost in costs)):
        yield f"{peer:.2f} ({peer / seconds:.1f} x)"


def show_fragments(times: Sequence[TaskTime]) -> None:
    """Print what each fragment of an hour took, the dearest first."""
    table = Table("fragment", "rows in", "seconds", "by stage", title="fragments of the last hour")
    for each in sorted(times, key=lambda one: -one.seconds):
        stages = ", ".join(f"{stage} {spent:.3f}" for stage, spent in each.stages.items())
        table.add_row(each.table, f"{each.rows:,}", f"{each.seconds:.3f}", stages)
    console.print(table)


def show_places(costs: Sequence[HourCost]) -> None:
    """Print how many fragments were computed where, an hour, and why not in the shared action."""
    warm = list_warm_hours(costs)
    ways = [each.way for cost in warm for each in cost.fragments if each.way is not None]
    found = [way for way in ways if way.place is not Place.NOWHERE]
    table = Table("where", "fragments an hour", "share", "why", title="where fragments were computed")
    for place, count in Counter(way.place for way in found).most_common():
        reasons = Counter(way.reason for way in found if way.place is place and way.reason)
        why = "; ".join(f"{reason} ({times})" for reason, times in reasons.most_common(6))
        table.add_row(place, f"{count / len(warm):.1f}", f"{count / len(found):.1%}", why)
    console.print(table)


def show_views(costs: Sequence[HourCost], batch: Mapping[str, float]) -> dict[str, float]:
    """Print the seconds of each view's fragments beside Spark's batch of it; return how many times each is as fast."""
    warm, times = list_warm_hours(costs), {}
    table = Table(
        "view", "seconds", "Spark s", "times", title="the median hour by view: seconds of its fragments"
    )
    for view, spark in sorted(batch.items()):
        own = [sum(each.computing for each in select_fragments(view, cost.fragments)) for cost in warm]
        seconds = max(statistics.median(own), 0.001)
        times[view] = spark / seconds
        table.add_row(view, f"{seconds:.3f}", f"{spark:.3f}", f"{times[view]:.1f} x")
    console.print(table)
    return times


def find_dearest(project: Project, views: int = 5) -> str:
    """Return the views that took longest at the last run, with the seconds of their fragments."""
    spent = {
        view: sum(each.seconds for each in select_fragments(view, project.executor.times))
        for view in project.views
    }
    dearest = sorted(spent, key=lambda view: -spent[view])[:views]
    return ", ".join(f"{view} {spent[view]:.1f}" for view in dearest)


def show_slowest(costs: Sequence[HourCost], by_view: Mapping[str, float], views: int = 10) -> None:
    """Print of the views that gain least over Spark's batch what their fragments took in the last hour, where and why there."""
    table = Table("view", "times", "fragments of the last hour, the dearest first", title="the slowest views")
    for view in sorted(by_view, key=lambda view: by_view[view])[:views]:
        found = sorted(select_fragments(view, costs[-1].fragments), key=lambda each: -each.computing)
        dear = [each for each in found if each.computing >= 0.02] or found[:1]
        lines = [f"{each.table} {each.computing:.2f} s, {each.rule}, {each.way}" for each in dear[:6]]
        table.add_row(view, f"{by_view[view]:.1f} x", "\n".join(lines))
    console.print(table)


def show_refused(project: Project, batch: ProjectBatch) -> None:
    """Print how many views are accepted and kept incrementally, and why the others are not, or what a peer does not compute."""
    every = len(project.views) + len(project.refused)
    console.print(
        f"{every} queries: {len(project.views)} accepted, {len(project.views) - len(project.whole)} kept incrementally, "
        f"{len(project.refused)} refused or failed; under a LIMIT {len(project.tied)} have shown others of equal rows",
        highlight=False,
    )
    reasons = [
        ("as a whole", dict.fromkeys(project.whole, "rule full")),
        ("refused", project.refused),
        ("other types", project.other_types),
    ]
    for who, refused in (*reasons, *batch.refused.items()):
        for view, reason in refused.items():
            console.print(f"  {who}, {view}: {reason}", highlight=False, markup=False)


def list_bounds(
    costs: Sequence[HourCost], wrong: Sequence[str], bounds: WorkloadBounds, by_view: Mapping[str, float]
) -> list[Requirement]:
    """Return the demands on the hours, given how many times as fast as Spark's batch each view is."""
    warm = list_warm_hours(costs)
    seconds = statistics.median(cost.seconds for cost in warm)
    spark = statistics.median(cost.spark for cost in warm)
    most = {"jobs": max(cost.jobs for cost in warm), "classes": max(cost.classes for cost in warm)}
    found = [Requirement("faster than Spark's batch", spark / seconds, bounds.times_spark)]
    if bounds.most_seconds is not None:
        found.append(Requirement("seconds an hour", seconds, bounds.most_seconds, at_most=True))
    if bounds.most_jobs is not None:
        found.append(Requirement("Spark jobs an hour", most["jobs"], bounds.most_jobs, at_most=True))
    if bounds.times_each is not None:
        found.append(Requirement("the slowest view beside Spark's", min(by_view.values()), bounds.times_each))
    return [
        *found,
        Requirement("classes compiled an hour", most["classes"], 0, at_most=True),
        Requirement("views that differ from the batch", len(wrong), 0, at_most=True),
    ]


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", choices=sorted(WORKLOADS), default="shop")
    parser.add_argument(
        "--scale",
        type=float,
        help=f"1 has 1.5 million lines of orders, of TPC-DS 5 million rows; {SCALE} if not said, of TPC-DS 1",
    )
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument("--changes", type=int, help="changed rows an hour, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for the hours' numbers")
    parser.add_argument("--profile", action="store_true", help="what each fragment of the last hour took")
    return parser.parse_args()


def main() -> int:
    """Load, create, run the hours, print; return the exit status."""
    options = parse_arguments()
    bounds = WORKLOADS[options.of]
    scale = options.scale or bounds.scale
    try:
        shop = bounds.generate(scale, options.seed)
    except MissingTexts as error:
        console.print(str(error), highlight=False)
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
        Session((Path(folder) / "store").as_uri(), connect("local[2]"), backfill_rows=sys.maxsize) as session,
    ):
        project = Project(session, shop, may_refuse=bounds.may_refuse)
        batch = ProjectBatch(
            session.computing, Path(folder) / "batch", shop, project.views, bounds.may_refuse
        )
        loaded, created = project.load_tables(), project.create_views()
        dearest = find_dearest(project)
        batch.write_tables()
        cold = batch.measure_spark()
        rows = sum(shop.read(table).num_rows for table in shop.ddl)
        console.print(
            f"scale {scale:g}: {rows:,} rows in {len(shop.ddl)} tables loaded "
            f"in {loaded:.1f} s, {len(project.views)} views created in {created:.1f} s; Spark's first batch {cold:.1f} s",
            highlight=False,
        )
        console.print(f"the dearest to create, in seconds of their fragments: {dearest}", highlight=False)
        empty = batch.list_empty()
        console.print(
            f"{len(batch.seconds) - len(empty)} of {len(batch.seconds)} views give rows; without: {', '.join(empty) or 'none'}",
            highlight=False,
        )
        wrong = [f"before the hours, {difference}" for difference in project.find_differences(batch)]
        costs, later = run_hours(
            project, batch, options.hours, options.changes or bounds.changes or rows // 1_000
        )
        wrong += later
    show(costs)
    show_places(costs)
    by_view = show_views(costs, batch.seconds)
    if bounds.may_refuse:
        show_slowest(costs, by_view)
        show_refused(project, batch)
    if options.profile:
        show_fragments(costs[-1].fragments)
    for difference in wrong:
        console.print(f"[bold red]{difference}[/]")
    if options.json is not None:
        found = {
            "loaded": loaded,
            "created": created,
            "refused": project.refused,
            "times": by_view,
            "wrong": wrong,
            "hours": [asdict(cost) for cost in costs],
        }
        options.json.write_text(json.dumps(found, indent=1))
    is_met = judge(list_bounds(costs, wrong, bounds, by_view))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(f"two cores of this machine ({os.cpu_count()}), load average {load}", highlight=False)
    return 0 if not wrong and (is_met or scale != bounds.scale) else 1


if __name__ == "__main__":
    sys.exit(main())
