"""Simple reads and deletes that the store answers alone have the rows that DuckDB gives for the same text."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from engine.session import Session
from engine.sql.batch.point_read import point_read
from engine.sql.statements.reader import Select, parse_statement

COLUMNS = {
    "id": "INT",
    "i": "INT",
    "l": "BIGINT",
    "s": "STRING",
    "d": "DOUBLE",
    "r": "FLOAT",
    "m": "DECIMAL(6, 2)",
    "t": "DATE",
    "b": "BOOLEAN",
}
ROWS = (
    "(1, 1, 10, 'a', 0.5, 0.1, 1.50, DATE '2024-01-01', true)",
    "(2, NULL, -3, 'B', -1, 0.5, -2.25, DATE '2024-02-29', false)",
    "(3, -1, NULL, '', 2, NULL, NULL, NULL, NULL)",
    "(4, 0, 0, NULL, NULL, -1, 0, DATE '1999-12-31', true)",
    "(5, 3, 3, '10', 3, 3, 3, DATE '2024-01-02', false)",
    "(6, NULL, NULL, 'a b', 0, 0, NULL, NULL, NULL)",
    "(7, 7, 4000000000, 'ß', 1e10, 7, 9999.99, DATE '2024-01-01', true)",
    "(8, 3, -3, 'A', -0.5, 2, 1.5, NULL, false)",
)
VALUES = {
    "i": ("1", "-1", "0", "3", "NULL"),
    "l": ("10", "-3", "4000000000", "NULL"),
    "s": ("'a'", "''", "'B'", "'10'", "'ß'", "NULL"),
    "d": ("0.5", "-1", "2", "1e10", "NULL"),
    "r": ("-1", "0.5", "3", "NULL"),
    "m": ("1.5", "-2.25", "0", "1.505", "NULL"),
    "t": ("DATE '2024-01-01'", "DATE '1999-12-31'", "NULL"),
    "b": ("true", "false", "NULL"),
}


def atom(dice: random.Random) -> str:
    """Return a condition on one column."""
    column = dice.choice(list(VALUES))
    one, two, three = (dice.choice(VALUES[column]) for _ in range(3))
    op = dice.choice(("=", "<>", "<", "<=", ">", ">=", "!="))
    name = dice.choice((column, column, f"t.{column}", f"({column})"))
    no = dice.choice(("", "NOT "))
    return dice.choice(
        (
            f"{name} {op} {one}",
            f"{one} {op} {name}",
            f"{name} IS {no}NULL",
            f"NOT {name} IS {no}NULL",
            f"NOT ({name} IS {no}NULL)",
            f"{name} {no}IN ({one}, {two}, {three})",
            f"{name} {no}IN ({one})",
            f"{name} {no}BETWEEN {one} AND {two}",
            f"{name} IS {no}DISTINCT FROM {one}",
            f"({name} {op} {one}) IS {no}TRUE",
            f"({name} {op} {one}) IS {no}NULL",
            f"s {no}LIKE {dice.choice(VALUES['s'])}",
            f"coalesce({name}, {one}) {op} {two}",
            f"CASE WHEN {name} {op} {one} THEN NOT b ELSE b END",
            f"{no}b",
        )
    )


def condition(dice: random.Random, depth: int = 2) -> str:
    """Return atoms joined by AND, OR and NOT."""
    if depth == 0 or dice.random() < 0.4:
        return atom(dice)
    one, two = condition(dice, depth - 1), condition(dice, depth - 1)
    return dice.choice((f"{one} AND {two}", f"({one}) OR ({two})", f"NOT ({one})", f"({one}) AND ({two})"))


def is_simple(session: Session, text: str) -> bool:
    statement = parse_statement(text, session.dialect)
    assert isinstance(statement, Select)
    return point_read(statement.query, session.catalog, session.dialect, text) is not None


def found(session: Session, text: str) -> list[tuple[object, ...]]:
    table = session.sql(text)
    assert table is not None
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture(params=["spark", "postgres"])
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    """A session without Spark over the rows, which DuckDB has as t, too."""
    session = Session(tmp_path.as_uri(), dialect=request.param)
    kinds = (
        {} if request.param == "spark" else {"DOUBLE": "DOUBLE PRECISION", "STRING": "TEXT", "FLOAT": "REAL"}
    )
    columns = ", ".join(f"{name} {kinds.get(kind, kind)}" for name, kind in COLUMNS.items())
    session.sql(f"CREATE TABLE t ({columns}, PRIMARY KEY (id))")
    session.sql(f"INSERT INTO t VALUES {', '.join(ROWS)}")
    return session


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    columns = ", ".join(f"{name} {kind.replace('STRING', 'TEXT')}" for name, kind in COLUMNS.items())
    connection.sql(f"CREATE TABLE t ({columns})")
    connection.sql(f"INSERT INTO t VALUES {', '.join(ROWS)}")
    return connection


def test_a_condition_has_one_answer(doors: Session, oracle: duckdb.DuckDBPyConnection) -> None:
    dice, simple = random.Random(20), 0
    for n in range(600):
        text = condition(dice) if n % 2 else atom(dice)
        if not is_simple(doors, f"SELECT id FROM t WHERE {text}"):
            continue
        simple += 1
        kept = sorted(row[0] for row in oracle.sql(f"SELECT id FROM t WHERE {text}").fetchall())
        assert sorted(found(doors, f"SELECT id FROM t WHERE {text}")) == [(one,) for one in kept], text
        assert found(doors, f"SELECT count(*) FROM t WHERE {text}") == [(len(kept),)], text
        if simple % 10 == 0:
            gone = found(doors, f"DELETE FROM t WHERE {text} RETURNING id")
            assert sorted(gone) == [(one,) for one in kept], text
            if gone:
                doors.sql(f"INSERT INTO t VALUES {', '.join(ROWS[one - 1] for one in kept)}")
    assert simple > 80


def test_an_order_has_one_answer(doors: Session, oracle: duckdb.DuckDBPyConnection) -> None:
    dice = random.Random(21)
    for _ in range(100):
        own, full = [], []
        for _ in range(dice.randint(1, 3)):
            item = f"{dice.choice(list(VALUES))}{dice.choice(('', ' ASC', ' DESC'))}"
            first = ("DESC" in item) == (doors.dialect != "spark")
            nulls = dice.choice(("", " NULLS FIRST", " NULLS LAST"))
            own.append(item + nulls)
            full.append(item + (nulls or (" NULLS FIRST" if first else " NULLS LAST")))
        cut = dice.choice(("", " LIMIT 3", " LIMIT 2 OFFSET 1", " OFFSET 4", " LIMIT 0"))
        text = "SELECT id, i AS x, s FROM t ORDER BY {}, id" + cut
        assert is_simple(doors, text.format(", ".join(own)))
        wanted = oracle.sql(text.format(", ".join(full))).fetchall()
        assert found(doors, text.format(", ".join(own))) == wanted, own
