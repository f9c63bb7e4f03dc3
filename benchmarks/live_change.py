"""A view is given another query while rows come in: the age of its content, what the swap takes, what its targets are brought.

`python -m benchmarks.live_change [--rows 3000000] [--rate 1000] [--seconds 5] [--change values|column] [--kills 5]`

It fills a table, keeps a view over it, two views over that one, a file sink and a Delta table of the view, and lets a driver,
in a process of its own, flush without end while a writer adds rows by the second. The view has a gate. Then it gets another
query in the background, by which a tenth of its rows change (`values`), or by which it also gets a column (`column`). The
gate holds that up. The difference that it shows is compared with DuckDB's, and approved. With `--kills` the driver is killed
at so many random moments between the statement and the swap, and started again.

Each content that a reader meets is compared with DuckDB's over the rows of its epoch. So are the rows that the sink was
brought in the epoch of the swap, with the difference of both queries, and at the end all that the sink was brought, the Delta
table and the two views. It prints how long the new content was built, what the swap took from the approval on, and the oldest
content that a reader has met, before, meanwhile and after. It ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from engine.hummock.epoch import seconds_of
from engine.meta.catalog.successions import list_successions
from engine.runtime.answers.diff import TableDiff
from engine.session import Session

GROUPS = 20_000
SINK_SECONDS = 0.1
"""How long a project's driver waits for a sink in each turn."""
WARM_SECONDS = 20.0
"""How long the driver flushes before anything is measured: its first epochs load and compile what all others use."""
NEAR_SECONDS = 5.0
"""Contents of the sink are looked at that came so long before the approval and after the swap."""
GATE = "rows_changed <= 1%"
BEFORE = "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
CHANGED = "sum(CASE WHEN g % 10 = 0 THEN n + 1 ELSE n END) AS total"
AFTER = {
    "values": f"SELECT g, {CHANGED}, count(*) AS c FROM t GROUP BY g",
    "column": f"SELECT g, {CHANGED}, max(n) AS most, count(*) AS c FROM t GROUP BY g",
}
READERS = {
    "by_count": "SELECT c, count(*) AS groups, sum(total) AS total FROM v GROUP BY c",
    "large": "SELECT g, total FROM v WHERE total > 100000",
}
Row = tuple[Any, ...]


@dataclass
class Reading:
    """What a reader has met: when, how old the content was, and what it was."""

    at: float
    age: float
    epoch: int
    rows: pa.Table


@dataclass
class World:
    """A store that is written, flushed and read at the same time until `ended`."""

    url: str
    rate: int
    ended: threading.Event = field(default_factory=threading.Event)
    readings: list[Reading] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def write(self, first: int) -> None:
        """Add rows, a tenth of a second's at a time."""
        with Session(self.url) as session:
            rng, number = np.random.default_rng(1), first
            while not self.ended.wait(0.1):
                ids = range(number, number + self.rate // 10)
                groups = rng.integers(0, GROUPS, len(ids))
                session.write("t", pa.table({"id": ids, "g": groups, "n": rng.integers(0, 100, len(ids))}))
                number += len(ids)

    def read(self) -> None:
        """Read the view twice a second, at the epoch at which it answers."""
        with Session(self.url) as session:
            while not self.ended.wait(0.5):
                now, epoch = time.time(), session.common_epoch("v")
                rows = session.sql(f"SELECT * FROM v FOR SYSTEM_TIME AS OF {epoch}")
                assert rows is not None
                self.readings.append(Reading(now, now - seconds_of(epoch), epoch, rows))

    def start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        """Run a method in a thread of its own; what it raises ends all."""

        def run() -> None:
            try:
                work(*arguments)
            except BaseException as failure:
                self.failures.append(failure)
                self.ended.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


class Driver:
    """The process that flushes without end, as the driver of a project does; it can be killed and started again."""

    def __init__(self, url: str) -> None:
        self._words = [sys.executable, "-W", "ignore", "-m", "benchmarks.live_change", "--drive", url]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None and process.stdout.readline() == "flushed\n"
        return process

    def check(self) -> None:
        """Raise RuntimeError if it has ended by itself."""
        if (status := self._process.poll()) is not None:
            raise RuntimeError(f"the driver ended with {status}")

    def kill(self) -> None:
        """Kill it where it stands, and start another."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def stop(self) -> None:
        """Have it end after the flush that it is in."""
        self._process.communicate("", timeout=120)


def drive(url: str) -> None:
    """Flush without end, until standard input is closed."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    with Session(url, "local[2]", epochs_in_flight=4) as session:
        session.flush().raise_for_errors()
        print("flushed", flush=True)
        while not ended.wait(0.02):
            session.flush(wait=False, sink_seconds=SINK_SECONDS).raise_for_errors()


@contextmanager
def run_driver(url: str) -> Iterator[Driver]:
    """Start a driver that is stopped at the end."""
    driver = Driver(url)
    try:
        yield driver
    finally:
        driver.stop()


def fill(session: Session, rows: int, folder: Path) -> None:
    """Make the table, the views, the sink and the Delta table."""
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    rng = np.random.default_rng(0)
    for begin in range(0, rows, 500_000):
        ids = np.arange(begin, min(rows, begin + 500_000))
        columns = {"id": ids, "g": rng.integers(0, GROUPS, len(ids)), "n": rng.integers(0, 100, len(ids))}
        session.write("t", pa.table(columns))
    options = f"connector = 'delta', path = '{folder / 'lake'}', gate = '{GATE}'"
    session.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {BEFORE}")
    for name, query in READERS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.sql(
        f"CREATE SINK s FROM v WITH (connector = 'file', path = '{folder / 'out'}', format = 'jsonl')"
    )
    session.flush().raise_for_errors()


def list_rows(rows: pa.Table) -> list[Row]:
    """Return rows as tuples in the order of their key."""
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))


