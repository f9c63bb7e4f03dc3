"""RETURNING shows the written rows of the table alone, and what it cannot say is told before a row is written."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session


@pytest.fixture
def stock(session: Session) -> Session:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    session.sql("CREATE TABLE u (id INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    session.sql("INSERT INTO u VALUES (1, 77)")
    return session


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (3, 30) RETURNING nothing",
        "INSERT INTO t VALUES (3, 30) RETURNING old.x",
        "INSERT INTO t VALUES (3, 30) RETURNING u.x",
        "INSERT INTO t VALUES (3, 30) RETURNING x + 'a' + nothing",
        "UPDATE t SET x = 0 WHERE id = 1 RETURNING nothing",
        "UPDATE t SET x = u.x FROM u WHERE t.id = u.id RETURNING u.nothing",
        "DELETE FROM t USING u WHERE t.id = u.id RETURNING u.nothing",
        "DELETE FROM t RETURNING nothing",
    ],
)
def test_what_returning_cannot_say_writes_nothing(stock: Session, text: str) -> None:
    with pytest.raises(SqlError):
        stock.sql(text)
    found = stock.sql("SELECT id, x FROM t ORDER BY id")
    assert found is not None and found.to_pylist() == [{"id": 1, "x": 10}, {"id": 2, "x": 20}]


def test_returning_knows_the_alias_and_leaves_columns_out(stock: Session) -> None:
    cases = {
        "INSERT INTO t AS q VALUES (3, 30) RETURNING q.id, q.x + 1 AS y": [{"id": 3, "y": 31}],
        "INSERT INTO t VALUES (4, 40) RETURNING * EXCEPT (x)": [{"id": 4}],
        "INSERT INTO t VALUES (5, 50) RETURNING t.x, id": [{"x": 50, "id": 5}],
        "UPDATE t AS q SET x = 0 WHERE q.id = 1 RETURNING q.x, id": [{"x": 0, "id": 1}],
        "DELETE FROM t WHERE id = 5 RETURNING *": [{"id": 5, "x": 50}],
    }
    for text, expected in cases.items():
        found = stock.sql(text)
        assert found is not None and found.to_pylist() == expected, text
