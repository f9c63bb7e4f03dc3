"""A small session, run as a driver: tables, views, rows in and out, each view compared with DuckDB over the same rows."""

from __future__ import annotations

import sys
import time

from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb

VIEWS = {
    "spent": "SELECT customer, count(*) AS orders, sum(amount) AS spent, max(amount) AS largest FROM orders GROUP BY customer",
    "named": "SELECT o.id, c.name, o.amount FROM orders o LEFT JOIN customers c ON o.customer = c.id",
    "ranked": "SELECT * FROM (SELECT id, customer, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS r "
    "FROM orders) t WHERE r <= 2",
    "known": "SELECT id, name FROM customers WHERE id IN (SELECT customer FROM orders)",
}
TABLES = ("orders", "customers")


def main(store: str) -> None:
    """Run it; prints a line when all is equal."""
    began = time.monotonic()
    with Session(store) as session:
        session.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)")
        session.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING)")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        print(f"views after {time.monotonic() - began:.1f} s", flush=True)
        for number, text in enumerate(statements()):
            session.sql(text)
            session.flush().raise_for_errors()
            assert_views_equal_duckdb(session, TABLES, VIEWS, f"epoch {number}")
            print(f"epoch {number} after {time.monotonic() - began:.1f} s", flush=True)
        read = session.spark.read.format("tideline").option("store", store).load("spent")
        assert read.count() == session.sql("SELECT * FROM spent").num_rows
        print("equal", flush=True)


def statements() -> list[str]:
    """Return what is done, each statement an epoch."""
    return [
        "INSERT INTO orders SELECT id, id % 50, id * 7 % 1000 FROM range(0, 20000)",
        "INSERT INTO customers VALUES (1, 'ann'), (2, NULL), (3, 'cid'), (77, 'dan')",
        "UPDATE orders SET amount = amount + 1, customer = 77 WHERE id % 100 = 5",
        "DELETE FROM orders WHERE customer < 3 OR id > 15000",
        "DELETE FROM customers WHERE id = 3",
        "INSERT INTO orders SELECT id, CASE WHEN id % 3 = 0 THEN NULL ELSE id % 7 END, NULL FROM range(30000, 230000)",
    ]


if __name__ == "__main__":
    main(sys.argv[1])
