"""Random queries over rows that come and go as time passes, and over windows that a watermark closes, against DuckDB.

A world is a session whose clock the world moves: `ev` and `dim` are keyed tables of which rows change, `log` is append-only and has
a watermark. Views filter by now(), show windows as they close, rest until they are refreshed, and random operators stand on top of
all of them. DuckDB is asked with the moment and the watermark as literals.
`python -m tests.oracle.timed_worlds range FIRST LAST` runs the worlds of some seeds, `… SEED` one again.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.session import Session
from engine.testing.manual_clock import ManualClock
from tests.oracle.batch import assert_equal, content, duckdb_over
from tests.oracle.random_conditions import Columns
from tests.oracle.random_queries import Query, QueryMaker
from tests.oracle.words import spelled
from tests.runtime.clock.worlds import at, moment, moving
from tests.uncompiled import uncompiled

STEPS, VIEWS = 4, 8
TARGETS = ("copied", "kept", "came")
"""What sinks feed, and a view of it."""
KEPT_DELAY = timedelta(minutes=20)
COLUMNS: Columns = (("id", "bigint"), ("k", "bigint"), ("ts", "timestamp"), ("n", "bigint"))
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us")), ("n", pa.int64())])
_COMPARED = (
    "{ts} > now() - INTERVAL '1 hour'",
    "{ts} <= now()",
    "now() < {ts} + INTERVAL '90 minutes'",
    "{ts} BETWEEN now() - INTERVAL '2 hours' AND now() + INTERVAL '30 minutes'",
    "date_trunc('day', {ts}) >= date_trunc('day', now()) - INTERVAL '1 day'",
)
_HOUR = "time_bucket(INTERVAL '1 hour', {})"
_NUMBERED = "row_number() OVER (PARTITION BY k ORDER BY ts, id) AS p, row_number() OVER (PARTITION BY k ORDER BY ts, id DESC) AS q"
_FOLLOWED = "lead(n) OVER (PARTITION BY k ORDER BY ts, id) AS p, lead(n) OVER (PARTITION BY k ORDER BY ts, id DESC) AS q"
_WITHIN = (
    "row_number() OVER (PARTITION BY {start} ORDER BY n NULLS LAST, id) AS p, "
    "row_number() OVER (PARTITION BY {start} ORDER BY n DESC NULLS LAST, id) AS q, "
    "lead(n) OVER (PARTITION BY {start} ORDER BY n NULLS LAST, id) AS l"
)
_TIED = "lead(n) OVER (PARTITION BY {start} ORDER BY n NULLS LAST) AS p"
"""Which of the rows that tie comes first shows in nothing that is selected beside it."""
CLOSED = (
    (
        "SELECT window_start AS ws, k, count(*) AS c, max(n) AS m FROM TUMBLE(log, ts, INTERVAL '1 hour') GROUP BY window_start, k",
        f"SELECT {_HOUR.format('ts')} AS ws, k, count(*) AS c, max(n) AS m FROM log WHERE {_HOUR.format('ts')} < "
        f"{_HOUR.format('{mark}')} GROUP BY 1, 2",
        (("ws", "timestamp"), ("k", "bigint"), ("c", "bigint"), ("m", "bigint")),
    ),
    (
        "SELECT ts, id, k, n FROM log WHERE n > 1",
        "SELECT ts, id, k, n FROM log WHERE n > 1 AND ts < {mark}",
        (("ts", "timestamp"), ("id", "bigint"), ("k", "bigint"), ("n", "bigint")),
    ),
    (
        "SELECT id, ts, lag(n) OVER (PARTITION BY k ORDER BY ts, id) AS p FROM log",
        "SELECT id, ts, lag(n) OVER (PARTITION BY k ORDER BY ts, id) AS p FROM log WHERE ts < {mark}",
        (("id", "bigint"), ("ts", "timestamp"), ("p", "bigint")),
    ),
    (
        f"SELECT id, ts, {_NUMBERED} FROM log",
        f"SELECT id, ts, {_NUMBERED} FROM log WHERE ts < {{mark}}",
        (("id", "bigint"), ("ts", "timestamp"), ("p", "bigint"), ("q", "bigint")),
    ),
    (
        f"SELECT id, ts, {_FOLLOWED} FROM log",
        f"SELECT id, ts, p, q FROM (SELECT id, ts, {_FOLLOWED}, lead(1) OVER (PARTITION BY k ORDER BY ts, id) AS a, "
        "lead(1) OVER (PARTITION BY k ORDER BY ts, id DESC) AS b FROM log WHERE ts < {mark}) "
        "WHERE a IS NOT NULL AND b IS NOT NULL",
        (("id", "bigint"), ("ts", "timestamp"), ("p", "bigint"), ("q", "bigint")),
    ),
    (
        f"SELECT window_start AS ws, id, {_WITHIN.format(start='window_start')} FROM TUMBLE(log, ts, INTERVAL '1 hour')",
        f"SELECT {_HOUR.format('ts')} AS ws, id, {_WITHIN.format(start=_HOUR.format('ts'))} FROM log "
        f"WHERE {_HOUR.format('ts')} < {_HOUR.format('{mark}')}",
        (("ws", "timestamp"), ("id", "bigint"), ("p", "bigint"), ("q", "bigint"), ("l", "bigint")),
    ),
    (
        f"SELECT window_start AS ws, n, {_TIED.format(start='window_start')} FROM TUMBLE(log, ts, INTERVAL '1 hour')",
        f"SELECT {_HOUR.format('ts')} AS ws, n, {_TIED.format(start=_HOUR.format('ts'))} FROM log "
        f"WHERE {_HOUR.format('ts')} < {_HOUR.format('{mark}')}",
        (("ws", "timestamp"), ("n", "bigint"), ("p", "bigint")),
    ),
)
"""Views that emit on window close: the query, the judge's, and the columns."""


