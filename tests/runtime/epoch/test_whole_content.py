"""A table that is computed as a whole commits the difference to what it has; small ones do so in one task on Arrow."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from engine.operators import context
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.runtime.subscriptions.judge import Bag, shown

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


@pytest.mark.long
def test_large_tables_are_compared_by_spark(shop: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "SMALL_CHANGE_ROWS", 0)
    ways = change(shop, "SELECT g, count(s) AS c, max(n) AS n FROM t GROUP BY g")
    assert "own action with Spark: the whole content is computed" in ways
    assert [(row["g"], row["c"]) for row in read(shop)] == [(1, 1), (2, 1)]


KEPT = "SELECT id, g, n, s FROM t"
QUERIES = (
    KEPT,
    f"{KEPT} WHERE g > 0",
    f"{KEPT} WHERE n IS NULL OR n > 0",
    "SELECT id, g, n, coalesce(s, 'z') AS s FROM t",
    "SELECT id, g, -n AS n, s FROM t",
)
SMALL = 150
VALUES = (None, 0.0, -0.0, math.nan, 1e300, -2.25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_subscribers_get_exactly_the_difference_on_both_sides_of_the_bound(
    session: Session, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(context, "SMALL_CHANGE_ROWS", SMALL)
    rng, ways, bag = random.Random(seed), set[str](), Bag()
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n DOUBLE, s STRING)")
    session.sql(f"CREATE MATERIALIZED VIEW v AS {KEPT}")
    session.sql("CREATE SUBSCRIPTION s FROM v")
    for step in range(8):
        ids = rng.sample(range(SMALL), SMALL - 10 if step % 2 else 10)
        rows = [
            (one, rng.choice((None, 0, 1)), rng.choice(VALUES), rng.choice((None, "", "ä"))) for one in ids
        ]
        session.sql(f"DELETE FROM t WHERE id % {2 + step % 2} = 0 OR n = 0")
        columns = dict(zip(("id", "g", "n", "s"), zip(*rows, strict=True), strict=True))
        session.write("t", pa.table(columns), mode="upsert")
        session.flush().raise_for_errors()
        session.compact()  # else rows that are gone are counted
        query = QUERIES[step % len(QUERIES)]
        ways |= set(change(session, query))
        assert_equal(content(session, "v"), by_duckdb({"t": content(session, "t")}, query), query)
        for item in session.subscribe("s"):
            bag.apply(item.changes)
            assert bag.listed() == shown(session, "v", item.epoch)
            moved: dict[bool, set[str]] = {True: set(), False: set()}
            for row in item.changes.to_pylist():
                moved[row.pop("op").endswith("Insert")].add(repr(row))
            assert moved[True].isdisjoint(moved[False])
        assert bag.listed() == shown(session, "v")
        assert session.verify_fingerprint("v").is_right
    assert {WHOLE, "own action with Spark: the whole content is computed"} <= ways
