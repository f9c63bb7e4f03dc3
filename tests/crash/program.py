"""A random program against control plane and storage engine, crashed at random object-store calls, checked against batch runs.

`python -m tests.crash.program SEED` replays one; the same seed gives the same program, failures and crashes. With `--executor spark` the
program runs in processes on Spark that are killed (`tests.crash.processes`).
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.connectors.sinks.ddl import alter_sink, create_sink
from engine.connectors.sinks.delivery import Delivery
from engine.errors import EpochFailed, SqlError
from engine.hummock import Commit, Delete, Hummock, Put, Table
from engine.hummock.clock import ManualClock
from engine.hummock.object_store.faulty import Crashed, FaultPlan, FaultyObjectStore
from engine.hummock.object_store.memory import MemoryObjectStore
from engine.meta.catalog_store import entries, load
from engine.meta.creation import computed
from engine.meta.policy import epochs_of
from engine.meta.recovery import failures
from engine.meta.retention import READERS_SECONDS
from engine.meta.sinks import sinks, source_of, state_of
from engine.meta.waits import waits
from engine.runtime import ddl
from engine.runtime.alter import alter
from engine.runtime.drop import drop
from engine.runtime.executor import FragmentTask
from engine.runtime.flush import FlushRun
from engine.runtime.mutation_run import ask
from engine.sql import statements as st
from engine.sql.access import index_name
from engine.sql.binder import bind
from engine.sql.catalog import Column, Relation
from engine.sql.fragments import IncrementalPlan, build_incremental_plan
from engine.sql.point_read import query_tables
from tests.crash.checks import TABLES, Broken, Checks, bag_of
from tests.crash.delivered import replayed, rows_of
from tests.crash.reference import DuckAnalyzer, ReferenceExecutor

START = 1_790_000_000.0
RETENTION = 600.0
DEADLINE = 600.0
"""A program takes a second or two; one that takes longer than this by the wall clock is stuck."""
SHAPES = (
    "SELECT id, x * 2 AS x2 FROM a WHERE x % 3 <> 0",
    "SELECT g, count(*) AS n, sum(x) AS s FROM a GROUP BY g",
    "SELECT count(*) AS n, sum(x) AS s FROM a",
    "SELECT g, max(x) AS m, count(*) AS n FROM a GROUP BY g",
    "SELECT a.id, a.x, b.y FROM a LEFT JOIN b ON a.g = b.id",
    "SELECT b.g, count(*) AS n, sum(a.x) AS s FROM a JOIN b ON a.g = b.id GROUP BY b.g",
    "SELECT DISTINCT g FROM a",
    "SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM a GROUP BY g) q GROUP BY n",
    "SELECT id, x AS v FROM a UNION ALL SELECT id, y AS v FROM b",
)
ON_TOP = (
    "SELECT count(*) AS n FROM {view}",
    "SELECT {column} AS k, count(*) AS n FROM {view} GROUP BY {column}",
)


class Program(Checks):
    """One seeded program: `run` does its steps and its checks; `trace` tells what it did."""

    def __init__(self, seed: int, folder: Path, steps: int = 40) -> None:
        super().__init__(random.Random(seed))
        self.seed, self.steps, self.folder = seed, steps, folder
        self.clock = ManualClock(seed, START)
        self.disk = MemoryObjectStore(self.clock)
        self.rows: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in TABLES}
        self.failing: set[str] = set()
        self.created = 0
        self.trace: list[str] = []
        self.zombies: list[FlushRun] = []
        self.outside: dict[str, MemoryObjectStore] = {}
        self._open()
        for name, columns in TABLES.items():
            self._create_table(name, columns)

    # ---- processes -----------------------------------------------------------------------------------------------
    def _open(self) -> None:
        """Start a process: what the last one held in memory is gone."""
        plan = FaultPlan(self.random.randrange(1 << 30), rate=self.random.choice((0.0, 0.01)))
        self.objects = FaultyObjectStore(self.disk, plan, self.clock)
        cache = self.folder / f"cache-{self.random.randrange(3)}"
        self.store = Hummock.open(
            "memory://store",
            cache_dir=str(cache),
            retention_seconds=RETENTION,
            object_store=self.objects,
            clock=self.clock,
        )
        self.flusher = self._flush_run(self.store)
        self.targets = FaultPlan(plan.seed, rate=self.random.choice((0.0, 0.05)))
        self._reached: dict[str, FaultyObjectStore] = {}

    def _flush_run(self, store: Hummock) -> FlushRun:
        executor = ReferenceExecutor(store, self._before)
        run = FlushRun(store, executor, backfill_rows=60, threads=1, clock=self.clock)
        run.backfill.largest_step = self.random.choice((5, 20, 1000))
        return run

    def _before(self, task: FragmentTask) -> None:
        self.clock.sleep(self.random.choice((0.0, 0.01, 0.1)))
        owner = load(self.store.version).owners.get(task.fragment.table)
        if owner in self.failing:
            raise EpochFailed(f"{owner} is made to fail")

    def run(self) -> None:
        """Do the steps; raises Broken with the seed where an invariant does not hold."""
        verbs: list[tuple[int, Callable[[], None]]] = [
            (30, self._write),
            (12, self._create_view),
            (4, self._drop),
            (30, self._flush),
            (8, self._compact),
            (6, self._collect),
            (4, self._reopen),
            (4, self._wake_zombie),
            (5, self._fail_or_mend),
            (7, self._steer),
            (6, self._wait),
            (3, self._neglect),
            (5, self._create_sink),
            (2, self._drop_sink),
            (3, self._pause_or_resume_sink),
            (8, self._deliver),
        ]
        watchdog = threading.Timer(DEADLINE, self._stuck)
        watchdog.daemon = True
        watchdog.start()
        try:
            for _ in range(self.steps):
                (_, verb) = self.random.choices(verbs, [weight for weight, _ in verbs])[0]
                self.clock.sleep(self.random.choice((0.001, 0.5, 5.0)))
                self._attempt(verb)
                self.check()
            self._settle()
        except Exception as error:
            told = "\n".join(self.trace[-12:])
            raise Broken(
                f"{type(error).__name__}: {error}\nreplay: python -m tests.crash.program {self.seed}\nlast steps:\n{told}"
            ) from error
        finally:
            watchdog.cancel()

    def _stuck(self) -> None:
        """End the process: a thread that waits for ever cannot be told to stop."""
        print(f"stuck beyond {DEADLINE:.0f} s in: {self.trace[-1:]}", file=sys.stderr)
        print(f"replay: python -m tests.crash.program {self.seed}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(2)

    def _attempt(self, verb: Callable[[], None]) -> None:
        if self.random.random() < 0.3:
            soon = 1 + int(self.random.expovariate(0.2))
            self.objects.plan.crash_at = self.objects.requests + soon
        self.trace.append(verb.__name__.strip("_"))
        try:
            verb()
            self.objects.plan.crash_at = None
        except Crashed:
            self.trace[-1] += " CRASHED"
            self._open()
            self._find_out()

    def _find_out(self) -> None:
        """After a crash in a write: all of it is there or nothing is."""
        if self._pending_rows is not None:
            before, after = self.rows, self._pending_rows
            found = {name: self._content(name, None) for name in TABLES}
            if found == {name: bag_of(rows) for name, rows in after.items()}:
                self.rows = after
            elif found != {name: bag_of(rows) for name, rows in before.items()}:
                raise Broken("a crashed write is neither whole nor absent")
            self._pending_rows = None
        stored = load(self.store.refresh())
        self.texts = {name: text for name, text in self.texts.items() if name in stored.plans}

    _pending_rows: dict[str, dict[int, tuple[int, int]]] | None = None

    # ---- verbs ---------------------------------------------------------------------------------------------------
    def _create_table(self, name: str, columns: tuple[str, ...]) -> None:
        found = tuple(Column(column, "bigint", nullable=column != "id") for column in columns)
        relation = Relation(
            name=name, kind="table", columns=found, primary_key=("id",), distribution_key=("id",)
        )
        schema = pa.schema([(column, pa.int64()) for column in columns])
        table = Table(name, schema, ("id",), ("id",))
        self.store.commit(Commit(create=(table,), catalog=entries({name: relation}, {})))

    def _write(self) -> None:
        names = self.random.sample(sorted(TABLES), self.random.choice((1, 1, 2)))
        after = {name: dict(rows) for name, rows in self.rows.items()}
        writes = {}
        for name in names:
            columns = TABLES[name]
            ids = self.random.sample(range(80), self.random.choice((1, 3, 20)))
            puts = {i: (self.random.randrange(6), self.random.randrange(50)) for i in ids}
            known = sorted(after[name])
            gone = self.random.sample(known, min(len(known), self.random.choice((0, 0, 2, 10))))
            gone = [i for i in gone if i not in puts]
            after[name].update(puts)
            for i in gone:
                del after[name][i]
            values = [[i, *pair] for i, pair in puts.items()]
            rows = pa.table({c: pa.array([v[k] for v in values], pa.int64()) for k, c in enumerate(columns)})
            keys = pa.table({"id": pa.array(gone, pa.int64())})
            writes[name] = [Put(rows), Delete(keys)]
        self._pending_rows = after
        self.store.ingest_batch(writes)
        self.rows, self._pending_rows = after, None

    def _create_view(self) -> None:
        stored = load(self.store.refresh())
        if len(self.texts) >= 6:
            return
        self.created += 1
        name = f"v{self.created}"
        upstream = [v for v in self.texts if v in stored.plans]
        if upstream and self.random.random() < 0.35:
            view = self.random.choice(upstream)
            column = stored.catalog.get(view).columns[0].name
            text = self.random.choice(ON_TOP).format(view=view, column=column)
        else:
            text = self.random.choice(SHAPES)
        options = {}
        if self.random.random() < 0.3:
            options["domain"] = self.random.choice(("red", "blue"))
        if self.random.random() < 0.3:
            options["background"] = "true"
        self.trace[-1] += f" {name} {options} {text}"
        self.texts[name] = text
        try:
            self._commit_view(name, text, options)
        except SqlError as error:
            if "wait for each other" not in str(error):
                raise
            del self.texts[name]

    def _commit_view(self, name: str, text: str, options: dict[str, str]) -> None:
        stored = load(self.store.refresh())
        statement = st.parse(f"CREATE MATERIALIZED VIEW {name} AS {text}", "spark")
        bound = bind(statement.query, stored.catalog, dialect="spark", sql=statement.sql)
        plan = build_incremental_plan(name, bound.plan, bound.columns, DuckAnalyzer(stored.catalog))
        last = plan.fragments[-1]
        shown = {column for column, _ in bound.columns}
        relation = Relation(
            name=name,
            kind="materialized view",
            columns=tuple(Column(c, kind, hidden=c not in shown) for c, kind in last.columns),
            primary_key=last.key,
            distribution_key=last.distribution_key,
            append_only=last.plan.append_only,
            sql=statement.sql,
            options=options,
            depends_on=query_tables(statement.query, stored.catalog),
        )
        relations: dict[str, Relation | None] = {name: relation}
        plans: dict[str, IncrementalPlan | None] = {name: plan}
        for table, columns in plan.indexes:
            index = index_name(table, columns)
            if index not in stored.catalog.relations:
                relations[index], plans[index] = ddl.index_of(
                    stored.catalog, stored.catalog.get(table), columns, "spark"
                )
        ddl._check_domains(stored, relations, plans)
        self.store.commit(Commit(catalog=entries(relations, plans)))

    def _drop(self) -> None:
        if self.texts:
            failing = sorted(self.failing & set(self.texts)) if self.random.random() < 0.5 else []
            name = self.random.choice(failing or sorted(self.texts))
            self.trace[-1] += f" {name}"
            drop(self.store, st.Drop("materialized view", name, True, True, ""))
            stored = load(self.store.refresh())
            self.texts = {view: text for view, text in self.texts.items() if view in stored.plans}

    def _flush(self) -> None:
        eager, seconds = self.random.random() < 0.7, self.random.choice((0.0, 0.0, 0.2))
        report = self.flusher.run(eager=eager, background_seconds=seconds)
        for view in report.failed:
            if "made to fail" not in str(view.error):
                raise Broken(f"view {view.view} failed: {view.error}")

    def _compact(self) -> None:
        name = self.random.choice(sorted(self.store.refresh().tables))
        self.trace[-1] += f" {name}"
        (self.store.compact if self.random.random() < 0.5 else self.store.compact_l0)(name)

    def _collect(self) -> None:
        self.store.gc(grace_seconds=self.random.choice((0.0, 60.0)))

    def _reopen(self) -> None:
        self.zombies = [*self.zombies[-1:], self.flusher]
        self._open()

    def _wake_zombie(self) -> None:
        """A process that was stopped for long goes on with what it knew: it is refused or follows, never wrong."""
        if self.zombies:
            self.zombies.pop().run(background_seconds=0.0)

    def _fail_or_mend(self) -> None:
        if self.failing:
            self.failing.clear()
        elif self.texts:
            self.failing = {self.random.choice(sorted(self.texts))}
            self.trace[-1] += f" {self.failing}"

    def _steer(self) -> None:
        """Ask for a mutation: pause, resume, throttle, or update of the parallelism."""
        stored = load(self.store.refresh())
        names = sorted(name for name in self.texts if name in stored.plans)
        if names:
            name = self.random.choice(names)
            word = self.random.choice(
                (
                    "PAUSE",
                    "RESUME",
                    "RESUME",
                    "SET (backfill_rate_limit = 0)",
                    "SET (backfill_rate_limit = 1000000)",
                    "SET (parallelism = 3)",
                )
            )
            self.trace[-1] += f" {name} {word}"
            self._alter(name, word)

    def _alter(self, name: str, word: str) -> None:
        alter(self.store, _no_spark, st.parse(f"ALTER MATERIALIZED VIEW {name} {word}", "spark"))  # type: ignore[arg-type]

    def _wait(self) -> None:
        self.clock.sleep(self.random.choice((30.0, RETENTION * 2)))

    def _create_sink(self) -> None:
        stored = load(self.store.refresh())
        if len(list(sinks(stored))) >= 3:
            return
        sources = [
            n for n in (*TABLES, *self.texts) if n in stored.catalog.relations and self._key_is_shown(n)
        ]
        name, source = f"s{len(self.outside) + 1}", self.random.choice(sources)
        self.outside[name] = MemoryObjectStore(self.clock)
        groups = self.random.choice((1, 1, 2))
        self.trace[-1] += f" {name} FROM {source}, {groups} groups"
        text = (
            f"CREATE SINK {name} FROM {source} WITH (connector = 'file', url = 'file:///{name}', format = 'jsonl', "
            f"type = 'upsert', vnode_groups = {groups}, retention = '1000 days')"
        )
        create_sink(self.store, st.parse(text, "spark"), "spark")  # type: ignore[arg-type]

    def _key_is_shown(self, name: str) -> bool:
        return set(load(self.store.version).catalog.get(name).primary_key) <= set(self._shown(name))

    def _drop_sink(self) -> None:
        if (relation := self._a_sink()) is not None:
            drop(self.store, st.Drop("sink", relation.name, True, False, ""))

    def _pause_or_resume_sink(self) -> None:
        if (relation := self._a_sink()) is not None:
            action = "RESUME" if state_of(self.store.version, relation.name).paused else "PAUSE"
            alter_sink(self.store, st.parse(f"ALTER SINK {relation.name} {action}", "spark"))  # type: ignore[arg-type]

    def _a_sink(self) -> Relation | None:
        known = sorted(sinks(load(self.store.refresh())), key=lambda relation: relation.name)
        return self.random.choice(known) if known else None

    def _deliver(self) -> None:
        """Deliver what waits; a target that does not answer makes its sink fail, and may be where this process ends."""
        if self.random.random() < 0.2:
            self.targets.crash_at = 1 + int(self.random.expovariate(0.5))
        self._deliver_what_waits()
        self.targets.crash_at = None

    def _deliver_what_waits(self) -> None:
        for relation in sinks(load(self.store.refresh())):
            delivery = Delivery(self.store, relation, self._target, self.clock)
            delivery.run()
            if delivery.error is not None and not self._is_of_its_target(delivery.error):
                raise Broken(f"sink {relation.name} failed: {delivery.error}")

    def _target(self, url: str) -> FaultyObjectStore:
        """What a sink of this process writes to; each target fails by itself."""
        name = url.rpartition("/")[2]
        if name not in self._reached:
            self._reached[name] = FaultyObjectStore(self.outside[name], self.targets, self.clock)
        return self._reached[name]

    @staticmethod
    def _is_of_its_target(error: str) -> bool:
        return error.startswith("Unavailable: ") or "the answer was lost" in error or ".jsonl: " in error

    def _delivered(self, relation: Relation) -> Counter:
        stored = self.outside[relation.name]
        objects = {info.path: stored.get(info.path) for info in stored.list("")}
        key = load(self.store.version).catalog.get(source_of(relation)).primary_key
        return replayed(relation.name, rows_of(objects), key)

    def _neglect(self) -> None:
        """Let a view rest for longer than changes wait for it, while its inputs change and are housekept."""
        stored = load(self.store.refresh())
        names = sorted(name for name in self.texts if computed(self.store.version, name) is not None)
        if names:
            name = self.random.choice(names)
            self.trace[-1] += f" {name}"
            ask(self.store, name, "pause", None, self.clock())
            self.check()
            self._write()
            self._flush()
            self.clock.sleep(READERS_SECONDS * 1.1)
            self._flush()
            for table in stored.upstream_order((name,)):
                if table in self.store.version.tables:
                    self.store.compact(table)
            self.clock.sleep(RETENTION * 2)
            self._collect()
            self.check()
            self._write()
            ask(self.store, name, "resume", None, self.clock())

    # ---- the end --------------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """After the causes are removed everything catches up and equals a batch run over the newest rows."""
        self.trace.append("settle")
        self.failing.clear()
        for name in list(self.texts):
            self._alter(name, "RESUME")
            self._alter(name, "SET (backfill_rate_limit = 1000000)")
        for _ in range(60):
            self.clock.sleep(1.0)
            report = self.flusher.run(background_seconds=1.0)
            version = self.store.refresh()
            stored = load(version)
            if not waits(version, stored, self.clock()):
                break
        else:
            stuck = [(w.domain, w.reason) for w in waits(version, stored, self.clock())]
            raise Broken(f"stuck: {stuck}; {[r.error for r in report.failed]}")
        self.check()
        for name in self.texts:
            if computed(self.store.version, name) is None:
                raise Broken(f"{name} is said to be caught up and was never computed as a whole")
        for relation in sinks(load(self.store.version)):
            if state_of(self.store.version, relation.name).paused:
                alter_sink(self.store, st.parse(f"ALTER SINK {relation.name} RESUME", "spark"))  # type: ignore[arg-type]
        self.targets.rate = 0.0
        self._deliver_what_waits()
        for relation in sinks(load(self.store.refresh())):
            if self._delivered(relation) != self._content(source_of(relation), None):
                raise Broken(f"sink {relation.name} did not deliver what {source_of(relation)} holds")
        if failures(self.store.version):
            raise Broken(f"failures are remembered that are over: {sorted(failures(self.store.version))}")
        for name, rows in self.rows.items():
            if self._content(name, None) != bag_of(rows):
                raise Broken(f"table {name} lost or doubled rows")
        version = self.store.refresh()
        stored = load(version)
        names = tuple(self.texts)
        if names and set(epochs_of(version, stored, names, "consistent").values()) != {
            epochs_of(version, stored, names, "global")[names[0]]
        }:
            raise Broken("consistent and global differ though everything is caught up")


def _no_spark() -> SparkSession:
    raise AssertionError("nothing here needs Spark")


def main() -> None:
    """Replay the seeds named on the command line, or a range FIRST LAST after the word `range`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", choices=("reference", "spark"), default="reference")
    parser.add_argument("--spark", default="local[2]", help="where the processes of --executor spark run")
    parser.add_argument(
        "--jobs", type=int, default=1, help="programs at the same time, each in a process of its own"
    )
    parser.add_argument("words", nargs="+", metavar="SEED | range FIRST LAST")
    options = parser.parse_args()
    words = options.words
    seeds = range(int(words[1]), int(words[2])) if words[0] == "range" else [int(word) for word in words]
    one = partial(_replayed, options.executor, options.spark)
    with ProcessPoolExecutor(max(options.jobs, 1)) as pool:
        outcomes = pool.map(one, seeds) if options.jobs > 1 else map(one, seeds)
        failed = 0
        for failure, told in outcomes:
            failed += failure
            print(told, flush=True)
    print(f"{len(seeds) - failed} of {len(seeds)} seeds fine", flush=True)
    sys.exit(1 if failed else 0)


def _replayed(executor: str, spark: str, seed: int) -> tuple[bool, str]:
    """Run one seed; return whether it failed and what there is to say."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            if executor == "spark":
                from tests.crash.processes import ProcessProgram

                processes = ProcessProgram(seed, Path(folder), spark)
                processes.run()
                return False, f"seed {seed}: {processes.kills} killed, {processes.stops} stopped, fine"
            program = Program(seed, Path(folder))
            program.run()
            steps, manifests = len(program.trace), program.store.version.number
            return False, f"seed {seed}: {steps} steps, {manifests} manifests, fine"
    except Broken:
        return True, f"seed {seed} FAILED\n{traceback.format_exc()}"


if __name__ == "__main__":
    main()
