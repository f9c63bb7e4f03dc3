"""Large statements, files that land in a bucket and Delta tables there, all by tasks, run as a driver; DuckDB judges the rows.

DuckDB runs the same statements over the same rows from the start, and shares nothing with the store.
"""

from __future__ import annotations

import sys

import duckdb
import pyarrow as pa

from engine.connectors.contract.connector import SourceReport
from engine.connectors.delta import source
from engine.connectors.sources import poll_all
from engine.hummock.object_store import open_object_store
from engine.session import Session

ROWS, EPOCHS = 200_000, 3
FILE_ROWS = 300_000
ANSWERS = 200_000
"""Bytes of tasks' answers that pass the driver at most for a statement; its rows are megabytes."""
FILE_ANSWERS = 16 * FILE_ROWS
"""The same for a file, whose rows are twice that: a task may answer with 1 MiB of them."""
BY_CUSTOMER = "SELECT customer, count(*) AS orders, sum(amount) AS spent FROM orders GROUP BY customer"


class Lake:
    """A session over a store in a bucket, and what DuckDB makes of the same."""

    def __init__(self, session: Session, place: str) -> None:
        self.session, self.place = session, place
        self.model = duckdb.connect()
        self._begun = 0

    def begin(self, what: str) -> None:
        """Say that a piece of work begins: what kills workers counts them as epochs, so that each kind meets it once."""
        print(f"{what}\nepoch {self._begun}", flush=True)
        self._begun += 1

    def create(self, name: str, columns: str, options: str = "") -> None:
        """Create a table on both sides."""
        self.session.sql(f"CREATE TABLE {name} ({columns}) {options}")
        self.model.execute(f"CREATE TABLE {name} ({columns})")

    def write(self, name: str, rows: pa.Table) -> None:
        """Write rows on both sides."""
        self.session.write(name, rows)
        self.replace(name, rows)

    def replace(self, name: str, rows: pa.Table) -> None:
        """Let DuckDB have rows, by their keys."""
        self.model.register("rows_of_it", rows)
        self.model.execute(f"INSERT OR REPLACE INTO {name} SELECT * FROM rows_of_it")

    def statement(self, text: str) -> None:
        """Run a statement on both sides; here tasks write its rows, which do not pass the driver."""
        self.begin(text)
        before = self.session.store.metrics()
        self.session.sql(text)
        passed = sum(self.session.store.metrics().since(before).driver_bytes.values())
        assert 0 < passed < ANSWERS, f"{passed} bytes of {text}"
        self.model.execute(text)

    def check(self, relation: str, query: str | None = None) -> None:
        """Raise AssertionError unless a relation holds what DuckDB says."""
        found = self.session.sql(f"SELECT * FROM {relation}")
        self.model.register("found", found)
        columns = ", ".join(f'"{name}"' for name in found.column_names) if found is not None else ""
        asked = f"SELECT {columns} FROM ({query or f'SELECT * FROM {relation}'})"
        differing = self.model.execute(
            f"SELECT count(*) FROM ((FROM found EXCEPT ALL {asked}) UNION ALL ({asked} EXCEPT ALL FROM found))"
        ).fetchall()[0][0]
        assert differing == 0, f"{relation}: {differing} rows differ"


def polled(lake: Lake, name: str) -> SourceReport:
    """Poll a source once."""
    session = lake.session
    (report,) = poll_all(session.catalog, session.store, [name], lambda: session.computing)
    assert report.error is None, report
    return report


def landed(lake: Lake) -> None:
    """Poll; the rows of what is pending are read by tasks."""
    lake.begin("a file lands")
    report = polled(lake, "landed")
    assert not report.warnings and report.rows == FILE_ROWS, report
    assert 0 < report.driver_bytes < FILE_ANSWERS, report


