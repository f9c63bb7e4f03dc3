"""A chain of three views over two tables, which tests of shared actions bring on, and compare with DuckDB."""

from __future__ import annotations

import pyarrow as pa

from engine.runtime.epoch.report import FlushReport
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

SUMS = "SELECT auction, count(*) AS n, sum(price) AS total FROM bid GROUP BY auction"
NAMED = "SELECT a.id, a.seller, s.n, s.total FROM auction a JOIN sums s ON s.auction = a.id"
SELLERS = "SELECT seller, count(*) AS n, sum(total) AS total FROM named GROUP BY seller"
VIEWS = {"sums": SUMS, "named": NAMED, "sellers": SELLERS}
WHOLE = {
    "sums": SUMS,
    "named": f"SELECT a.id, a.seller, s.n, s.total FROM auction a JOIN ({SUMS}) s ON s.auction = a.id",
}
WHOLE["sellers"] = (
    f"SELECT seller, count(*) AS n, sum(total) AS total FROM ({WHOLE['named']}) GROUP BY seller"
)


def bids(seed: int, price: int | None = None) -> pa.Table:
    numbers = range(12)
    return pa.table(
        {
            "id": [(seed * 5 + i) % 40 for i in numbers],
            "auction": [(seed + i) % 7 for i in numbers],
            "price": [seed * 10 + i if price is None else price for i in numbers],
        }
    )


def create(session: Session) -> None:
    """Make a chain of three views, with their first content."""
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, seller BIGINT)")
    session.write("auction", pa.table({"id": range(7), "seller": [i % 3 for i in range(7)]}))
    session.write("bid", bids(0))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.flush().raise_for_errors()


def start(session: Session) -> None:
    """Make a chain of three views, and run it until its frames are known."""
    create(session)
    step(session, 1)


def step(session: Session, seed: int) -> FlushReport:
    session.write("bid", bids(seed), mode="upsert")
    report = session.flush()
    check(session)
    return report


def check(session: Session) -> None:
    tables = {name: content(session, name) for name in ("bid", "auction")}
    for name, query in WHOLE.items():
        assert_equal(content(session, name), by_duckdb(tables, query), name)


def list_shared(report: FlushReport) -> set[str]:
    return {view.view for view in report.views if "shared" in view.stages}
