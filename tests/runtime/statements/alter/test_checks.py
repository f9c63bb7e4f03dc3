"""Other checks of a view that is there: it keeps its rows and its readers, and is asked the new ones over all of its rows."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session


@pytest.fixture
def view(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT)")
    session.sql("INSERT INTO t VALUES (1, 5), (2, 5)")
    session.sql("CREATE MATERIALIZED VIEW v WITH (parallelism = '1') AS SELECT id, n FROM t")
    session.sql("CREATE MATERIALIZED VIEW above AS SELECT max(n) AS n FROM v")
    return session


def hidden(session: Session) -> list[str]:
    return sorted(name for name in session.catalog.relations if name.startswith("_"))


@pytest.mark.long
def test_checks_are_added_changed_and_taken_away_without_touching_rows(view: Session) -> None:
    files = view.store.version.tables["v"].file_count
    view.sql("ALTER MATERIALIZED VIEW v SET (checks = 'n < 9; unique(n) warn; falls_at_most(0.5)')")
    assert "v" in {wait.domain for wait in view.waits()}
    report = view.flush()["v"]
    assert report.error is None and report.checks["unique_n"].rows == 1 and report.checks["check_1"].passed
    assert report.inserted == 0 and view.store.version.tables["v"].file_count == files

    view.sql("INSERT INTO t VALUES (3, 9)")
    assert "check check_1 of v (n < 9) fails: 1 row: id = 3" in (view.flush()["v"].error or "")
    view.sql(
        "ALTER MATERIALIZED VIEW v SET (checks = 'n < 10; pair: SELECT a.id FROM v a JOIN v b ON a.id = b.n warn')"
    )
    report = view.flush()["v"]
    assert report.error is None and report.inserted == 1 and set(report.checks) == {"check_1", "pair"}
    assert "_check_2_v" in hidden(view)
    statement = view.sql("SHOW CREATE MATERIALIZED VIEW v").to_pylist()[0]["create_statement"]
    assert (
        statement.startswith("CREATE MATERIALIZED VIEW v WITH (checks = 'n < 10; pair:")
        and "parallelism = '1'" in statement
    )

    view.sql("ALTER MATERIALIZED VIEW v SET (checks = default)")
    assert hidden(view) == [] and view.catalog.get("v").checks == ()
    view.sql("UPDATE t SET n = 70 WHERE id = 1")
    report = view.flush()
    assert report["v"].error is None and report["v"].checks == {}
    assert view.sql("SELECT n FROM above").to_pylist() == [{"n": 70}]
    version = view.store.refresh()
    assert sorted(version.tables) == sorted(
        {"t", "v", *[f.table for f in view.stored.plans["above"].fragments]}
    )


def test_new_checks_that_the_rows_break_stop_the_view_from_then_on(view: Session) -> None:
    view.sql("ALTER MATERIALIZED VIEW v SET (checks = 'n < 5')")
    report = view.flush()["v"]
    assert "2 rows: id = " in (report.error or "") and "it stays as of" in (report.error or "")
    assert view.sql("SELECT count(*) AS c FROM v", policy="latest").to_pylist() == [{"c": 2}]
    view.sql("UPDATE t SET n = 4")
    assert view.flush()["v"].error is None


def test_wrong_changes_are_refused_at_their_place_and_change_nothing(view: Session) -> None:
    for text, says in {
        "checks = 'colour > 1'": "there is no column colour",
        "checks = 'not_nul(n)'": "there is no check not_nul",
        "checks = 'n > 0', retention = '2 days'": "checks are set by themselves",
    }.items():
        with pytest.raises(SqlError, match=says) as error:
            view.sql(f"ALTER MATERIALIZED VIEW v SET ({text})")
        assert error.value.line == 1 and error.value.hint
    assert hidden(view) == [] and view.flush()["v"].error is None
