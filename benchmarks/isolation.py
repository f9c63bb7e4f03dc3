"""One failing view among others: three views in a chain and one beside them, the middle one fails for many epochs.

`python -m benchmarks.isolation [--epochs 20] [--rows 20000] [--changes 500]`

Measured: the epoch times of the upstream view and of the unrelated one while the middle one fails, and in health: one half
before, the other half after, so that neither is measured in a warmer process (median, limit 1.2 x). Checked: what queries under
`global` and `consistent` return meanwhile, against a batch run over the rows of that epoch; and that after the cause is gone
each view that lagged catches up in one range.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from engine.meta.epochs.frontier import compute_frontiers
from engine.meta.epochs.query_policy import choose_epochs
from engine.runtime.executor import Executor, FragmentTask, TaskResult
from engine.runtime.spark.session import connect
from engine.session import FlushReport, Session

LIMIT = 1.2
BAD = 0
"""A divisor that no row has until the cause comes in."""
VIEWS = {
    "upstream": "SELECT g, count(*) AS n, sum(x) AS s, sum(d) AS d FROM item GROUP BY g",
    "middle": "SELECT g, n, s, CAST(1000 * s AS BIGINT) DIV d AS share FROM upstream",
    "downstream": "SELECT n, count(*) AS groups, sum(share) AS shares FROM middle GROUP BY n",
    "unrelated": "SELECT g, count(*) AS n, max(x) AS high, sum(x) AS s FROM other GROUP BY g",
}
WATCHED = ("upstream", "unrelated")
POISONED = 999_999
"""The group whose divisors add up to zero."""
Rows = dict[int, tuple[int, int, int]]


class Mismatch(AssertionError):
    """A query or a view is not what its definition says."""


class CountingExecutor:
    """Passes tasks on, and keeps (table, old, new) of each."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.tasks: list[tuple[str, int | None, int]] = []

    @property
    def parallelism(self) -> int:
        """That of the executor behind."""
        return self.inner.parallelism

    def compute(self, task: FragmentTask) -> TaskResult:
        """Compute a task and take note of it."""
        done = self.inner.compute(task)
        self.tasks.append((task.fragment.table, task.old, task.new))
        return done


@dataclass
class IsolationResult:
    """Epoch seconds of the watched views in health and while the middle one fails, and the ranges that caught up."""

    healthy: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in WATCHED})
    failing: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in WATCHED})
    ranges: list[tuple[str, int | None, int]] = field(default_factory=list)
    attempts: int = 0

    def compute_ratio(self, view: str) -> float:
        """The median epoch time while the middle view fails, over that in health."""
        return statistics.median(self.failing[view]) / statistics.median(self.healthy[view])


