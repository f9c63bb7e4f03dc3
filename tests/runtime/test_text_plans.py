"""A store whose plans hold expressions as texts, as it was written before they were trees, goes on from what it has.

`text_plans.tar.gz` is such a store: views over two tables, with a row deleted after the first content, that mean `VIEWS`.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.hummock import Commit, Hummock
from engine.meta.catalog_store import load
from engine.meta.earlier_plans import PLAN, refreshed
from engine.meta.text_plans import has_texts
from engine.session import Session

STORE = Path(__file__).with_name("text_plans.tar.gz")
VIEWS = {
    "noted": "SELECT id, upper(note) AS shown, price DIV 2 AS half FROM bid WHERE note LIKE 'its%' OR price > 10",
    "sums": "SELECT auction, count(*) AS n, sum(price) AS s, avg(price) AS a, stddev_samp(price) AS d, sum(fee) AS f, "
    "avg(fee) AS g FROM bid GROUP BY auction",
    "extremes": "SELECT auction, max(price) AS high, count(DISTINCT note) AS notes, max_by(note, price) AS best "
    "FROM bid GROUP BY auction",
    "listed": "SELECT auction, sort_array(collect_list(price), false) AS prices FROM bid GROUP BY auction",
    "joined": "SELECT b.id, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id AND b.price > a.least",
    "whole": "SELECT count(*) AS n, bool_and(price > 1) AS every FROM bid",
    "days": "SELECT auction, count(*) AS n, max(try_divide(100, price - 5)) AS ratio FROM bid GROUP BY auction",
}


@pytest.fixture
def old(tmp_path: Path) -> str:
    """The address of a copy of the store."""
    with tarfile.open(STORE) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    return f"file://{tmp_path}/store"


@pytest.fixture
def session(old: str, spark: SparkSession) -> Iterator[Session]:
    with Session(old, spark=spark) as opened:
        yield opened


def _rows(session: Session, query: str) -> list[str]:
    found = session.sql(query)
    assert found is not None
    return sorted(repr(row) for row in found.to_pylist())


def _texts(store: Hummock) -> list[str]:
    catalog = store.refresh().catalog
    return [key for key, text in catalog.items() if key.startswith(PLAN) and has_texts(text)]


def test_the_views_go_on_and_equal_their_queries(session: Session) -> None:
    assert len(_texts(session.store)) >= len(VIEWS)
    session.sql(
        "INSERT INTO bid VALUES (5, 1, 80, 7.77, 'it''s five'), (6, 2, 5, 0.01, 'two'), (7, 3, 9, 1.00, NULL)"
    )
    session.sql("DELETE FROM bid WHERE id = 4")
    session.sql("UPDATE auction SET least = 4 WHERE id = 2")
    report = session.flush()
    assert [view.error for view in report.views if view.error] == []
    assert {view.view for view in report.views if view.rebuilt} == set()
    for name, query in VIEWS.items():
        assert _rows(session, f"SELECT * FROM {name}") == _rows(session, query), name
    assert _texts(session.store) == []


def test_all_plans_are_written_as_trees_in_one_commit_and_mean_the_same(old: str) -> None:
    store = Hummock.open(old)
    before = store.refresh()
    plans = load(before).plans
    after = refreshed(store)
    assert after.number == before.number + 1
    assert load(after).plans == plans
    assert _texts(store) == []
    assert refreshed(store).number == after.number


def test_a_text_that_cannot_be_read_holds_up_its_own_view_only(session: Session) -> None:
    plan = session.store.refresh().catalog[PLAN + "noted"]
    broken = re.sub('"sql":"upper', '"sql":"? upper', plan, count=1, flags=re.IGNORECASE)
    assert broken != plan
    session.store.commit(Commit(catalog={PLAN + "noted": broken}))
    session.sql("INSERT INTO bid VALUES (5, 1, 80, 7.77, 'five')")
    failed = {view.view: view.error or "" for view in session.flush().views if view.error}
    assert failed.keys() == {"noted"}
    assert "cannot be read: drop the view and create it again" in failed["noted"]
    assert _rows(session, "SELECT * FROM sums") == _rows(session, VIEWS["sums"])
    session.sql("DROP MATERIALIZED VIEW noted")


def test_a_plan_that_is_dropped_meanwhile_does_not_come_back(old: str) -> None:
    store, other = Hummock.open(old), Session(old)
    refresh = store.refresh
    stale = refresh()
    other.sql("DROP MATERIALIZED VIEW noted")
    store.refresh = lambda: stale  # type: ignore[method-assign]
    refreshed(store)
    store.refresh = refresh  # type: ignore[method-assign]
    assert "noted" not in load(store.refresh()).plans
    other.close()
