"""A stream of small epochs that can be killed at any moment: each batch is written once, whatever happened before.

Run as a program: `python -m tests.crash.stream STORE EPOCHS SPARK`; prints a line per epoch.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from engine.session import Session

ROWS = 20
VIEWS = {
    "totals": "SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS high FROM bid GROUP BY auction",
    "named": "SELECT b.id, b.batch, b.price, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id",
    "items": "SELECT item, count(*) AS n, sum(price) AS total FROM named GROUP BY item",
}


def bids(batch: int) -> pa.Table:
    """Return the rows of a batch: half of them new, half updates of the batch before."""
    ids = [batch * ROWS // 2 + i for i in range(ROWS)]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "auction": pa.array([i % 7 for i in ids], pa.int64()),
            "price": pa.array([(i * 31 + batch * 17) % 1000 for i in ids], pa.int64()),
            "batch": pa.array([batch] * ROWS, pa.int64()),
        }
    )


def create(session: Session) -> None:
    """Create the tables and views that are missing."""
    session.sql(
        "CREATE TABLE IF NOT EXISTS bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, batch BIGINT)"
    )
    session.sql("CREATE TABLE IF NOT EXISTS auction (id BIGINT PRIMARY KEY, item STRING)")
    items = pa.table({"id": pa.array(range(5), pa.int64()), "item": ["a", "b", "c", "a", "b"]})
    session.write("auction", items)
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {query}")


def next_batch(session: Session) -> int:
    """Return the number of the first batch that is not in the store."""
    rows = session.sql("SELECT batch FROM bid ORDER BY batch DESC LIMIT 1")
    assert rows is not None
    return rows.column("batch")[0].as_py() + 1 if rows.num_rows else 0


def run(store: str, epochs: int, spark: str) -> None:
    """Write what is left of the stream, flushing after each batch."""
    with Session(store, spark) as session:
        create(session)
        while (batch := next_batch(session)) < epochs:
            session.write("bid", bids(batch))
            session.flush().raise_for_errors()
            print(f"epoch {batch}", flush=True)
        session.flush().raise_for_errors()
    print("done", flush=True)


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
