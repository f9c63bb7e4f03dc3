"""SESSION WITH GAP: a call over a window reads all rows of a row's session, whatever comes, changes and goes."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine.errors import SqlError, UnsupportedSql
from engine.session import Session
from tests.session_rows import rows

DAY = datetime(2024, 3, 1)
Row = tuple[int, int, datetime | None, int | None, int | None]
"""id, k, ts, n, x"""


def _sessions(content: dict[int, Row], by: int, gap: Any) -> dict[int, list[Row]]:
    """Return the rows of each row's session by its id, in the order of column `by`, then of the id."""
    found: dict[int, list[Row]] = {}
    for k in {row[1] for row in content.values()}:
        mine = [row for row in content.values() if row[1] == k]
        alone = sorted(row for row in mine if row[by] is None)
        session: list[Row] = []
        for row in [
            *alone,
            *sorted((row for row in mine if row[by] is not None), key=lambda r: (r[by], r[0])),
        ]:
            same = session and (
                session[-1][by] is row[by] is None
                or (session[-1][by] is not None and row[by] < session[-1][by] + gap)
            )
            session = session if same else []
            session.append(row)
            found[row[0]] = session
    return found


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    return "NULL" if value is None else str(value)


def _change(session: Session, content: dict[int, Row], chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 7)):
        at = chance.randrange(40)
        if chance.random() < 0.3:
            content.pop(at, None)
            session.sql(f"DELETE FROM t WHERE id = {at}")
            continue
        ts = None if chance.random() < 0.1 else DAY + timedelta(minutes=chance.randrange(0, 120, 5))
        n = None if chance.random() < 0.1 else chance.randrange(60)
        row = (at, chance.randrange(2), ts, n, chance.choice([None, chance.randrange(9)]))
        if at in content:
            names = ("id", "k", "ts", "n", "x")
            changes = ", ".join(f"{a} = {_literal(b)}" for a, b in zip(names[1:], row[1:], strict=True))
            session.sql(f"UPDATE t SET {changes} WHERE id = {at}")
        else:
            session.sql(f"INSERT INTO t VALUES ({', '.join(map(_literal, row))})")
        content[at] = row


@pytest.mark.long
def test_calls_over_sessions_follow_random_changes(session: Session) -> None:
    chance = random.Random(5)
    content: dict[int, Row] = {}
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, ts TIMESTAMP, n INT, x INT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, count(*) OVER w AS c, sum(x) OVER w AS s, first_value(id) OVER w AS f, "
        "last_value(id) OVER w AS l, nth_value(id, 2) OVER w AS second, count(*) OVER (PARTITION BY k ORDER BY n "
        "SESSION WITH GAP 5) AS numbers, count(*) OVER (PARTITION BY k) AS every FROM t "
        "WINDOW w AS (PARTITION BY k ORDER BY ts SESSION WITH GAP INTERVAL '10 minutes')"
    )
    for step in range(3):
        _change(session, content, chance)
        session.flush().raise_for_errors()
        times = _sessions(content, 2, timedelta(minutes=10))
        numbers = _sessions(content, 3, 5)
        expected = []
        for at, row in content.items():
            mine = times[at]
            known = [r[4] for r in mine if r[4] is not None]
            second = mine[1][0] if len(mine) > 1 else None
            every = sum(r[1] == row[1] for r in content.values())
            total = sum(known) if known else None
            ids = (mine[0][0], mine[-1][0], second)
            expected.append((at, len(mine), total, *ids, len(numbers[at]), every))
        assert rows(session, "SELECT * FROM v") == sorted(expected, key=repr), step


@pytest.mark.long
def test_a_row_that_is_the_gap_behind_begins_a_session(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, d DATE, p DECIMAL(9, 2), b BIGINT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, count(*) OVER (ORDER BY ts SESSION WITH GAP '1 minute') AS a, "
        "count(*) OVER (ORDER BY d SESSION WITH GAP INTERVAL '2 days') AS b, count(*) OVER (ORDER BY p DESC SESSION WITH "
        "GAP 0.125) AS c, count(*) OVER (ORDER BY b SESSION WITH GAP 10) AS e, row_number() OVER (ORDER BY b) AS f FROM t"
    )
    session.sql(
        "INSERT INTO t VALUES (1, TIMESTAMP '2024-03-01 00:00:00', DATE '2024-03-01', 1, 9223372036854775807), "
        "(2, TIMESTAMP '2024-03-01 00:00:59', DATE '2024-03-02', 1.12, 9223372036854775798), "
        "(3, TIMESTAMP '2024-03-01 00:01:59', DATE '2024-03-04', 1.25, 9223372036854775788)"
    )
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM v") == [(1, 2, 2, 2, 2, 3), (2, 2, 2, 2, 2, 2), (3, 1, 1, 1, 1, 1)]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("ORDER BY ts, id SESSION WITH GAP '1 minute'", "over 2 expressions"),
        ("PARTITION BY id SESSION WITH GAP '1 minute'", "over 0 expressions"),
        ("ORDER BY ts SESSION WITH GAP 5", "is no interval"),
        ("ORDER BY ts SESSION WITH GAP '0 minutes'", "not positive"),
        ("ORDER BY ts SESSION WITH GAP '1 month'", "months"),
        ("ORDER BY id SESSION WITH GAP '1 minute'", "as the gap of SESSION over int"),
        ("ORDER BY id SESSION WITH GAP 0", "as the gap of SESSION over int"),
        ("ORDER BY id SESSION WITH GAP -1", "as the gap of SESSION over int"),
        ("ORDER BY name SESSION WITH GAP 1", "over string"),
        ("ORDER BY id SESSION WITH GAP 1 PRECEDING", "nothing behind it"),
    ],
)
def test_sessions_that_mean_nothing_are_refused(session: Session, window: str, message: str) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, name STRING)")
    with pytest.raises(SqlError, match=message) as error:
        session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT count(*) OVER ({window}) AS c FROM t")
    assert error.value.line is not None


def test_a_query_that_is_answered_once_gives_what_its_view_has(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, ts TIMESTAMP, n INT)")
    session.sql(
        "INSERT INTO t SELECT i, i % 2, CASE WHEN i % 5 > 0 THEN TIMESTAMP '2024-03-01' + make_dt_interval(0, 0, i * i % 37) END, "
        "i FROM (SELECT explode(sequence(1, 30)) AS i)"
    )
    query = (
        "SELECT id, sum(n) OVER (PARTITION BY k ORDER BY ts SESSION WITH GAP INTERVAL '2 minutes') AS s, "
        "count(*) OVER (PARTITION BY k) AS c FROM t"
    )
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    expected = rows(session, "SELECT * FROM v")
    assert len({row[1] for row in expected}) > 4
    assert rows(session, query) == expected
    session.sql(f"CREATE VIEW plain AS {query}")
    assert rows(session, "SELECT max(s) AS m FROM plain") == [(max(row[1] for row in expected),)]


def test_a_query_that_is_computed_as_a_whole_says_that_sessions_are_kept(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(UnsupportedSql, match="computed as a whole") as caught:
        session.sql(
            "CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS "
            "SELECT count(*) OVER (ORDER BY id SESSION WITH GAP 1) AS c FROM t"
        )
    assert caught.value.line is not None
