"""Each left row has its nearest right row, whatever changes on both sides, at the cost of what lies between."""

from __future__ import annotations

import random

import pytest

from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.session_rows import rows

LOWEST = "(SELECT * FROM b QUALIFY row_number() OVER (PARTITION BY k, t ORDER BY id) = 1)"
"""What the judge joins with: of rows that are level it would take any."""
VIEWS = {
    "at_or_before": "SELECT a.id, b.id AS bid, b.x FROM a ASOF LEFT JOIN {b} AS b ON a.k = b.k AND a.t >= b.t",
    "before": "SELECT a.id, b.id AS bid, b.x FROM a ASOF JOIN {b} AS b ON a.k = b.k AND a.t > b.t",
    "at_or_after": "SELECT a.id, a.x, b.id AS bid FROM a ASOF JOIN {b} AS b ON b.k = a.k AND a.t <= b.t",
    "after": "SELECT a.id, b.x AS bx FROM a ASOF LEFT JOIN {b} AS b ON a.k = b.k AND a.t < b.t",
    "counted": "SELECT b.x, count(*) AS n, sum(a.x) AS total FROM a ASOF JOIN {b} AS b ON a.k = b.k AND a.t >= b.t GROUP BY b.x",
    "joined": (
        "SELECT a.id, b.id AS bid, c.id AS cid FROM a ASOF LEFT JOIN {b} AS b ON a.k = b.k AND a.t >= b.t "
        "JOIN a AS c ON c.x = b.x WHERE a.x < 5"
    ),
    "of_groups": (
        "SELECT g.k, g.t, b.id AS bid FROM (SELECT k, max(t) AS t FROM a GROUP BY k) AS g "
        "ASOF LEFT JOIN {b} AS b ON g.k = b.k AND g.t >= b.t"
    ),
    "everything": "SELECT a.id, b.id AS bid FROM a ASOF LEFT JOIN (SELECT * FROM {b} AS b WHERE k = 1) AS b ON a.t >= b.t",
    "moved": "SELECT a.id, b.id AS bid FROM a ASOF JOIN {b} AS b ON a.k = b.k AND a.t - 2 >= b.t",
    "by_its_order": "SELECT a.id, b.id AS bid, b.x FROM a ASOF LEFT JOIN {b} AS b ON a.t = b.k AND a.t >= b.t",
    "by_theirs": "SELECT a.id, b.id AS bid FROM a ASOF JOIN {b} AS b ON a.k = b.k AND a.x = b.t AND a.t <= b.t",
}
LONG = [pytest.param(seed, 25, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 8)]


def value(chance: random.Random, below: int) -> str:
    return "NULL" if chance.random() < 0.1 else str(chance.randrange(below))


def change(session: Session, chance: random.Random) -> None:
    """Change one of the tables at random."""
    table, n = chance.choice("aabbb"), chance.randrange(12)
    match chance.choice(("insert", "insert", "move", "update", "delete")):
        case "insert":
            known = {row["id"] for row in content(session, table).to_pylist()}
            new = [m for m in chance.sample(range(40), 4) if m not in known]
            rows = ", ".join(
                f"({m}, {value(chance, 3)}, {value(chance, 9)}, {value(chance, 7)})" for m in new
            )
            if new:
                session.sql(f"INSERT INTO {table} VALUES {rows}")
        case "move":
            session.sql(f"UPDATE {table} SET t = {value(chance, 9)} WHERE id % 12 = {n}")
        case "update":
            session.sql(f"UPDATE {table} SET x = {value(chance, 7)} WHERE id % 12 = {n}")
        case "delete":
            session.sql(f"DELETE FROM {table} WHERE id % 12 = {n} OR t = {n}")


def create_tables(session: Session) -> None:
    for name in "ab":
        session.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, t INT, x INT)")


def create_views(session: Session, names: tuple[str, ...]) -> None:
    for name in names:
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name].format(b='b')}", build=False)


@pytest.mark.parametrize(
    ("seed", "steps", "names"),
    [(1, 4, ("at_or_before", "before", "after", "counted", "by_its_order", "by_theirs")), *LONG],
)
def test_views_equal_duckdb_after_random_changes_of_both_sides(
    session: Session, seed: int, steps: int, names: tuple[str, ...]
) -> None:
    chance = random.Random(seed)
    create_tables(session)
    for _ in range(4):
        change(session, chance)
    create_views(session, names)
    for step in range(steps):
        session.flush().raise_for_errors()
        tables = {name: content(session, name) for name in "ab"}
        for name in names:
            wanted = by_duckdb(tables, VIEWS[name].format(b=LOWEST))
            assert_equal(content(session, name), wanted, f"{name}, seed {seed}, step {step}")
        for _ in range(chance.randrange(1, 4)):
            change(session, chance)


