"""First rows and changes that a sink brings to PostgreSQL, beside a plain COPY of the same rows by psycopg.

    python -m benchmarks.postgres_sink [rows] [changes] [rounds]

A server of its own is started, as the tests have it. Both load the same rows (a whole number, a text, a double) into tables with
a primary key, in turns: the sink out of the store, the plain COPY from tuples in memory, row by row. Then changes, half of
them updates, a quarter insertions and a quarter deletions, go to the sink's table. Printed are rows a second, and the ratio of
the first loads.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.session import Session
from tests.connectors.postgres.server import Database, get_server, stop_server
from tests.connectors.postgres.sink.targets import place, write


def make_rows(keys: np.ndarray, number: int) -> pa.Table:
    """Return rows for some keys as round `number` writes them."""
    names = pa.array([f"name {key} {number}" for key in keys])
    return pa.table({"id": pa.array(keys, pa.int64()), "v": names, "d": pa.array(keys * 0.7 + number)})


def load_plainly(database: Database, table: str, rows: Sequence[tuple[object, ...]]) -> float:
    """Load rows as a program of a few lines would; return the seconds."""
    started = time.perf_counter()
    with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, v text, d double precision)")
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()
    return time.perf_counter() - started


def deliver(session: Session) -> float:
    """Deliver what waits; return the seconds."""
    session.store.refresh()
    started = time.perf_counter()
    (report,) = session.sinks.run(wait_seconds=3600)
    assert report.error is None and report.lag_rows == 0, report
    return time.perf_counter() - started


def main(rows: int, changes: int, rounds: int) -> None:
    """Run both in turns and print what they took."""
    chance = np.random.default_rng(1)
    database = get_server().create_database()
    with tempfile.TemporaryDirectory() as folder, Session((Path(folder) / "store").as_uri()) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING, d DOUBLE)")
        keys = np.arange(rows)
        session.write("t", make_rows(keys, 0))
        tuples = list(zip(*(column.to_pylist() for column in make_rows(keys, 0).columns), strict=True))
        first: dict[str, list[float]] = {"sink": [], "COPY": []}
        for number in range(rounds):
            session.sql(write(f"s{number}", **place(database, f"t{number}")), build=False)
            first["sink"].append(deliver(session))
            if number < rounds - 1:
                session.sql(f"DROP SINK s{number}")
            first["COPY"].append(load_plainly(database, f"plain{number}", tuples))
            print(
                f"first load {number}: "
                + ", ".join(f"{kind} {took[-1]:.2f} s" for kind, took in first.items())
            )
        loaded = {kind: statistics.median(took) for kind, took in first.items()}
        brought = []
        for number in range(1, rounds + 1):
            picked = chance.choice(keys, 3 * changes // 4, replace=False)
            gone, changed = picked[: changes // 4], picked[changes // 4 :]
            new = np.arange(keys.max() + 1, keys.max() + 1 + changes - len(picked))
            session.write("t", make_rows(np.concatenate([changed, new]), number))
            session.write("t", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
            keys = np.setdiff1d(np.concatenate([keys, new]), gone)
            brought.append(deliver(session))
            print(f"changes {number}: {brought[-1]:.2f} s")
        assert database.ask(f"SELECT count(*) FROM t{rounds - 1}") == [(len(keys),)]
    ratio = loaded["COPY"] / loaded["sink"]
    print(f"{rows:,} first rows: sink {rows / loaded['sink']:,.0f} rows/s, ratio to COPY {ratio:.2f}")
    print(f"{changes:,} changes: {changes / statistics.median(brought):,.0f} rows/s")


if __name__ == "__main__":
    try:
        main(*map(int, [*sys.argv[1:], *("1000000", "100000", "3")[len(sys.argv) - 1 :]]))
    finally:
        stop_server()
