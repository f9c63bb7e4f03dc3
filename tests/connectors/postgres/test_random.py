"""Random transactions over three tables, while they are polled, against a view that joins and aggregates all of them."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.connectors.postgres import log_reader
from engine.session import Session
from tests.connectors.postgres.server import Database

pytestmark = [pytest.mark.postgres, pytest.mark.long]

QUERY = (
    "SELECT c.region AS region, count(*) AS lines, sum(l.n) AS n, sum(o.cents) AS cents, max(length(o.words)) AS longest, "
    "count(l.n) AS known FROM orders AS o JOIN customers AS c ON o.customer = c.id JOIN lines AS l ON l.order_id = o.id "
    "GROUP BY c.region"
)
BALANCE = (
    "SELECT 1 AS one, sum(cents) AS cents FROM (SELECT cents FROM orders UNION ALL SELECT -n FROM lines) AS x"
)
"""Every transaction leaves the sum of both tables at zero: half of one would show."""
SETUP = (
    "CREATE TABLE customers (id bigint PRIMARY KEY, region text)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, cents bigint, words text)",
    "CREATE TABLE lines (order_id bigint, line int, n bigint, PRIMARY KEY (order_id, line))",
    "ALTER TABLE orders ALTER words SET STORAGE EXTERNAL",
    "CREATE PUBLICATION tideline FOR TABLE customers, orders, lines",
)
COLUMNS = {
    "customers": "id BIGINT PRIMARY KEY, region STRING",
    "orders": "id BIGINT PRIMARY KEY, customer BIGINT, cents BIGINT, words STRING",
    "lines": "order_id BIGINT, line INT, n BIGINT, PRIMARY KEY (order_id, line)",
}


def transact(connection: Any, chance: random.Random) -> None:
    """Do one random transaction; it may be rolled back, or a part of it."""
    with connection.transaction(force_rollback=chance.random() < 0.1):
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            if chance.random() < 0.1:
                with connection.transaction(force_rollback=chance.random() < 0.5):
                    change(connection, chance)
            change(connection, chance)


def change(connection: Any, chance: random.Random) -> None:
    """Make a change that keeps the balance of orders and lines."""
    key, other = chance.randrange(40), chance.randrange(40)
    what = chance.random()
    if what < 0.15:
        region = chance.choice(("north", "south", "", None, "ä"))
        text = "INSERT INTO customers VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET region = EXCLUDED.region"
        connection.execute(text, (key % 7, region))
    elif what < 0.2:
        connection.execute("DELETE FROM customers WHERE id = %s", (key % 7,))
    elif what < 0.5:
        drop(connection, key)
        count = chance.choice((1, 2, 3))
        words = None if chance.random() < 0.2 else chance.choice("xyz") * chance.choice((3, 4_000))
        values = (key, chance.choice((None, *range(7))), 10 * count, words)
        connection.execute("INSERT INTO orders VALUES (%s, %s, %s, %s)", values)
        connection.execute(
            "INSERT INTO lines SELECT %s, g, 10 FROM generate_series(1, %s) AS g", (key, count)
        )
    elif what < 0.6:
        drop(connection, key)
    elif what < 0.75:  # words stay where they are
        connection.execute("UPDATE orders SET customer = %s WHERE id = %s", (chance.randrange(7), key))
    elif what < 0.85 and key != other:
        drop(connection, other)
        connection.execute("UPDATE orders SET id = %s WHERE id = %s", (other, key))
        connection.execute("UPDATE lines SET order_id = %s WHERE order_id = %s", (other, key))
    elif what < 0.87:
        connection.execute("TRUNCATE orders, lines")
    elif what < 0.9:  # many rows at once
        connection.execute("UPDATE lines SET n = n + 5 WHERE line = 1")
        connection.execute(
            "UPDATE orders AS o SET cents = cents + 5 WHERE EXISTS (SELECT FROM lines AS l WHERE l.order_id = o.id AND l.line = 1)"
        )
    else:
        connection.execute("UPDATE orders SET words = upper(words) WHERE id = %s", (key,))


def drop(connection: Any, key: int) -> None:
    """Delete an order with its lines."""
    connection.execute("DELETE FROM lines WHERE order_id = %s", (key,))
    connection.execute("DELETE FROM orders WHERE id = %s", (key,))


def look(session: Session, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a relation of the store in order."""
    session.store.refresh()
    rows = (row for batch in session.store.iter(name) for row in batch.to_pylist())
    return sorted((tuple(v for n, v in row.items() if not n.startswith("_")) for row in rows), key=repr)


def check(session: Session, database: Database) -> None:
    """Compare tables and views with PostgreSQL's own answers."""
    session.flush().raise_for_errors()
    for name in COLUMNS:
        assert look(session, name) == sorted(database.ask(f"SELECT * FROM {name}"), key=repr), name
    theirs = [
        tuple(int(v) if n in (2, 3) and v is not None else v for n, v in enumerate(row))
        for row in database.ask(QUERY)
    ]
    assert look(session, "v") == sorted(theirs, key=repr)


@pytest.mark.parametrize("seed", range(2))
def test_a_view_over_three_tables_is_what_postgresql_answers(
    seed: int,
    lake: Session,
    database: Database,
    spark: SparkSession,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_reader, "STEP_MESSAGES", 100)
    chance = random.Random(seed)
    database.run(*SETUP)
    with database.connect() as first:
        for _ in range(30):
            transact(first, chance)
    with Session((tmp_path / "views").as_uri(), spark) as session:
        names = list(COLUMNS)
        chance.shuffle(names)
        late = names.pop() if seed % 2 else ""
        for name in names:
            session.sql(f"CREATE TABLE {name} ({COLUMNS[name]}) WITH ({database.options(f'public.{name}')})")
        ended = threading.Event()

        def work(number: int) -> None:
            mine = random.Random(f"{seed} {number}")
            with database.connect(options="-c default_transaction_isolation=serializable") as connection:
                deadline = time.monotonic() + 600
                while not ended.is_set() and time.monotonic() < deadline:
                    try:
                        transact(connection, mine)
                    except Exception as error:  # writers that are in each other's way
                        if getattr(error, "sqlstate", "") not in ("40001", "40P01", "23505"):
                            raise

        workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for worker in workers:
            worker.start()
        try:
            for _ in range(5):
                assert not [one.error for one in session.poll() if one.error]
            if late:
                session.sql(
                    f"CREATE TABLE {late} ({COLUMNS[late]}) WITH ({database.options(f'public.{late}')})"
                )
            assert not [one.error for one in session.poll() if one.error]
            session.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
            session.sql(f"CREATE MATERIALIZED VIEW balance AS {BALANCE}")
            for _ in range(6):
                assert not [one.error for one in session.poll() if one.error]
                session.flush().raise_for_errors()
                assert [row[1] or 0 for row in look(session, "balance")] in ([0], [])
        finally:
            ended.set()
            for worker in workers:
                worker.join()
        for _ in range(2):
            assert not [one.error for one in session.poll() if one.error]
            check(session, database)
            with database.connect() as last:
                for _ in range(20):
                    transact(last, chance)
        assert not look(session, "_dead_letter")
