"""First rows and changes that a table takes from PostgreSQL, beside a plain COPY of the same rows by psycopg.

    python -m benchmarks.postgres_source [--rows 1000000] [--changes 300000] [--rounds 3]

A server of its own is started, as the tests have it. The table's first poll stores the rows; the plain COPY reads them as tuples
with their types, and keeps nothing. They take turns. Then transactions of a thousand rows each change the table, half of them
updates, a quarter insertions and a quarter deletions, and the polls that take all of them are measured. At the end the rows are
compared. Ends with 1 where the first load is under half of the COPY, or changes are under 50,000 rows a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from engine.session import Session
from tests.connectors.postgres.server import Database, get_server, stop_server

LEAST_RATIO = 0.5
LEAST_CHANGES = 50_000
TRANSACTION_ROWS = 1_000
COLUMNS = "id BIGINT PRIMARY KEY, v STRING, d DOUBLE, at TIMESTAMP"
MADE = "g, 'name ' || g, g * 0.7, '2026-01-01'::timestamptz + g * interval '1 second'"


def fill(database: Database, rows: int) -> None:
    """Make the table in PostgreSQL."""
    database.run(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text, d double precision, at timestamptz)",
        f"INSERT INTO t SELECT {MADE} FROM generate_series(1, {rows}) AS g",
        "CREATE PUBLICATION tideline FOR TABLE t",
        "VACUUM ANALYZE t",
    )


def change(database: Database, rows: int, changes: int) -> None:
    """Change the table by transactions of so many rows."""
    parts = TRANSACTION_ROWS // 4
    for number in range(changes // TRANSACTION_ROWS):
        new, old = rows + number * parts, number * parts
        database.run(
            f"DO $$ BEGIN UPDATE t SET d = d + 1 WHERE id > {rows // 2 + 2 * old} AND id <= {rows // 2 + 2 * (old + parts)}; "
            f"DELETE FROM t WHERE id > {old} AND id <= {old + parts}; "
            f"INSERT INTO t SELECT {MADE} FROM generate_series({new + 1}, {new + parts}) AS g; END $$"
        )


def copy_plainly(database: Database) -> float:
    """Read all rows as a program of a few lines would; return the seconds."""
    started = time.perf_counter()
    with (
        database.connect() as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY t TO STDOUT") as copy,
    ):
        copy.set_types(["int8", "text", "float8", "timestamptz"])
        count = sum(1 for _ in copy.rows())
    assert count
    return time.perf_counter() - started


def poll(session: Session) -> float:
    """Take all that has been written; return the seconds."""
    started = time.perf_counter()
    while True:
        (report,) = session.poll()
        assert report.error is None and not report.dead_rows, report
        if report.epoch is None:
            return time.perf_counter() - started


def compare(session: Session, database: Database) -> None:
    """Raise AssertionError unless the table holds what PostgreSQL's has."""
    query = "SELECT count(*), sum(id), sum(d), sum(length(v)), min(at), max(at) FROM t"
    (here,) = (tuple(row.values()) for row in session.sql(query).to_pylist())
    (there,) = database.ask(query)
    assert [here[at] for at in (0, 1, 3, 4, 5)] == [there[at] for at in (0, 1, 3, 4, 5)], (here, there)
    assert abs(here[2] - there[2]) <= 1e-9 * abs(there[2]), (here, there)


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def main() -> int:
    """Run both in turns and print rows a second."""
    given = parse_arguments()
    first: dict[str, list[float]] = {"table": [], "COPY": []}
    changes: list[float] = []
    for number in range(given.rounds):
        database = get_server().create_database()
        fill(database, given.rows)
        with tempfile.TemporaryDirectory() as folder, Session((Path(folder) / "store").as_uri()) as session:
            session.sql(f"CREATE TABLE t ({COLUMNS}) WITH ({database.options('public.t')})")
            first["COPY"].append(copy_plainly(database))
            first["table"].append(poll(session))
            change(database, given.rows, given.changes)
            changes.append(poll(session))
            compare(session, database)
        shown = ", ".join(f"{kind} {took[-1]:.2f} s" for kind, took in first.items())
        print(f"round {number}: {shown}, changes {changes[-1]:.2f} s")
    table, plain = (statistics.median(first[kind]) for kind in ("table", "COPY"))
    speed = given.changes / statistics.median(changes)
    print(
        f"{given.rows:,} first rows: {given.rows / table:,.0f} rows/s, {plain / table:.2f} of the plain COPY"
    )
    print(f"{given.changes:,} changes: {speed:,.0f} rows/s")
    return int(plain / table < LEAST_RATIO or speed < LEAST_CHANGES)


if __name__ == "__main__":
    try:
        code = main()
    finally:
        stop_server()
    sys.exit(code)
