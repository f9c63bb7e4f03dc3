"""Driver time of one epoch of many small views, each in a domain of its own, over a few tables.

`python -m benchmarks.many_views [--views 300] [--tables 5] [--rows 1000] [--changes 100] [--epochs 3] [--profile]`

Driver time is what an epoch costs beside Spark's own work. Two measures are printed, each divided by the number of views: the
processor seconds of the driver's Python process (frontiers, catalog, plans, commits, reports; all threads), and the wall
seconds of the epoch in which no Spark job was running, so Spark's own analysis of the plans and all waits for the store, too.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from engine.runtime.spark.session import connect
from engine.session import FlushReport, Session

BUDGET_SECONDS = 0.060
QUERIES = (
    "SELECT id, x * {n} AS v FROM {t} WHERE x % 5 <> {r}",
    "SELECT g, count(*) AS n, sum(x) AS s FROM {t} WHERE id % {n} <> 1 GROUP BY g",
    "SELECT count(*) AS n, sum(x + {n}) AS s FROM {t}",
    "SELECT a.id, a.x, b.x AS y FROM {t} a JOIN {u} b ON a.g = b.id WHERE a.x <> {n}",
    "SELECT g, max(x) AS high, min(x) AS low FROM {t} WHERE x > {r} GROUP BY g",
)


@dataclass(frozen=True)
class EpochCost:
    """One epoch of all views: wall seconds, those in which a Spark job ran, and processor seconds of the driver's Python."""

    wall: float
    in_jobs: float
    python: float
    jobs: int
    report: FlushReport

    @property
    def outside(self) -> float:
        """The wall seconds in which no Spark job was running."""
        return max(0.0, self.wall - self.in_jobs)


def build_queries(views: int, tables: int) -> dict[str, str]:
    """Return the queries by the names of their views."""
    found = {}
    for n in range(views):
        t, u = f"t{n % tables}", f"t{(n + 1) % tables}"
        found[f"v{n:03d}"] = QUERIES[n // tables % len(QUERIES)].format(t=t, u=u, n=n % 7 + 2, r=n % 3)
    return found


def make_rows(ids: Iterable[int], chance: random.Random, keys: int) -> pa.Table:
    """Return rows with the given ids."""
    rows = [(i, chance.randrange(keys), chance.randrange(1000)) for i in ids]
    return pa.table(
        {c: pa.array([row[k] for row in rows], pa.int64()) for k, c in enumerate(("id", "g", "x"))}
    )


def measure_job_seconds(spark: SparkSession, since: float) -> tuple[float, int]:
    """Return the wall seconds since a moment in which a Spark job was running, and the number of jobs, from Spark's log."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)  # type: ignore[union-attr]
    spans = []
    for n in range(jobs.size()):
        job = jobs.apply(n)
        start, end = job.submissionTime(), job.completionTime()
        if start.isDefined() and end.isDefined() and start.get().getTime() / 1000 >= since:
            spans.append((start.get().getTime() / 1000, end.get().getTime() / 1000))
    total, reached = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total, len(spans)


def run_epoch(session: Session, names: list[str], changes: int, keys: int, seed: int) -> EpochCost:
    """Change every table, and bring all views up to date."""
    chance = random.Random(seed)
    for name in names:
        session.write(name, make_rows(chance.sample(range(keys * 2), changes), chance, keys))
    assert session.spark is not None
    began, started, python = time.time(), time.perf_counter(), time.process_time()
    report = session.flush()
    wall, python = time.perf_counter() - started, time.process_time() - python
    report.raise_for_errors()
    in_jobs, jobs = measure_job_seconds(session.spark, began)
    return EpochCost(wall, in_jobs, python, jobs, report)


def find_starved(session: Session, report: FlushReport, views: Iterable[str]) -> list[str]:
    """Return the views that an epoch has left behind."""
    done = {view.view for view in report.views if view.error is None and view.waits_for is None}
    return sorted((set(views) - done) | set(session.lagging()))


def profile_epoch(session: Session, names: list[str], changes: int, keys: int, seed: int) -> None:
    """Print where the driver's threads spend their time in one epoch."""
    profiles: list[cProfile.Profile] = []
    run = threading.Thread.run

    def run_profiled(thread: threading.Thread) -> None:
        profile = cProfile.Profile()
        profiles.append(profile)
        profile.runcall(run, thread)

    threading.Thread.run = run_profiled  # type: ignore[method-assign]
    try:
        own = cProfile.Profile()
        own.runcall(run_epoch, session, names, changes, keys, seed)
    finally:
        threading.Thread.run = run  # type: ignore[method-assign]
    stats = pstats.Stats(own, stream=sys.stdout)
    for profile in profiles:
        profile.create_stats()
        if profile.stats:  # type: ignore[attr-defined]
            stats.add(profile)
    stats.sort_stats("tottime").print_stats(45)
    stats.sort_stats("cumulative").print_stats(70)


def main() -> None:
    """Create the views, run the epochs, print their costs; ends with 1 where the budget is broken or a view starves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=300)
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="one more epoch under a profiler")
    options = parser.parse_args()
    console = Console(width=120)
    spark = connect("local[2]")
    tables = [f"t{n}" for n in range(options.tables)]
    queries = build_queries(options.views, options.tables)
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
        Session((Path(folder) / "store").as_uri(), spark) as session,
    ):
        chance = random.Random(1)
        for name in tables:
            session.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
            session.write(name, make_rows(range(options.rows), chance, options.rows))
        started = time.perf_counter()
        for name, text in queries.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}", build=False)
        created = time.perf_counter() - started
        session.flush().raise_for_errors()
        console.print(
            f"{options.views} views created in {created:.1f} s, built in {time.perf_counter() - started - created:.1f} s"
        )
        table = Table(
            "epoch", "wall s", "in jobs s", "jobs", "outside jobs ms/view", "driver CPU ms/view", "starved"
        )
        epochs, left = [], []
        for n in range(options.epochs + 1):
            epoch = run_epoch(session, tables, options.changes, options.rows, n + 2)
            behind = find_starved(session, epoch.report, queries)
            left += behind
            per = 1000 / options.views
            name = f"{n}" if n else "warm-up"
            table.add_row(
                name,
                f"{epoch.wall:.1f}",
                f"{epoch.in_jobs:.1f}",
                str(epoch.jobs),
                f"{epoch.outside * per:.1f}",
                f"{epoch.python * per:.1f}",
                str(len(behind)),
            )
            epochs += [epoch] if n else []
        console.print(table)
        outside = statistics.median(epoch.outside for epoch in epochs) / options.views
        python = statistics.median(epoch.python for epoch in epochs) / options.views
        stages: dict[str, float] = {}
        for view in epochs[-1].report.views:
            for stage, seconds in view.stages.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
        stage_times = ", ".join(
            f"{stage} {1000 * spent / options.views:.0f} ms" for stage, spent in stages.items()
        )
        console.print(f"stages of a view, wall clock of its thread: {stage_times}")
        console.print(
            f"driver time a view: {1000 * python:.1f} ms of processor, {1000 * outside:.1f} ms of wall clock outside "
            f"Spark's jobs (budget {1000 * BUDGET_SECONDS:.0f} ms); {len(left)} views starved"
        )
        if options.profile:
            profile_epoch(session, tables, options.changes, options.rows, 99)
        broken = left or max(outside, python) > BUDGET_SECONDS
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
