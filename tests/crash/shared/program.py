"""A program of one seed: writes, bad rows and their mending, runs of a session on Spark whose driver crashes now and then.

The store is a folder, which Spark's tasks open by its address; the driver reaches it through a store that ends its process for
good at one of its requests. At which moment of a run that is depends on threads, too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.errors import SqlError, TidelineError
from engine.hummock import Hummock
from engine.hummock.clock import system_clock
from engine.hummock.object_store import open_object_store
from engine.runtime.domains import failing_rows
from engine.runtime.epoch import shared_action, shared_schedule, spark_executor
from engine.runtime.epoch.report import FlushReport
from engine.runtime.executor import Place
from engine.session import Session
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore
from tests.crash.broken import Broken
from tests.crash.shared.judge import Judge, Tables
from tests.crash.shared.views import (
    FAILING,
    KEYS,
    KINDS,
    Drawer,
    Source,
    View,
    build_schema,
    build_table_ddl,
    draw_row,
)

NEVER = 1 << 30
CRASHES = 0.3
"""The share of runs in which the driver crashes."""
Row = dict[str, Any]


class NearStore(FaultyObjectStore):
    """A store that crashes, whose objects are files of this machine as far as the session knows."""

    def local_path(self, path: str) -> Path | None:
        """Return the file."""
        return self.inner.local_path(path)


@contextmanager
def choose_way(one_task: bool, *, splits: bool, names_rows: bool) -> Iterator[None]:
    """Have the fragments of a run computed in one action as far as they can be, or each by itself.

    If it `splits` the tasks of an action share them, however small they are. Without `names_rows` nobody searches for the rows
    that make views fail, which takes seconds.
    """
    least = shared_action.LEAST_FRAGMENTS if one_task else NEVER
    with (
        patch.object(failing_rows, "BUDGET_SECONDS", failing_rows.BUDGET_SECONDS if names_rows else -1.0),
        patch.object(shared_schedule, "ACTION_SECONDS", 0.0 if splits else shared_schedule.ACTION_SECONDS),
        patch.object(shared_action, "LEAST_FRAGMENTS", least),
        patch.object(spark_executor, "LEAST_FRAGMENTS", least),
    ):
        yield


class SharedProgram:
    """One seed over a folder; `trace` tells what was done, `shared` and `alone` how many fragments each way has computed."""

    def __init__(self, seed: int, folder: Path, spark: SparkSession, *, one_task: bool) -> None:
        self.seed, self.spark, self.one_task = seed, spark, one_task
        self.random = random.Random(seed)
        self.url = (folder / "store").as_uri()
        self.trace: list[str] = []
        self.shared = self.alone = self.crashes = self.runs = 0
        self._requests = 60
        self._drawer = Drawer(self.random)
        self._drawer.draw_tables()
        self._drawer.draw_views()
        self.tables: list[Source] = self._drawer.tables
        self.views: list[View] = []
        self.rows: dict[str, dict[int, Row]] = {table.name: {} for table in self.tables}
        self._is_near = self.random.random() < 0.5
        self._begins_empty = self.random.random() < 0.75
        self._names_rows = self.random.random() < 0.1
        self._splits = self.random.random() < 0.5

    def run(self) -> None:
        """Do the steps; raises Broken with the line that replays the seed."""
        try:
            with choose_way(self.one_task, splits=self._splits, names_rows=self._names_rows):
                self._run_steps()
        except Exception as error:
            way, last_steps = "on" if self.one_task else "off", "\n".join(self.trace[-30:])
            raise Broken(
                f"{type(error).__name__}: {error}\nreplay: python -m tests.crash.shared --one-task {way} {self.seed}\n"
                f"steps:\n{last_steps}"
            ) from error

    def _run_steps(self) -> None:
        self._open()
        for table in self.tables:
            self.session.sql(build_table_ddl(table))
        for view in self._drawer.views:
            self._create_view(view)
        self.judge = Judge(self.url, self.views)
        try:
            self.judge.add_moment(self._build_tables())
            if self._begins_empty:
                self._flush()
            for table in self.tables:
                numbers = range(self.random.randint(5, 25))
                self._write(table, {i: draw_row(self.random, table, i) for i in numbers})
            self._flush()
            verbs: list[tuple[int, Callable[[], None]]] = [
                (25, self._change),
                (20, self._poison),
                (10, self._mend),
                (40, self._change_and_flush),
                (10, self._flush),
                (2, self._reopen),
                (4, self._compact),
            ]
            for _ in range(self.random.randint(8, 12)):
                (_, verb) = self.random.choices(verbs, [weight for weight, _ in verbs])[0]
                verb()
            self._settle()
        finally:
            self.judge.close()
            self._close()

    def _create_view(self, view: View) -> None:
        try:
            self.session.sql(view.ddl, build=False)
        except SqlError as error:
            if "wait for each other" not in str(error):
                raise
            view = View(**{**vars(view), "domain": None})
            self.session.sql(view.ddl, build=False)
        self.trace.append(view.ddl)
        self.views.append(view)

    def _open(self) -> None:
        """Start a driver: what the last one held in memory is gone."""
        inner, plan = open_object_store(self.url), FaultPlan(self.random.randrange(1 << 30), rate=0.0)
        make = NearStore if self._is_near else FaultyObjectStore
        self.objects, opened = make(inner, plan, system_clock), Hummock.open

        def over_faults(url: str, **options: Any) -> Hummock:
            return opened(url, **{**options, "object_store": self.objects})

        with patch("engine.session.Hummock.open", over_faults):
            self.session = Session(self.url, self.spark)

    def _close(self) -> None:
        with suppress(Crashed, *([TidelineError] if self.objects.crashed else [])):
            self.session.close()
        self.objects.settle()

    def _reopen(self) -> None:
        self.trace.append("reopen")
        self._close()
        self._open()

    def _write(self, table: Source, puts: dict[int, Row], gone: list[int] | None = None) -> None:
        rows = self.rows[table.name]
        self.trace.append(
            f"write {table.name} {list(puts.values())[:4]} … {len(puts)} rows, without {gone or []}"
        )
        if puts:
            self.session.write(table.name, pa.Table.from_pylist(list(puts.values()), build_schema(table)))
            rows.update(puts)
            self.judge.add_moment(self._build_tables())
        if gone:
            self.session.write(table.name, pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
            for number in gone:
                del rows[number]
            self.judge.add_moment(self._build_tables())

    def _build_tables(self) -> Tables:
        return {
            table.name: pa.Table.from_pylist(list(self.rows[table.name].values()), build_schema(table))
            for table in self.tables
        }

    def _change(self) -> None:
        """Put some rows, and take some away, of one table or two; a bad row that is replaced is mended."""
        for table in self.random.sample(self.tables, self.random.choice((1, 2))):
            numbers = self.random.sample(range(KEYS), self.random.choice((1, 3, 8)))
            known = [number for number in self.rows[table.name] if number not in numbers]
            gone = self.random.sample(known, min(len(known), self.random.choice((0, 0, 1, 4))))
            self._write(table, {i: draw_row(self.random, table, i) for i in numbers}, gone)

    def _change_and_flush(self) -> None:
        self._change()
        self._flush()

    def _poison(self) -> None:
        """Make a value of a row one on which an expression fails, mostly one of some views; mostly a run meets it."""
        places = [(table, c) for table in self.tables for c in table.columns if c in FAILING]
        used = [(table, c) for table, c in places if any(view.fails == c for view in self.views)]
        table, column = self.random.choice(used if used and self.random.random() < 0.9 else places)
        number = self.random.randrange(KEYS)
        row = {**draw_row(self.random, table, number), column: KINDS[column].bad}
        self.trace.append(f"poison {table.name}.{column}")
        self._write(table, {number: row})
        if self.random.random() < 0.7:
            self._flush()

    def _mend(self, share: float = 0.7) -> None:
        """Make bad rows good, or delete them."""
        for table in self.tables:
            puts: dict[int, Row] = {}
            gone: list[int] = []
            for number, row in self.rows[table.name].items():
                is_bad = any(row[c] == KINDS[c].bad for c in table.columns if c in FAILING)
                if is_bad and self.random.random() < share:
                    if self.random.random() < 0.3:
                        gone.append(number)
                    else:
                        puts[number] = draw_row(self.random, table, number)
            if puts or gone:
                self.trace.append("mend")
                self._write(table, puts, gone)

    def _compact(self) -> None:
        name = self.random.choice([one.name for one in self.tables] + [one.name for one in self.views])
        self.trace.append(f"compact {name}")
        if name in self.session.store.refresh().tables:
            self.session.store.compact(name)

    def _flush(self, *, crashes: float = CRASHES) -> None:
        """Run what is pending; either the driver crashes, or every view is judged."""
        before = self.objects.requests
        if self.random.random() < crashes:
            self.objects.plan.crash_at = before + 1 + self.random.randrange(self._requests)
        self.trace.append("flush")
        began = time.perf_counter()
        try:
            report = self.session.flush()
        except Crashed:
            report = None
        except Exception:
            if not self.objects.crashed:
                raise
            report = None
        self.objects.plan.crash_at = None
        if report is None or self.objects.crashed:
            self._recover()
            return
        self._requests = max(20, self.objects.requests - before)
        self._count(report)
        self.trace[-1] += f", {time.perf_counter() - began:.1f} s"
        self.judge.judge_run(report)

    def _recover(self) -> None:
        self.crashes += 1
        self.trace[-1] += f" CRASHED: {self.objects.plan.log[-1:]}"
        self._close()
        self.judge.judge_crash()
        self._open()

    def _count(self, report: FlushReport) -> None:
        self.runs += 1
        ways = [way for view in report.views for way in view.ways.values()]
        shared = sum(way.startswith(Place.SHARED) for way in ways)
        self.shared += shared
        self.alone += len(ways) - shared
        failed = {view.view: str(view.error).splitlines()[0][:60] for view in report.failed}
        self.trace[-1] += f": {shared} of {len(ways)} fragments shared, failed {failed}"

    def _settle(self) -> None:
        """Mend all, bring everything to the present, and collect what nothing needs."""
        self._mend(1.0)
        self._flush(crashes=0.0)
        self.session.store.gc(grace_seconds=0.0)
        self.judge.judge_end()
