"""An index in FROM: its table's rows, the columns that it is over first, in views and in queries answered once."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session


def _rows(session: Session, text: str) -> list[dict]:
    found = session.sql(text)
    assert found is not None
    return found.to_pylist()


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_an_index_shows_its_columns_first(session: Session, key: str) -> None:
    session.sql(f"CREATE TABLE t (id INT {key}, a INT, b INT); CREATE INDEX by_a ON t (a)")
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM by_a; CREATE VIEW w AS SELECT * FROM by_a x WHERE x.a > 5"
    )
    session.sql("INSERT INTO t VALUES (1, 2, 3); UPDATE t SET a = 7 WHERE id = 1; FLUSH")
    for name in ("v", "w", "by_a"):
        assert _rows(session, f"SELECT * FROM {name}") == [{"a": 7, "id": 1, "b": 3}]
    assert session.catalog.get("v").depends_on == ("t",)
    with pytest.raises(SqlError, match="by_a is read by v, w"):
        session.sql("DROP INDEX by_a")


def test_an_index_that_includes_columns_shows_no_others(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT); CREATE INDEX i ON t (b) INCLUDE (c, a)"
    )
    session.sql("INSERT INTO t VALUES (1, 2, 3, 4)")
    assert _rows(session, "SELECT * FROM i") == [{"b": 3, "c": 4, "a": 2}]
    session.sql("ALTER TABLE t RENAME COLUMN c TO d")
    assert _rows(session, "SELECT d FROM i WHERE a = 2") == [{"d": 4}]
    with pytest.raises(SqlError, match="there is no column id"):
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM i")
    with pytest.raises(SqlError, match="t has no column e"):
        session.sql("CREATE INDEX j ON t (b) INCLUDE (e)")
