"""What following a table costs: seconds an epoch with and without acknowledgements, and those of a writer beside a follower.

    python -m benchmarks.subscriptions [epochs] [rows]

Each epoch updates 1,000 of the table's rows. Nothing needs Spark.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.session import Session

CHANGED = 1_000


def write_epochs(session: Session, numbers: range, rows: int) -> list[float]:
    """Update rows epoch by epoch, by the epochs' numbers, and return the seconds of each."""
    chance, seconds = np.random.default_rng(numbers.start), []
    for n in numbers:
        ids = chance.choice(rows, CHANGED, replace=False)
        table = pa.table({"id": ids, "v": np.full(CHANGED, n + 1), "name": [f"name {id}" for id in ids]})
        started = time.perf_counter()
        session.write("t", table)
        seconds.append(time.perf_counter() - started)
    return seconds


def read_epochs(session: Session, *, acknowledge: bool) -> tuple[int, int, float]:
    """Read what a subscription has; return epochs, changed rows, and seconds."""
    started, epochs, rows = time.perf_counter(), 0, 0
    for item in session.subscribe("s", acknowledge=acknowledge):
        epochs, rows = epochs + 1, rows + item.changes.num_rows
    return epochs, rows, time.perf_counter() - started


def main() -> None:
    """Print what was measured."""
    epochs, rows = (int(word) for word in [*sys.argv[1:], *("200", "100000")[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as folder, Session((Path(folder) / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, name STRING)")
        names = [f"name {id}" for id in range(rows)]
        session.write("t", pa.table({"id": np.arange(rows), "v": np.zeros(rows, np.int64), "name": names}))
        alone = write_epochs(session, range(epochs), rows)
        session.sql("CREATE SUBSCRIPTION s FROM t")
        held = write_epochs(session, range(epochs, 2 * epochs), rows)
        for acknowledge in (False, True):
            count, changed, seconds = read_epochs(session, acknowledge=acknowledge)
            what = "each acknowledged" if acknowledge else "none acknowledged"
            print(f"{count} epochs, {changed:,} rows, {what}: {1000 * seconds / count:.1f} ms an epoch")
        taken, delays = threading.Event(), list[float]()

        def follow() -> None:
            with session.subscribe("s", follow=True, poll_seconds=0.02) as subscriber:
                for item in subscriber:
                    delays.append(time.time() - item.time.timestamp())
                    if len(delays) == epochs:
                        taken.set()
                        return

        follower = threading.Thread(target=follow)
        follower.start()
        beside = write_epochs(session, range(2 * epochs, 3 * epochs), rows)
        taken.wait(60)
        follower.join(60)
        for what, found in (("without", alone), ("held by", held), ("followed by", beside)):
            print(
                f"a write of {CHANGED:,} rows, {what} a subscription: {1000 * statistics.median(found):.1f} ms"
            )
        print(f"a change is with its follower after {1000 * statistics.median(delays):.0f} ms (median)")


if __name__ == "__main__":
    main()