@pytest.mark.parametrize("name", ["at_or_before", "after", "counted", "of_groups"])
def test_a_query_that_is_answered_once_gives_what_duckdb_gives(session: Session, name: str) -> None:
    chance = random.Random(9)
    create_tables(session)
    for _ in range(12):
        change(session, chance)
    session.sql(
        "DELETE FROM b WHERE id IN (SELECT c.id FROM b AS c JOIN b AS d ON c.k = d.k AND c.t = d.t AND c.id > d.id)"
    )
    tables = {name: content(session, name) for name in "ab"}
    found = session.sql(VIEWS[name].format(b="b"))
    assert found is not None
    assert_equal(found, by_duckdb(tables, VIEWS[name].format(b="b")), name)


@pytest.mark.parametrize("rules", mark_rest_long(["fast", "reference"]))
def test_of_right_rows_that_are_level_the_one_of_the_lowest_key_counts(session: Session, rules: str) -> None:
    create_tables(session)
    session.sql("INSERT INTO a VALUES (1, 1, 5, 0), (2, 1, 6, 0)")
    session.sql("INSERT INTO b VALUES (7, 1, 5, 0), (3, 1, 5, 0), (9, 1, 6, 0)")
    for name, operator in (("back", ">="), ("forth", "<=")):
        text = f"SELECT a.id, b.id AS bid FROM a ASOF JOIN b ON a.k = b.k AND a.t {operator} b.t"
        session.sql(f"CREATE MATERIALIZED VIEW {name} WITH (rules = '{rules}') AS {text}", build=False)
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM back") == rows(session, "SELECT * FROM forth") == [(1, 3), (2, 9)]
    session.sql("INSERT INTO b VALUES (1, 1, 6, 0), (2, 1, 5, 0)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM back") == rows(session, "SELECT * FROM forth") == [(1, 2), (2, 1)]
    session.sql("DELETE FROM b WHERE id < 4")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM back") == rows(session, "SELECT * FROM forth") == [(1, 7), (2, 9)]


@pytest.mark.long
def test_a_right_row_that_changes_rewrites_only_the_left_rows_up_to_its_neighbour(session: Session) -> None:
    create_tables(session)
    session.sql("INSERT INTO a SELECT CAST(id AS INT), 1, CAST(id AS INT), 0 FROM range(1000)")
    session.sql("INSERT INTO b SELECT CAST(id AS INT), 1, CAST(id * 10 AS INT), 0 FROM range(100)")
    create_views(session, ("at_or_before", "at_or_after"))
    session.flush().raise_for_errors()
    session.sql("UPDATE b SET x = 5 WHERE id = 50")
    report = session.flush()
    assert (report["at_or_before"].updated, report["at_or_before"].inserted) == (10, 0)
    assert report["at_or_after"].updated == 0  # it reads no x
    session.sql("INSERT INTO b VALUES (500, 1, 504, 9)")
    report = session.flush()
    assert [report[name].updated for name in ("at_or_before", "at_or_after")] == [6, 4]
    session.sql("DELETE FROM b WHERE id = 500")
    report = session.flush()
    assert [report[name].updated for name in ("at_or_before", "at_or_after")] == [6, 4]


SPELLINGS = (
    "a ASOF LEFT JOIN b ON a.k = b.k AND a.t >= b.t",
    "a ASOF LEFT OUTER JOIN b ON b.t <= a.t AND a.k = b.k",
    "a LEFT ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k",
    "a LEFT OUTER ASOF JOIN b MATCH_CONDITION (b.t <= a.t) ON a.k = b.k",
)


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.long
def test_all_spellings_mean_the_same_in_views_and_in_queries(session: Session, dialect: str) -> None:
    create_tables(session)
    session.sql("INSERT INTO a VALUES (1, 1, 5, 0), (2, 1, 7, 0), (3, 2, 7, 0)")
    session.sql("INSERT INTO b VALUES (1, 1, 5, 0), (2, 1, 6, 0), (3, 2, 8, 0)")
    session.sql(f"SET dialect = {dialect}")
    texts = [*SPELLINGS, "a LEFT ASOF JOIN b MATCH_CONDITION (a.t >= b.t) USING (k)"]
    for n, text in enumerate(texts):
        session.sql(f"CREATE MATERIALIZED VIEW v{n} AS SELECT a.id, b.id AS bid FROM {text}", build=False)
    session.flush().raise_for_errors()
    for n in range(len(texts)):
        assert rows(session, f"SELECT * FROM v{n}") == [(1, 1), (2, 2), (3, None)], texts[n]
    for text in SPELLINGS[:3:2]:
        assert rows(session, f"SELECT a.id, b.id AS bid FROM {text}") == [(1, 1), (2, 2), (3, None)], text
