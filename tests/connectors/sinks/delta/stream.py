"""A stream of changes into a table with sinks of Delta tables, which can be killed at any moment.

Run as a program: `python -m tests.connectors.sinks.delta.stream STORE FOLDER WHO BATCHES SPARK`; prints a line per batch. Several
may run over one store, each WHO with rows of its own.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from engine.errors import Conflict, SqlError
from engine.session import Session

KEYS = 12


def change(who: int, batch: int) -> tuple[dict[int, int], list[int]]:
    """Return the rows that a batch writes by their keys, and the keys that it deletes: each batch takes back some of the one before."""
    keys = [who * 1000 + (batch * 5 + n) % KEYS for n in range(6)]
    return {key: batch for key in keys[:4]}, keys[4:]


def expected(writers: int, batches: int) -> dict[int, int]:
    """Return what is left in the table when all batches were written."""
    found: dict[int, int] = {}
    for who in range(writers):
        for batch in range(batches):
            new, gone = change(who, batch)
            found = {**{k: v for k, v in found.items() if k not in gone}, **new}
    return found


def create(session: Session, folder: str) -> None:
    """Create what is missing; another process may do so at the same time."""
    statements = (
        "CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, v BIGINT)",
        "CREATE TABLE IF NOT EXISTS done (who BIGINT PRIMARY KEY, batch BIGINT)",
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS by_value WITH (connector = 'delta', path = '{folder}/by_value') "
        "AS SELECT v, count(*) AS n FROM t GROUP BY v",
        f"CREATE SINK IF NOT EXISTS st FROM t WITH (connector = 'delta', path = '{folder}/t')",
    )
    for statement in statements:
        for _ in range(20):
            try:
                session.sql(statement)
                break
            except (Conflict, SqlError) as error:
                failure = error
        else:
            raise failure


def run(store: str, folder: str, who: int, batches: int, spark: str) -> None:
    """Write what is left of the stream, and deliver after each batch."""
    with Session(store, spark) as session:
        create(session, folder)
        at = session.sql(f"SELECT batch FROM done WHERE who = {who}")
        assert at is not None
        for batch in range(at.column(0)[0].as_py() + 1 if at.num_rows else 0, batches):
            new, gone = change(who, batch)
            ids = pa.array(list(new), pa.int64())
            session.write("t", pa.table({"id": ids, "v": pa.array(list(new.values()), pa.int64())}))
            session.write("t", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
            session.write("done", pa.table({"who": pa.array([who]), "batch": pa.array([batch])}))
            session.flush(sink_seconds=60).raise_for_errors()
            print(batch, flush=True)
        session.sinks.wait(120)
        for report in session.flush(sink_seconds=120).sinks:
            assert report.error is None, report.error
    print("done", flush=True)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