class Judge:
    """DuckDB's answers to queries over the table at an epoch: of rows that come in the order of their ids, the first so many."""

    def __init__(self, url: str) -> None:
        self._session, self._batch = Session(url), duckdb.connect()
        self._known: dict[tuple[int, str], list[Row]] = {}
        self._numbers: dict[int, int] = {}
        rows = self._session.sql("SELECT * FROM t")
        self._batch.execute("CREATE TABLE all_rows AS SELECT * FROM rows")
        assert rows is not None and rows.num_rows == rows.column("id").to_numpy().max() + 1

    def compute(self, epoch: int, query: str) -> list[Row]:
        """Return the query's rows over the table at the epoch, in the order of their key."""
        if epoch not in self._numbers:
            count = self._session.sql(f"SELECT count(*) AS n FROM t FOR SYSTEM_TIME AS OF {epoch}")
            assert count is not None
            self._numbers[epoch] = count.column("n")[0].as_py()
        number = self._numbers[epoch]
        if (number, query) not in self._known:
            rows = f"WITH t AS (SELECT * FROM all_rows WHERE id < {number}) {query}"
            self._known[number, query] = sorted(self._batch.execute(rows).fetchall())
        return self._known[number, query]


def is_difference(found: TableDiff, judge: Judge, after: str) -> bool:
    """Whether the difference that the gate has asked is that of DuckDB's answers to both queries."""
    old = {row[0]: row for row in judge.compute(found.to_epoch, BEFORE)}
    new = {row[0]: row for row in judge.compute(found.to_epoch, after)}
    changed = {g for g in old.keys() & new.keys() if (old[g][1], old[g][-1]) != (new[g][1], new[g][-1])}
    counts = (len(new.keys() - old.keys()), len(old.keys() - new.keys()), len(changed))
    shown = {row["g"]: (row["_old_total"], row["total"]) for row in found.rows.to_pylist()}
    expected = {g: (old[g][1], new[g][1]) for g in changed}
    return (found.inserted, found.deleted, found.updated) == counts and shown == expected


def wait_until(found: Callable[[], object], driver: Driver, world: World) -> None:
    """Wait until something is so; raises what a thread has raised, and TimeoutError after ten minutes."""
    deadline = time.monotonic() + 600
    while not found():
        driver.check()
        if world.failures:
            raise world.failures[0]
        if time.monotonic() > deadline:
            raise TimeoutError("the change did not come to its end within ten minutes")
        time.sleep(0.01)


@dataclass
class Times:
    """When the statement was given, when the gate held the change up, when it was approved, and when it had taken over."""

    began: float
    held: float
    approved: float
    ended: float


def change(world: World, driver: Driver, after: str, kills: list[float]) -> tuple[Times, TableDiff]:
    """Give the view its next query and approve what the gate holds up; the driver is killed so many seconds after each start."""
    with Session(world.url, "local[2]") as session:

        def find() -> Any:
            return list_successions(session.store.refresh()).get("v")

        began = time.time()
        session.sql(f"ALTER MATERIALIZED VIEW v AS {after}", build=False)
        for seconds in kills[:-1]:
            time.sleep(seconds)
            driver.kill()
        wait_until(lambda: find().held, driver, world)
        held = time.time()
        print(f"the gate: {find().held}", flush=True)
        found = session.diff_pending("v", limit=None)
        approved = time.time()
        session.approve("v")
        for seconds in kills[-1:]:
            time.sleep(seconds)
            driver.kill()
        wait_until(lambda: not find(), driver, world)
        return Times(began, held, approved, time.time()), found