class Stream:
    """Seeded changes of two tables, and the rows of `item` as they were at each epoch."""

    def __init__(self, session: Session, rows: int, changes: int) -> None:
        self.session, self.rows, self.changes = session, rows, changes
        self.chance = random.Random(rows)
        self.item: Rows = {}
        self.past: dict[int, Rows] = {}
        for table in ("item", "other"):
            session.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT, d BIGINT)")
        self.write(rows)

    def write(self, changes: int | None = None, poison: bool | None = None) -> None:
        """Change both tables; `poison` brings the row that the middle view cannot compute, or takes it away."""
        ids = (
            list(range(changes))
            if changes
            else self.chance.sample(range(self.rows + self.rows // 10), self.changes)
        )
        found = {i: (i % (self.rows // 20), self.chance.randrange(1000), 1 + i % 3) for i in ids}
        self.session.write("other", _build_table(found))
        if poison:
            found[-1] = (POISONED, 1, BAD)
        elif poison is False:
            found[-1] = (POISONED, 1, 1)
        epoch = self.session.write("item", _build_table(found))
        self.item = {**self.item, **found}
        self.past[epoch] = self.item

    def get_rows(self, epoch: int) -> Rows:
        """Return the rows of `item` at an epoch."""
        return self.past[max(known for known in self.past if known <= epoch)]


def _build_table(rows: Rows) -> pa.Table:
    columns = list(zip(*((i, *values) for i, values in rows.items()), strict=True))
    return pa.table({c: pa.array(columns[k], pa.int64()) for k, c in enumerate(("id", "g", "x", "d"))})


def compute_expected(rows: Rows, view: str) -> Counter[tuple[int, ...]]:
    """Return the rows of a view of the chain, computed from all rows of `item`."""
    groups: dict[int, list[int]] = {}
    for g, x, d in rows.values():
        entry = groups.setdefault(g, [0, 0, 0])
        entry[0], entry[1], entry[2] = entry[0] + 1, entry[1] + x, entry[2] + d
    if view == "upstream":
        return Counter((g, *entry) for g, entry in groups.items())
    middle = {g: (n, s, 1000 * s // d) for g, (n, s, d) in groups.items()}
    if view == "middle":
        return Counter((g, *entry) for g, entry in middle.items())
    below: dict[int, list[int]] = {}
    for n, _, share in middle.values():
        entry = below.setdefault(n, [0, 0])
        entry[0], entry[1] = entry[0] + 1, entry[1] + share
    return Counter((n, *entry) for n, entry in below.items())


def check_queries(session: Session, stream: Stream, failing: bool) -> None:
    """Compare queries with their definitions: `consistent` takes the least frontier of its tables, `global` that of all views."""
    stored = session.stored
    version = session.store.version
    known = compute_frontiers(version, stored.order, stored.inputs)
    fronts = {name: known[name].frontier or 0 for name in VIEWS}
    if failing and not fronts["middle"] < fronts["upstream"]:
        raise Mismatch("the middle view does not lag though it fails")
    for policy, tables in (
        ("global", ("upstream",)),
        ("consistent", ("upstream",)),
        ("consistent", ("middle",)),
        ("consistent", ("downstream",)),
        ("consistent", ("upstream", "middle")),
    ):
        epochs = choose_epochs(version, stored, tables, policy)
        least = min(fronts[name] for name in (VIEWS if policy == "global" else tables))
        if set(epochs.values()) != {least}:
            raise Mismatch(f"{policy} over {tables} reads {epochs}, the least frontier is {least}")
        for name in tables:
            result = session.sql(f"SELECT * FROM {name}", policy=policy if len(tables) == 1 else str(least))
            assert result is not None
            rows = Counter(zip(*(column.to_pylist() for column in result.columns), strict=True))
            if rows != compute_expected(stream.get_rows(least), name):
                raise Mismatch(f"{name} under {policy} is not its query over the rows at epoch {least}")


def measure(session: Session, epochs: int, rows: int, changes: int) -> IsolationResult:
    """Run the chain: half of `epochs` in health, all with the middle view failing, the recovery, the other half in health."""
    executor = CountingExecutor(session._runner.executor)
    session._runner.executor = session._runner.backfill.executor = executor
    stream = Stream(session, rows, changes)
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    session.flush().raise_for_errors()
    done = IsolationResult()
    for _ in range(3):
        _run_epoch(session, stream, None)
    for _ in range(epochs - epochs // 2):
        _record_seconds(done.healthy, _run_epoch(session, stream, None))
    check_queries(session, stream, failing=False)
    for n in range(epochs):
        report = _run_epoch(session, stream, True if n == 0 else None)
        _record_seconds(done.failing, report)
        done.attempts += report["middle"].error is not None
        for name in ("middle", "downstream"):
            if report[name].error is None and not report[name].waits_for:
                raise Mismatch(f"{name} neither fails nor says what it waits for")
        check_queries(session, stream, failing=True)
    stuck = {name: session.store.version.tables[name].committed_epoch for name in ("middle", "downstream")}
    stream.write(poison=False)
    executor.tasks.clear()
    session.flush().raise_for_errors()
    done.ranges = [task for task in executor.tasks if task[0] in stuck]
    now = {name: session.store.version.tables[name].committed_epoch for name in stuck}
    if sorted(done.ranges) != sorted((name, stuck[name], now[name]) for name in stuck):
        raise Mismatch(f"catching up took {done.ranges}, not one range a view from {stuck} to {now}")
    check_queries(session, stream, failing=False)
    if session.waits():
        raise Mismatch(f"something still waits: {session.waits()}")
    for _ in range(epochs // 2):
        _record_seconds(done.healthy, _run_epoch(session, stream, None))
    return done


def _run_epoch(session: Session, stream: Stream, poison: bool | None) -> FlushReport:
    stream.write(poison=poison)
    report = session.flush(eager=False)
    for name in WATCHED:
        if report[name].error is not None or report[name].skipped:
            raise Mismatch(f"{name} did not run: {report[name].error or report[name].waits_for}")
    return report


def _record_seconds(seconds: dict[str, list[float]], report: FlushReport) -> None:
    for name in WATCHED:
        seconds[name].append(report[name].seconds)


def main() -> None:
    """Print the epoch times and ratios; ends with 1 if a ratio is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--changes", type=int, default=500)
    options = parser.parse_args()
    console, spark = Console(width=120), connect("local[2]")
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
        Session((Path(folder) / "store").as_uri(), spark) as session,
    ):
        done = measure(session, options.epochs, options.rows, options.changes)
    table = Table("view", "epoch s in health (median)", "epoch s while middle fails", "ratio", "limit")
    for name in WATCHED:
        healthy, failing = statistics.median(done.healthy[name]), statistics.median(done.failing[name])
        table.add_row(name, f"{healthy:.3f}", f"{failing:.3f}", f"{done.compute_ratio(name):.2f}", f"{LIMIT}")
    console.print(table)
    ranges = ", ".join(f"{name} ({old}, {new}]" for name, old, new in done.ranges)
    console.print(
        f"middle failed for {options.epochs} epochs ({done.attempts} attempts, backing off); global and consistent reads were "
        f"right in each; caught up in one range a view: {ranges}"
    )
    sys.exit(1 if any(done.compute_ratio(name) > LIMIT for name in WATCHED) else 0)


if __name__ == "__main__":
    main()