@dataclass(frozen=True)
class Source:
    """What stands in FROM, and the columns that a query reads of it."""

    mark: str
    marked: Columns


@dataclass
class TimedWorld:
    """One run; `failures` are by view."""

    session: Session
    clock: ManualClock
    seed: int
    failures: dict[str, str] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    resting: set[str] = field(default_factory=set)
    trace: list[str] = field(default_factory=list)
    made: int = 0
    sunk: set[int] = field(default_factory=set)
    kept: list[dict[str, Any]] = field(default_factory=list)
    kept_mark: datetime | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed}/times")

    def create(self) -> None:
        """Create the tables and the views that emit on window close, some of them over rows that are there."""
        for name in ("ev", "dim"):
            self.session.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, k BIGINT, ts TIMESTAMP, n BIGINT)")
        self.session.sql(
            "CREATE TABLE log (id BIGINT, k BIGINT, ts TIMESTAMP, n BIGINT, "
            "WATERMARK FOR ts AS ts - INTERVAL '30 minutes') APPEND ONLY"
        )
        self._create_targets()
        self._write()
        sources = [Source(name, COLUMNS) for name in ("ev", "dim", "log")]
        for number in range(2):
            query, judge, columns = self.chance.choice(CLOSED)
            name = f"closed{number}"
            self._said(f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE")
            self.closed[name] = judge
            sources.append(Source(name, columns))
        for number in range(VIEWS):
            self._create_one(f"v{number}", sources)

    def _create_targets(self) -> None:
        """Create tables that sinks feed, one of which lets go of rows, and a view that holds what has come to that."""
        columns = "id BIGINT{}, k BIGINT, ts TIMESTAMP, n BIGINT"
        self._said(f"CREATE TABLE copied ({columns.format(' PRIMARY KEY')})")
        self._said(
            f"CREATE TABLE kept ({columns.format('')}, WATERMARK FOR ts AS ts - INTERVAL '20 minutes' WITH TTL) APPEND ONLY"
        )
        self._said(
            "CREATE MATERIALIZED VIEW came AS SELECT k, count(*) AS c, max(n) AS m FROM kept GROUP BY k"
        )
        self._said("CREATE SINK to_copied INTO copied FROM ev")
        self._said("CREATE SINK to_kept INTO kept FROM log")

    def _create_one(self, name: str, sources: list[Source]) -> None:
        timed = [self._timed(source) if self.chance.random() < 0.6 else source for source in sources]
        query = QueryMaker(self.chance, timed, "defghijk"[len(self.queries)], odd=False).query()
        times = [column for column, kind in query.columns if kind == "timestamp"]
        if times and self.chance.random() < 0.3:  # above groups, joins and windows as well
            test = self.chance.choice(_COMPARED).format(ts=self.chance.choice(times))
            query = Query(f"SELECT * FROM ({query.text}) above WHERE {test}", query.columns)
        options = []
        if self.chance.random() < 0.2:
            options.append(f"refresh = '{self.chance.choice(('manual', 'every 2 hours'))}'")
            self.resting.add(name)
        if self.chance.random() < 0.2:
            options.append("rules = 'reference'")
        given = f" WITH ({', '.join(options)})" if options else ""
        self.queries[name] = query
        try:
            self._said(f"CREATE MATERIALIZED VIEW {name}{given} AS {spelled(query.text, 'postgres', {})}")
        except Exception as error:
            if "is not supported in a maintained view" in str(error) and "now()" in str(error):
                del self.queries[name]  # a filter on now() above what keeps no filter
            else:
                self.failures[name] = f"is refused: {type(error).__name__}: {error}"

    def _timed(self, source: Source) -> Source:
        """Return the rows of a source that pass a condition on now()."""
        times = [column for column, kind in source.marked if kind == "timestamp"]
        test = self.chance.choice(_COMPARED).format(ts=self.chance.choice(times))
        return Source(f"(SELECT * FROM {source.mark} WHERE {test}) timed", source.marked)

    def step(self) -> None:
        """Let time pass, write, flush, and compare every view."""
        self._write()
        steps = [0, 0.001, 60, 1800, 1800, 3600, 7200, 86_400]
        self.clock.sleep(self.chance.choice(steps))
        self.trace.append(f"at {moment(self.clock)}: flush")
        report = self.session.flush(sink_seconds=60.0)
        for failed in report.failed:
            self.failures.setdefault(failed.view, f"failed: {failed.error}")
        for sink in report.sinks:
            if sink.error is not None or sink.lag_rows:
                self.failures.setdefault(sink.sink, f"lacks {sink.lag_rows} rows: {sink.error}")
        if self.resting:
            self.session.flush(sorted(self.resting & self.queries.keys()))
        self._compare()
        self._compare_targets()

    def _write(self) -> None:
        for name in ("ev", "dim"):
            if self.chance.random() < 0.7:
                ids = self.chance.sample(range(24), self.chance.randrange(1, 7))
                self.session.write(name, self._rows(ids))
            if self.chance.random() < 0.3:
                ids = self.chance.sample(range(24), 2)
                self.session.write(name, pa.table({"id": pa.array(ids, pa.int64())}), mode="delete")
        if self.chance.random() < 0.8:
            ids = [self.made + n for n in range(self.chance.randrange(1, 7))]
            self.made += len(ids)
            self.session.write("log", self._rows(ids), mode="insert")

    def _rows(self, ids: list[int]) -> pa.Table:
        def some(of: list[object]) -> object:
            return None if self.chance.random() < 0.1 else self.chance.choice(of)

        now = moment(self.clock).replace(tzinfo=None)
        times: list[object] = [now + timedelta(minutes=20 * n) for n in range(-9, 7)]
        rows = [(n, some([0, 1, 2]), some(times), some([0, 1, 2, 3, 5, 7])) for n in ids]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(list(column), kind.type) for column, kind in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def _said(self, text: str) -> None:
        self.trace.append(text)
        self.session.sql(text, build=False)

    def _compare(self) -> None:
        """Compare what closes with the judge at the watermark, and all views with their queries over these and the tables."""
        tables = {name: content(self.session, name) for name in ("ev", "dim", "log")}
        mark = content(self.session, "_watermark_log").to_pylist()
        shown = (
            f"TIMESTAMP '{mark[0]['watermark']}'"
            if mark and mark[0]["watermark"]
            else "CAST(NULL AS TIMESTAMP)"
        )
        with duckdb_over(tables) as connection:
            for name, judge in self.closed.items():
                wanted = connection.sql(judge.format(mark=shown)).to_arrow_table()
                self._same(name, wanted, ())
                connection.register(name, wanted)
            for name, query in self.queries.items():
                text = at(spelled(query.text, "duckdb", {}), moment(self.clock))
                sums = tuple(n for n, (_, kind) in enumerate(query.columns) if kind == "measure")
                if name not in self.failures:
                    self._same(name, connection.sql(text).to_arrow_table(), sums)

    def _compare_targets(self) -> None:
        """Compare what sinks feed: of rows that come those in time are taken, and those below the watermark are there no more."""
        self._same("copied", content(self.session, "ev"), ())
        new = [row for row in content(self.session, "log").to_pylist() if row["id"] not in self.sunk]
        self.sunk.update(row["id"] for row in new)
        mark = self.kept_mark
        taken = [row for row in new if mark is None or row["ts"] is None or row["ts"] >= mark]
        marks = [row["ts"] - KEPT_DELAY for row in taken if row["ts"] is not None]
        mark = self.kept_mark = max([*marks, *([] if mark is None else [mark])], default=None)
        self.kept += taken
        shown = [row for row in self.kept if mark is None or row["ts"] is None or row["ts"] >= mark]
        self._same("kept", pa.Table.from_pylist(shown, schema=SCHEMA), ())
        with duckdb_over({"kept": pa.Table.from_pylist(self.kept, schema=SCHEMA)}) as connection:
            wanted = connection.sql("SELECT k, count(*) AS c, max(n) AS m FROM kept GROUP BY k")
            self._same("came", wanted.to_arrow_table(), ())

    def _same(self, name: str, wanted: pa.Table, sums: tuple[int, ...]) -> None:
        try:
            assert_equal(content(self.session, name), wanted, f"{name} at {moment(self.clock)}", sums)
        except Exception as error:
            self.failures.setdefault(name, f"{type(error).__name__}: {error}")


def check(seed: int, spark: SparkSession, steps: int = STEPS) -> tuple[list[str], int]:
    """Run the world of a seed; return one message for each view that went wrong, and how many views there are."""
    with (
        tempfile.TemporaryDirectory(prefix="tideline-times-") as folder,
        uncompiled(spark),
        moving(Path(folder), spark) as (session, clock),
    ):
        world = TimedWorld(session, clock, seed)
        world.create()
        for _ in range(steps):
            world.step()
    failures = [
        f"FAILED {name} {text[:1500]}\n  {next((t for t in world.trace if f'VIEW {name} ' in t), '')}\n"
        f"  replay: python -m tests.oracle.timed_worlds {seed}"
        for name, text in world.failures.items()
    ]
    return failures, len(world.queries) + len(world.closed) + len(TARGETS)


def main() -> None:
    """Run the worlds that the command line names, and print what went wrong."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    from engine.runtime.spark.session import connect

    seeds = range(*map(int, sys.argv[2:4])) if sys.argv[1] == "range" else [int(sys.argv[1])]
    spark = connect("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    wrong = cases = 0
    for seed in seeds:
        began = time.monotonic()
        failures, views = check(seed, spark)
        wrong, cases = wrong + len(failures), cases + views
        for text in failures:
            print(text, flush=True)
        print(f"seed {seed}: {len(failures)} of {views} wrong, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{wrong} of {cases} cases went wrong", flush=True)
    spark.stop()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
