"""Joins of rows whose times lie within an interval of each other are exact under changes of both sides, as all joins are."""

from __future__ import annotations

import random

import pytest

from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

NEAR = "l.ts BETWEEN r.ts - INTERVAL '{n}' MINUTE AND r.ts + INTERVAL '{n}' MINUTE"
VIEWS = {
    "inner_joined": f"SELECT l.id, r.id AS rid FROM l JOIN r ON l.k = r.k AND {NEAR.format(n=20)}",
    "left_joined": f"SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.k = r.k AND {NEAR.format(n=15)}",
}


def change(session: Session, chance: random.Random) -> None:
    """Change one side at random."""
    table, n, minute = chance.choice("lr"), chance.randrange(6), chance.randrange(60)
    known = {row["id"] for row in content(session, table).to_pylist()}
    new = [m for m in chance.sample(range(30), 5) if m not in known]
    rows = ", ".join(
        f"({m}, {chance.choice(('1', '2', 'NULL'))}, TIMESTAMP '2026-01-01 10:{chance.randrange(60):02}:00')"
        for m in new
    )
    moved = f"UPDATE {table} SET ts = TIMESTAMP '2026-01-01 10:{minute:02}:00' WHERE id % 6 = {n}"
    gone = f"DELETE FROM {table} WHERE id % 6 = {n}"
    session.sql(chance.choice([*([f"INSERT INTO {table} VALUES {rows}"] * 2 if new else []), moved, gone]))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.oracle)])
def test_interval_joins_equal_duckdb_after_random_changes(session: Session, seed: int) -> None:
    chance = random.Random(seed)
    for name in "lr":
        session.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, ts TIMESTAMP)")
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    for step in range(3):
        for _ in range(3):
            change(session, chance)
        session.flush().raise_for_errors()
        tables = {name: content(session, name) for name in "lr"}
        for name, query in VIEWS.items():
            assert_equal(content(session, name), by_duckdb(tables, query), f"{name}, step {step}")
