"""REFRESH brings on a view that FLUSH leaves alone, and ALTER lets it follow again."""

from __future__ import annotations

from engine.session import Session


def held(session: Session) -> int:
    found = session.sql("SELECT n FROM v")
    assert found is not None
    return int(found.column("n")[0].as_py())


def test_refresh_brings_on_what_flush_leaves_alone_until_the_option_is_taken_away(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO t VALUES (1, 1)")
    session.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'manual') AS SELECT count(*) AS n FROM t")
    assert held(session) == 1
    session.sql("INSERT INTO t VALUES (2, 2)")
    session.sql("FLUSH")
    assert held(session) == 1
    assert [(wait.domain, wait.kind) for wait in session.waits()] == [("v", "refresh")]
    session.sql("REFRESH MATERIALIZED VIEW v")
    assert held(session) == 2 and session.waits() == ()
    session.sql("INSERT INTO t VALUES (3, 3)")
    session.sql("ALTER MATERIALIZED VIEW v SET (refresh = 'default')")
    session.sql("FLUSH")
    assert held(session) == 3
