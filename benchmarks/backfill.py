"""A new view over a large table while rows are written: what it costs the running views, and what killing it costs.

`python -m benchmarks.backfill [--rows 10000000] [--kills 10] [--before 15] [--rate 1000]`

A child process writes `rate` rows a second and flushes, epoch after epoch; the new view is created in the background and the
child is killed (SIGKILL, Spark and all) again and again. Measured: the running views' median epoch time against that without it,
one half before and one half after, each time in the same epochs of a process's life, since a new one is slow (limit 1.3 x), and
the rows that all attempts together have read of the table (limit 1.1 x). Checked: the view equals a batch run; a rate limit of 0
stops it within one epoch; a second view that is dropped on its way leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from engine.hummock import Hummock
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, list_creations
from engine.runtime.backfill.pace import limit_step_rows
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session

EPOCH_LIMIT = 1.3
CHUNK = 1_000_000
WARM_UP = 3
DEADLINE = 900.0
RUNNING = {
    "by_shop": "SELECT shop, count(*) AS n, sum(price) AS total FROM sale GROUP BY shop",
    "dear": "SELECT id, shop, price FROM sale WHERE price > 995",
}
NEW = "SELECT price, count(*) AS n, sum(shop) AS shops FROM sale GROUP BY price"
BACKGROUND_SECONDS = 0.2
"""Of each epoch; short, so that there are epochs to measure between two kills."""


def make_sales(ids: np.ndarray, seed: int) -> pa.Table:
    """Return rows with the given ids."""
    chance = np.random.default_rng(seed)
    return pa.table({"id": ids, "shop": ids % 10_007, "price": chance.integers(0, 1000, len(ids))})


class RecordingExecutor:
    """Passes tasks on; writes down the rows of each piece of a backfill before it is read."""

    def __init__(self, inner: Any, file: Path) -> None:
        self.inner, self.file = inner, file

    @property
    def parallelism(self) -> int:
        """That of the executor behind."""
        return self.inner.parallelism

    def compute(self, task: FragmentTask) -> TaskResult:
        """Note and compute a task."""
        if task.piece is not None:
            with self.file.open("a") as notes:
                notes.write(f"{task.fragment.table} {task.rows}\n")
        return self.inner.compute(task)


def run_child(store: str, notes: Path, rows: int, rate: int, spark: str) -> None:
    """The child: write and flush until the word `end`, doing what else the parent says; prints a line per epoch."""
    with Session(store, spark) as session:
        executor = RecordingExecutor(session._runner.executor, notes)
        session._runner.executor = session._runner.backfill.executor = executor
        said: queue.Queue[str] = queue.Queue()

        def listen() -> None:
            for line in sys.stdin:
                said.put(line.strip())
            said.put("end")

        threading.Thread(target=listen, daemon=True).start()
        written_at, chance = time.monotonic(), random.Random(time.time_ns())
        while True:
            with suppress(queue.Empty):
                while True:
                    word = said.get_nowait()
                    if word == "end":
                        return
                    session.sql(word, build=False)
                    print(json.dumps({"did": word}), flush=True)
            now = time.monotonic()
            due = min(5 * rate, max(1, int((now - written_at) * rate)))
            written_at = now
            ids = np.array(sorted({chance.randrange(rows + rows // 50) for _ in range(due)}))
            session.write("sale", make_sales(ids, chance.randrange(1 << 30)))
            report = session.flush(background_seconds=BACKGROUND_SECONDS)
            report.raise_for_errors()
            found = {name: (c.state, c.rows) for name, c in session.backfills().items()}
            seconds = {name: report[name].seconds for name in RUNNING}
            lag = {name: report[name].lag_seconds for name in RUNNING}
            print(json.dumps({"seconds": seconds, "lag": lag, "backfills": found}), flush=True)


class Child:
    """The process that writes and flushes; `epoch` waits for its next line."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.backfill", "--live", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.epochs = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def read_epoch(self) -> dict[str, Any]:
        """Return what the next epoch did."""
        while True:
            line = self._lines.get(timeout=DEADLINE)
            assert line is not None, "the child ended"
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                if "did" not in found:
                    self.epochs += 1
                    return found

    def run_statement(self, statement: str) -> None:
        """Run a statement before the next epoch; returns when it has run."""
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        while True:
            line = self._lines.get(timeout=DEADLINE)
            assert line is not None, "the child ended"
            if line.startswith("{") and json.loads(line).get("did") == statement:
                return

    def let_run(self, seconds: float) -> None:
        """Let it go on for a while; raises AssertionError if it ends by itself."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"the child ended with {code}")

    def kill(self) -> None:
        """Kill it and Spark with it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Let it end by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(DEADLINE)


