"""A view is given another query while rows come in: how old its content gets, what the swap takes, and what a sink is brought.

`python -m benchmarks.live_change [--rows 3000000] [--rate 1000] [--seconds 5]` fills a table, keeps a view over it, two views
over that one and a file sink, and lets a driver flush without end while a writer adds rows by the second. Then the view gets
another query in the background. It prints how long the new content was built, the seconds of the epoch that swaps, the rows that
the sink was brought in it beside those that differ by DuckDB, and the oldest content that a reader has met, before, meanwhile and
after. Each content that was read is compared with DuckDB's over the rows of its epoch. It ends with 1 if one of them differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from engine.hummock.epoch import seconds_of
from engine.meta.catalog.successions import list_successions
from engine.session import Session

GROUPS = 20_000
BEFORE = "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
AFTER = "SELECT g, sum(CASE WHEN g % 10 = 0 THEN n + 1 ELSE n END) AS total, count(*) AS c FROM t GROUP BY g"
READERS = {
    "by_count": "SELECT c, count(*) AS groups, sum(total) AS total FROM v GROUP BY c",
    "large": "SELECT g, total FROM v WHERE total > 100000",
}


@dataclass
class Reading:
    """What a reader has met: when, how old the content was, and what it was."""

    at: float
    age: float
    epoch: int
    rows: pa.Table


@dataclass
class World:
    """A store that is written, flushed and read by threads of their own until `ended`."""

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

    def start(self, work: object, *arguments: object) -> threading.Thread:
        """Run a method in a thread of its own; what it raises ends all."""

        def run() -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as failure:
                self.failures.append(failure)
                self.ended.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


def fill(session: Session, rows: int, sink: Path) -> None:
    """Make the table, the views and the sink."""
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    rng = np.random.default_rng(0)
    for begin in range(0, rows, 500_000):
        ids = np.arange(begin, min(rows, begin + 500_000))
        session.write(
            "t",
            pa.table(
                {"id": ids, "g": rng.integers(0, GROUPS, len(ids)), "n": rng.integers(0, 100, len(ids))}
            ),
        )
    session.sql(f"CREATE MATERIALIZED VIEW v AS {BEFORE}")
    for name, query in READERS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.sql(f"CREATE SINK s FROM v WITH (connector = 'file', path = '{sink}', format = 'jsonl')")
    session.flush().raise_for_errors()


def drive(world: World, session: Session) -> None:
    """Flush without end, as the driver of a project does."""
    while not world.ended.is_set():
        session.flush(wait=False).raise_for_errors()
        time.sleep(0.02)


def find_wrong(url: str, world: World) -> int:
    """Return how many readings are neither the old query's nor the new one's over the rows of their epoch."""
    wrong = 0
    with Session(url) as session:
        for reading in world.readings:
            rows = session.sql(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {reading.epoch}")
            judge = duckdb.connect()
            judge.register("t", rows)
            got = sorted(zip(*(reading.rows.column(n).to_pylist() for n in ("g", "total", "c")), strict=True))
            wrong += all(sorted(judge.execute(query).fetchall()) != got for query in (BEFORE, AFTER))
    return wrong


def main() -> int:
    """Run it and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tideline-live-"))
    world = World((folder / "store").as_uri(), options.rate)
    with Session(world.url, "local[2]", epochs_in_flight=4) as session:
        fill(session, options.rows, folder / "out")
        threads = [
            world.start(drive, world, session),
            world.start(world.write, options.rows),
            world.start(world.read),
        ]
        time.sleep(options.seconds)
        began = time.time()
        with Session(world.url, "local[2]") as other:
            other.sql(f"ALTER MATERIALIZED VIEW v AS {AFTER}", build=False)
            copied = None
            while (found := list_successions(other.store.refresh()).get("v")) and not world.ended.is_set():
                copied = copied or (time.time() if found.copied else None)
                time.sleep(0.01)
        ended = time.time()
        time.sleep(options.seconds)
        world.ended.set()
        for thread in threads:
            thread.join(60)
        for failure in world.failures:
            raise failure
        session.flush().raise_for_errors()
        final = session.sql("SELECT * FROM v")
        assert final is not None
    copied = copied or ended
    print(
        f"built in {copied - began:.1f} s beside {options.rate:,} rows/s; swapped in {1000 * (ended - copied):.0f} ms"
    )
    spans = {
        "before": (0.0, began),
        "while it was built": (began, copied),
        "at the swap and after": (copied, time.time()),
    }
    for name, (begin, end) in spans.items():
        ages = [one.age for one in world.readings if begin <= one.at < end]
        if ages:
            print(f"{name}: {len(ages)} reads, the oldest content {max(ages):.2f} s old")
    lines = [
        json.loads(x)
        for path in sorted((folder / "out").glob("*.jsonl"))
        for x in path.read_text().splitlines()
    ]
    by_epoch: dict[object, int] = {}
    for line in lines:
        by_epoch[line.get("_epoch")] = by_epoch.get(line.get("_epoch"), 0) + 1
    later = sorted(by_epoch.items(), key=lambda one: str(one[0]))[1:]
    print(
        f"rows to the sink by epoch, beside the first: at most {max(n for _, n in later):,}; {len(later)} epochs"
    )
    print(f"groups that differ by the two queries: {GROUPS // 10:,}")
    wrong = find_wrong(world.url, world)
    print(f"{len(world.readings)} contents read, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
