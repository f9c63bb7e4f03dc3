"""`python -m benchmarks.interval_join`: the size of what a join of times near each other looks up, over many epochs.

Each epoch brings rows of the next five minutes on both sides; a row meets those of its key within ten minutes. Every 20 epochs
tables are compacted. Beside it stands the same join of tables without watermarks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from benchmarks.window_close import make_rows, measure_live_bytes
from engine.session import Session

VIEW = (
    "SELECT t.n, u.n AS m, t.k, t.ts FROM t JOIN u ON t.k = u.k "
    "AND t.ts BETWEEN u.ts - INTERVAL '10' MINUTE AND u.ts + INTERVAL '10' MINUTE"
)


def run(epochs: int, count: int, lets_go: bool) -> None:
    """Run the epochs, and print what is looked up takes and how long an epoch lasts."""
    clause = ", WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE" if lets_go else ""
    with tempfile.TemporaryDirectory() as folder, Session(f"file://{folder}/store") as session:
        for name in ("t", "u"):
            session.sql(f"CREATE TABLE {name} (ts TIMESTAMP, k INT, n BIGINT{clause}) APPEND ONLY")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
        seconds: list[float] = []
        for epoch in range(1, epochs + 1):
            for name in ("t", "u"):
                session.write(name, make_rows(epoch, count))
            started = time.perf_counter()
            session.flush().raise_for_errors()
            seconds.append(time.perf_counter() - started)
            tables_held = tuple(
                n for n in session.store.refresh().tables if n.startswith(("_state_v", "_index_"))
            )
            if epoch % 20 == 0:
                for name in tables_held:
                    session.store.compact(name)
            if epoch in (epochs // 10, epochs):
                size = measure_live_bytes(session, tables_held)
                tables = session.store.refresh().tables
                there = sum(sst.rows for name in tables_held for sst in tables[name].live_ssts)
                lasted = statistics.median(seconds[-20:])
                what = "with watermarks" if lets_go else "without"
                print(f"{what}, epoch {epoch}: {there:,} rows in {size:,} bytes, {lasted:.2f} s an epoch")


def main() -> None:
    """Run both, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=500)
    given = parser.parse_args()
    for lets_go in (True, False):
        run(given.epochs, given.rows, lets_go)


if __name__ == "__main__":
    main()