def read_changes(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """Return what the file sink was brought, by epoch."""
    found: dict[int, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            change = json.loads(line)
            found.setdefault(change.pop("_epoch"), []).append(change)
    return found


def apply_changes(changes: dict[int, list[dict[str, Any]]]) -> dict[int, dict[int, dict[str, Any]]]:
    """Return the rows that a sink holds after each epoch, by their key."""
    rows: dict[int, dict[str, Any]] = {}
    found = {}
    for epoch, lines in changes.items():
        rows = dict(rows)
        for line in lines:
            row = {name: value for name, value in line.items() if name != "_op"}
            if line["_op"] == "delete":
                del rows[row["g"]]
            else:
                rows[row["g"]] = row
        found[epoch] = rows
    return found


def check_sink(folder: Path, judge: Judge, after: str, times: Times) -> tuple[int, int, int]:
    """Return rows of the sink's epoch that swaps, rows of it that nothing needs, and wrong contents near it and at the end."""
    changes = read_changes(folder)
    held, epochs = apply_changes(changes), [*changes]
    near = {e for e in epochs if times.approved - NEAR_SECONDS < seconds_of(e) < times.ended + NEAR_SECONDS}
    swap, wrong = 0, 0
    for epoch in sorted({*near, *epochs[-10:]}):
        found = sorted((row["g"], row["total"], row["c"]) for row in held[epoch].values())
        has_changed = found == [(row[0], row[1], row[-1]) for row in judge.compute(epoch, after)]
        swap = swap or (epoch if has_changed else 0)
        wrong += not has_changed and (bool(swap) or found != judge.compute(epoch, BEFORE))
    if not swap:
        return 0, 0, wrong + 1
    before = held[epochs[epochs.index(swap) - 1]]
    needless = len(changes[swap]) - sum(before.get(g) != row for g, row in held[swap].items())
    return len(changes[swap]), needless, wrong


def find_wrong_targets(folder: Path, rows: pa.Table, judge: Judge, world: World, query: str) -> list[str]:
    """Return which of the Delta table and the two readers are not what they must be at the end."""
    wrong = []
    with duckdb.connect() as batch, Session(world.url, "local[2]") as session:
        batch.register("v", rows)
        for name, reader in READERS.items():
            got = session.sql(f"SELECT * FROM {name}")
            assert got is not None
            wrong += [name] if list_rows(got) != sorted(batch.execute(reader).fetchall()) else []
        lake = session.spark.read.format("delta").load(str(folder / "lake"))
        found = lake.select(*rows.column_names).toArrow()
        wrong += ["the Delta table"] if list_rows(found) != list_rows(rows) else []
        wrong += ["the view"] if list_rows(rows) != judge.compute(session.common_epoch("v"), query) else []
    return wrong


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--change", choices=[*AFTER], default="values")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drive", metavar="URL", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run it and print what was measured."""
    options = parse_arguments()
    if options.drive:
        drive(options.drive)
        return 0
    folder, after = Path(tempfile.mkdtemp(prefix="tideline-live-")), AFTER[options.change]
    world, rng = World((folder / "store").as_uri(), options.rate), random.Random(options.seed)
    with Session(world.url, "local[2]") as session:
        fill(session, options.rows, folder)
    with run_driver(world.url) as driver:
        threads = [world.start(world.write, options.rows)]
        time.sleep(WARM_SECONDS)
        threads.append(world.start(world.read))
        time.sleep(options.seconds)
        times, pending = change(world, driver, after, [rng.uniform(0, 3) for _ in range(options.kills)])
        time.sleep(options.seconds)
        world.ended.set()
        for thread in threads:
            thread.join(60)
    if world.failures:
        raise world.failures[0]
    with Session(world.url, "local[2]") as session:
        session.deliver(session.flush(), 120).raise_for_errors()
        final = session.sql("SELECT * FROM v")
        assert final is not None
    built, swapped = times.held - times.began, 1000 * (times.ended - times.approved)
    print(f"built in {built:.1f} s beside {options.rate:,} rows/s, with {options.kills} kills of the driver")
    print(f"taken over {swapped:.0f} ms after the approval")
    spans = {
        "before": (0.0, times.began),
        "while it was built and waited": (times.began, times.approved),
        "at the swap and after": (times.approved, time.time()),
    }
    for name, (begin, end) in spans.items():
        ages = [one.age for one in world.readings if begin <= one.at < end]
        if ages:
            print(f"{name}: {len(ages)} reads, the oldest content {max(ages):.2f} s old")
    judge = Judge(world.url)
    agrees = is_difference(pending, judge, after)
    print(
        f"the difference that the gate shows: {pending.changed:,} rows, {'that' if agrees else 'NOT that'} of DuckDB"
    )
    rows, needless, wrong_epochs = check_sink(folder / "out", judge, after, times)
    print(
        f"the sink was brought {rows:,} rows at the swap, {needless:,} needless; {wrong_epochs} of its contents wrong"
    )
    wrong = sum(
        all(judge.compute(one.epoch, query) != list_rows(one.rows) for query in (BEFORE, after))
        for one in world.readings
    )
    columns = Counter(one.rows.num_columns for one in world.readings)
    print(f"{len(world.readings)} contents read, {wrong} wrong; by their columns {dict(columns)}")
    targets = find_wrong_targets(folder, final, judge, world, after)
    print("at the end: " + ("all right" if not targets else f"wrong: {', '.join(targets)}"))
    return int(bool(wrong or targets or needless or wrong_epochs or not agrees))


if __name__ == "__main__":
    sys.exit(main())
