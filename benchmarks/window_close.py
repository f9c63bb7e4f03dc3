"""`python -m benchmarks.window_close`: the size of states of a view that emits on window close, over many epochs.

Each epoch brings rows of the next five minutes; the view counts them by hour and key. Every 20 epochs tables are compacted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from engine.session import Session

START = datetime(2024, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=5)
VIEW = (
    "SELECT window_start, k, count(*) AS c, max(n) AS m, count(DISTINCT n) AS d "
    "FROM TUMBLE(t, ts, INTERVAL '1' HOUR) GROUP BY window_start, k"
)


def make_rows(epoch: int, count: int) -> pa.Table:
    """Return the rows of an epoch."""
    times = [START + epoch * STEP + STEP * n / count for n in range(count)]
    columns = {"ts": times, "k": [n % 50 for n in range(count)], "n": [n * 7 % 20 for n in range(count)]}
    kinds = [("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("n", pa.int64())]
    return pa.table(columns, schema=pa.schema(kinds))


def measure_live_bytes(session: Session, tables: tuple[str, ...]) -> int:
    """Return the bytes of the files that hold what tables are now."""
    version = session.store.refresh()
    return sum(sst.length for name in tables for sst in version.tables[name].live_ssts)


def run(epochs: int, count: int, closes: bool) -> None:
    """Run the epochs, and print what the states take and how long an epoch lasts."""
    clause = " EMIT ON WINDOW CLOSE" if closes else ""
    with tempfile.TemporaryDirectory() as folder, Session(f"file://{folder}/store") as session:
        session.sql(
            "CREATE TABLE t (ts TIMESTAMP, k INT, n BIGINT, WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) APPEND ONLY"
        )
        session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}{clause}")
        tables = tuple(f.table for f in session.stored.plans["v"].fragments[:-1])
        seconds: list[float] = []
        for epoch in range(1, epochs + 1):
            session.write("t", make_rows(epoch, count))
            started = time.perf_counter()
            session.flush().raise_for_errors()
            seconds.append(time.perf_counter() - started)
            if epoch % 20 == 0:
                for name in tables:
                    session.store.compact(name)
            if epoch in (epochs // 10, epochs):
                size = measure_live_bytes(session, tables)
                lasted = statistics.median(seconds[-20:])
                print(
                    f"{'closes' if closes else 'follows'} epoch {epoch}: {size} bytes, {lasted:.3f} s an epoch"
                )


def main() -> None:
    """Read the arguments and run with the clause, and without it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=500)
    given = parser.parse_args()
    for closes in (True, False):
        run(given.epochs, given.rows, closes)


if __name__ == "__main__":
    main()