@dataclass
class BackfillResult:
    """What one run has measured."""

    without: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in RUNNING})
    during: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in RUNNING})
    kills: int = 0
    scanned: int = 0
    rows: int = 0
    seconds: float = 0.0
    epochs_until_stopped: int = 0

    @property
    def scan_limit(self) -> float:
        """What may be read, in tables: each kill costs one step at most, which makes 1.1 with ten kills and 10M rows."""
        return max(1.1, 1 + self.kills * limit_step_rows(self.rows) / self.rows)

    def compute_ratio(self, view: str) -> float:
        """The median epoch time of a running view during the backfill over that without it."""
        return statistics.median(self.during[view]) / statistics.median(self.without[view])


class BackfillRun:
    """One run of the benchmark over a store of its own."""

    def __init__(self, folder: Path, rows: int, rate: int, spark: str = "local[2]") -> None:
        self.store, self.notes = (folder / "store").as_uri(), folder / "steps"
        self.notes.touch()
        self.rows, self.rate, self.spark = rows, rate, spark
        self.chance = random.Random(rows)
        self.done = BackfillResult(rows=rows)
        self.window = 0

    def start(self) -> Child:
        """Start a child."""
        return Child([self.store, str(self.notes), str(self.rows), str(self.rate), self.spark])

    def load(self) -> None:
        """Write the table and build the running views."""
        with Session(self.store, self.spark) as session:
            session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
            for low in range(0, self.rows, CHUNK):
                session.write("sale", make_sales(np.arange(low, min(low + CHUNK, self.rows)), low))
            for name, query in RUNNING.items():
                session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def record_epoch(self, into: dict[str, list[float]], child: Child, epoch: dict[str, Any]) -> None:
        """Keep an epoch's times, unless the child is still warming up, or warmer than those that it is compared with."""
        if WARM_UP < child.epochs <= WARM_UP + self.window:
            for name in RUNNING:
                into[name].append(epoch["seconds"][name])

    def measure(self, kills: int, before: int) -> BackfillResult:
        """Run everything and return what was measured; raises AssertionError where something is wrong."""
        child, self.window = self.start(), max(1, before // 2)
        for _ in range(self.window + WARM_UP):
            self.record_epoch(self.done.without, child, child.read_epoch())
        child.stop()
        child = self.start()
        started = time.perf_counter()
        child.run_statement(f"CREATE MATERIALIZED VIEW fresh WITH (background = 'true') AS {NEW}")
        at, stop_at = 0, kills // 2
        targets = [self.rows * (n + 1) // (kills + 1) for n in range(kills)]
        while True:
            epoch = child.read_epoch()
            state, read = epoch["backfills"].get("fresh", (CONSUMING_SNAPSHOT, 0))
            if state != CONSUMING_SNAPSHOT:
                break
            self.record_epoch(self.done.during, child, epoch)
            if self.done.kills == stop_at and not self.done.epochs_until_stopped:
                self._check_throttle(child)
            elif at < kills and read >= targets[at] and child.epochs > WARM_UP:
                child.let_run(self.chance.uniform(0, BACKGROUND_SECONDS))
                child.kill()
                self.done.kills, at = self.done.kills + 1, at + 1
                child = self.start()
        self.done.seconds = time.perf_counter() - started
        child.read_epoch()
        self._cancel(child)
        child.stop()
        child = self.start()
        for _ in range(self.window + WARM_UP):
            self.record_epoch(self.done.without, child, child.read_epoch())
        child.stop()
        self.done.scanned = sum(
            int(words[1])
            for words in map(str.split, self.notes.read_text().splitlines())
            if words[0] == "fresh"
        )
        self._check()
        return self.done

    def _check_throttle(self, child: Child) -> None:
        """A rate limit of 0 stops the backfill within one epoch, and it goes on when the limit is lifted."""
        child.run_statement("ALTER MATERIALIZED VIEW fresh SET (backfill_rate_limit = 0)")
        read = [child.read_epoch()["backfills"]["fresh"][1] for _ in range(4)]
        assert read[1] == read[2] == read[3], f"rate limit 0 did not stop the backfill: {read}"
        self.done.epochs_until_stopped = 1
        child.run_statement("ALTER MATERIALIZED VIEW fresh SET (backfill_rate_limit = 1000000000)")

    def _cancel(self, child: Child) -> None:
        """A view that is dropped while it is created leaves no table, no hold on a log, and no note."""
        child.run_statement(f"CREATE MATERIALIZED VIEW cancelled WITH (background = 'true') AS {NEW}")
        found = child.read_epoch()["backfills"]
        while found.get("cancelled", ("", 0))[1] == 0:
            found = child.read_epoch()["backfills"]
        child.run_statement("DROP MATERIALIZED VIEW cancelled")
        child.read_epoch()
        version = Hummock.open(self.store).refresh()
        holders = [name for name, t in version.tables.items() if "cancelled" in {*t.acks, *t.pins}]
        entries = [key for key in version.catalog if "cancelled" in key]
        assert "cancelled" not in version.tables and not holders and not entries, (
            f"left behind: {holders} {entries}"
        )

    def _check(self) -> None:
        """Compare all views with a batch run over the rows at their epoch."""
        with Hummock.open(self.store) as store, duckdb.connect() as batch:
            version = store.refresh()
            assert list_creations(version)["fresh"].state != CONSUMING_SNAPSHOT
            for name, query in {**RUNNING, "fresh": NEW}.items():
                table, epoch = version.tables[name], version.tables[name].committed_epoch
                rows = pa.Table.from_batches(store.iter("sale", epoch=epoch))
                batch.register("sale", rows)
                columns = table.schema.names[: len(query.split(" FROM ")[0].split(", "))]
                view = pa.Table.from_batches(store.iter(name, epoch=epoch, columns=columns))
                batch.register("view", view)
                expected = f"SELECT {', '.join(columns)} FROM ({query})"
                wrong = batch.execute(
                    f"SELECT count(*) FROM ((FROM view EXCEPT ALL {expected}) UNION ALL ({expected} EXCEPT ALL FROM view))"
                ).fetchall()
                assert wrong == [(0,)], f"{name} differs from a batch run in {wrong} rows"


def main() -> None:
    """Print times, ratios and rows; ends with 1 where a limit is broken."""
    if sys.argv[1:2] == ["--live"]:
        store, notes, rows, rate, spark = sys.argv[2:]
        return run_child(store, Path(notes), int(rows), int(rate), spark)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--before", type=int, default=15)
    options = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        run = BackfillRun(Path(folder), options.rows, options.rate)
        run.load()
        console.print(f"{options.rows:,} rows written, running views built")
        done = run.measure(options.kills, options.before)
    table = Table("running view", "epoch s without (median)", "epoch s during the backfill", "ratio", "limit")
    for name in RUNNING:
        without, during = statistics.median(done.without[name]), statistics.median(done.during[name])
        table.add_row(
            name, f"{without:.3f}", f"{during:.3f}", f"{done.compute_ratio(name):.2f}", f"{EPOCH_LIMIT}"
        )
    console.print(table)
    scanned = done.scanned / done.rows
    console.print(
        f"backfill of {done.rows:,} rows in {done.seconds:.0f} s with {done.kills} kills: {done.scanned:,} rows read, "
        f"{scanned:.3f} x the table (limit {done.scan_limit:.2f}); all views equal a batch run; rate limit 0 stopped it within "
        f"{done.epochs_until_stopped} epoch; a cancelled view left nothing behind"
    )
    broken = scanned > done.scan_limit or any(done.compute_ratio(name) > EPOCH_LIMIT for name in RUNNING)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