def statements_and_files(lake: Lake) -> None:
    """Change a third of a table by each statement, and let a file land in each epoch."""
    session, files = lake.session, open_object_store(f"{lake.place}/in")
    lake.create("orders", "id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT")
    ids = range(ROWS)
    rows = {"id": ids, "customer": [n % 997 for n in ids], "amount": [n * 7 % 1000 for n in ids]}
    lake.write("orders", pa.table(rows))
    where = f"WITH (connector = 'landing', path = '{lake.place}/in')"
    lake.create("landed", "id BIGINT PRIMARY KEY, epoch BIGINT, v VARCHAR", where)
    session.sql(f"CREATE MATERIALIZED VIEW by_customer AS {BY_CUSTOMER}")
    latest = "SELECT epoch, count(*) AS n, max(v) AS v FROM landed GROUP BY epoch"
    session.sql(f"CREATE MATERIALIZED VIEW latest AS {latest}")
    for epoch in range(EPOCHS):
        first = epoch * FILE_ROWS // 2  # a half of the rows takes the place of those of the file before
        some = range(first, first + FILE_ROWS)
        new = pa.table({"id": some, "epoch": [epoch] * len(some), "v": [f"value-{n}-{epoch}" for n in some]})
        text = "".join(f"{n},{epoch},value-{n}-{epoch}\n" for n in some)
        files.put(f"{epoch}.csv", f"id,epoch,v\n{text}".encode())
        landed(lake)
        lake.replace("landed", new)
        lake.statement(f"UPDATE orders SET amount = amount + {epoch} WHERE id % 3 = {epoch % 3}")
        lake.statement(f"DELETE FROM orders WHERE id % 101 = {epoch}")
        lake.statement(
            f"INSERT INTO orders SELECT id + {(epoch + 1) * 10_000_000}, customer, amount FROM orders WHERE id < {ROWS // 4}"
        )
        lake.begin("a flush")
        session.flush().raise_for_errors()
        for relation, query in (
            ("orders", None),
            ("landed", None),
            ("by_customer", BY_CUSTOMER),
            ("latest", latest),
        ):
            lake.check(relation, query)


def delta_in_and_out(lake: Lake) -> None:
    """Follow a Delta table that Spark changes in each epoch, and keep a view of it as another one that is followed as well."""
    session, spark = lake.session, lake.session.computing
    there = f"{lake.place}/there".replace("s3:", "s3a:", 1)
    columns = "id BIGINT, customer BIGINT, amount BIGINT"
    spark.sql(
        f"CREATE TABLE delta.`{there}` ({columns}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    lake.model.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)")
    connector = f"WITH (connector = 'delta', path = '{lake.place}/there')"
    session.sql(f"CREATE TABLE orders (PRIMARY KEY (id)) {connector}")
    session.sql(f"CREATE MATERIALIZED VIEW by_customer AS {BY_CUSTOMER}")
    session.sql(f"CREATE SINK out FROM by_customer WITH (connector = 'delta', url = '{lake.place}/out')")
    for epoch in range(EPOCHS):
        first = epoch * ROWS
        new = f"SELECT id, id % 9973 AS customer, id * 7 % 1000 AS amount FROM range({first}, {first + ROWS})"
        spark.sql(f"INSERT INTO delta.`{there}` {new}")
        lake.model.execute(f"INSERT INTO orders {new.replace('range(', 'range_of(')}")
        for text in (
            f"UPDATE {{}} SET amount = amount + {epoch} WHERE id % 3 = {epoch % 3}",
            f"DELETE FROM {{}} WHERE id % 101 = {epoch}",
        ):
            spark.sql(text.format(f"delta.`{there}`"))
            lake.model.execute(text.format("orders"))
        lake.begin("a poll")
        polled(lake, "orders")
        lake.begin("a flush")
        flushed = session.flush(sink_seconds=300)
        flushed.raise_for_errors()
        assert [sink.error for sink in flushed.sinks] == [None], flushed.sinks
        lake.check("orders")
        lake.check("by_customer", BY_CUSTOMER)
        if epoch == 0:
            session.sql(
                f"CREATE TABLE back (PRIMARY KEY (customer)) WITH (connector = 'delta', path = '{lake.place}/out')"
            )
        polled(lake, "back")
        lake.check("back", BY_CUSTOMER)


PARTS = {"statements": statements_and_files, "delta": delta_in_and_out}


def main(store: str, place: str, part: str) -> None:
    """Run a part; prints a line when all is equal."""
    source.LOOK_SECONDS = (
        0.0  # the log of a table in a bucket is looked at once a second, which is changed faster here
    )
    open_object_store(place)  # the bucket has to be there
    with Session(store) as session:
        lake = Lake(session, place)
        lake.model.execute("CREATE MACRO range_of(a, b) AS TABLE SELECT range AS id FROM range(a, b)")
        PARTS[part](lake)
        print("equal", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
