"""A table that is computed as a whole commits the difference to what it has; small ones do so in one task on Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.operators import context
from engine.session import Session

WHOLE = "own action on Arrow: the whole content is computed"


@pytest.fixture
def shop(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n DOUBLE, s STRING)")
    session.sql(
        "INSERT INTO t VALUES (1, 1, 0.0, 'a'), (2, 1, CAST('NaN' AS DOUBLE), NULL), (3, 2, NULL, '')"
    )
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS c, max(n) AS n FROM t GROUP BY g")
    return session


def change(session: Session, query: str) -> Sequence[str]:
    """Give the view another query and return where its epochs were computed until it had it."""
    session.sql(f"ALTER MATERIALIZED VIEW v AS {query}", build=False)
    found = []
    for _ in range(4):
        report = session.flush()
        report.raise_for_errors()
        found += report["v"].ways.values()
    return found


def read(session: Session) -> list[dict[str, object]]:
    found = session.sql("SELECT * FROM v")
    assert found is not None
    return sorted(found.to_pylist(), key=lambda row: row["g"])


def test_a_view_takes_the_rows_of_its_next_query_over_in_one_task(shop: Session) -> None:
    assert WHOLE in change(shop, "SELECT g, count(s) AS c, max(n) AS n FROM t WHERE id <> 3 GROUP BY g")
    assert [(row["g"], row["c"], repr(row["n"])) for row in read(shop)] == [(1, 1, "nan")]
    assert shop.verify_fingerprint("v").is_right


def test_large_tables_are_compared_by_spark(shop: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "SMALL_CHANGE_ROWS", 0)
    ways = change(shop, "SELECT g, count(s) AS c, max(n) AS n FROM t GROUP BY g")
    assert "own action with Spark: the whole content is computed" in ways
    assert [(row["g"], row["c"]) for row in read(shop)] == [(1, 1), (2, 1)]
