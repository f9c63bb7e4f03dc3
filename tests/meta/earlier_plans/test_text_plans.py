"""A store whose plans hold expressions as texts, as it was written before they were trees, goes on from what it has.

`text_plans.tar.gz` is such a store: views over two tables, with a row deleted after the first content, that mean `VIEWS`.
"""

from __future__ import annotations

import re

import pytest

from engine.hummock import Commit, Hummock
from engine.meta.catalog.expression_texts import has_texts
from engine.meta.catalog.plan_upgrade import PLANS, upgrade_plans
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session
from tests.meta.earlier_plans.going_on import assert_goes_on, assert_written_anew_in_one_commit, earlier, rows

STORE = "text_plans.tar.gz"
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


CHANGES = (
    "INSERT INTO bid VALUES (5, 1, 80, 7.77, 'it''s five'), (6, 2, 5, 0.01, 'two'), (7, 3, 9, 1.00, NULL)",
    "DELETE FROM bid WHERE id = 4",
    "UPDATE auction SET least = 4 WHERE id = 2",
)


def test_the_views_go_on_and_equal_their_queries(session: Session) -> None:
    assert len(earlier(session.store, has_texts)) >= len(VIEWS)
    assert_goes_on(session, has_texts, CHANGES, VIEWS)


def test_all_plans_are_written_as_trees_in_one_commit_and_mean_the_same(old: str) -> None:
    assert_written_anew_in_one_commit(Hummock.open(old), has_texts)


@pytest.mark.long
def test_a_text_that_cannot_be_read_holds_up_its_own_view_only(session: Session) -> None:
    plan = session.store.refresh().catalog[PLANS.key("noted")]
    broken = re.sub('"sql":"upper', '"sql":"? upper', plan, count=1, flags=re.IGNORECASE)
    assert broken != plan
    session.store.commit(Commit(catalog={PLANS.key("noted"): broken}))
    session.sql("INSERT INTO bid VALUES (5, 1, 80, 7.77, 'five')")
    failed = {view.view: view.error or "" for view in session.flush().views if view.error}
    assert failed.keys() == {"noted"}
    assert "cannot be read: drop the view and create it again" in failed["noted"]
    assert rows(session, "SELECT * FROM sums") == rows(session, VIEWS["sums"])
    session.sql("DROP MATERIALIZED VIEW noted")


def test_a_plan_that_is_dropped_meanwhile_does_not_come_back(old: str) -> None:
    store, other = Hummock.open(old), Session(old)
    refresh = store.refresh
    stale = refresh()
    other.sql("DROP MATERIALIZED VIEW noted")
    store.refresh = lambda: stale  # type: ignore[method-assign]
    upgrade_plans(store)
    store.refresh = refresh  # type: ignore[method-assign]
    assert "noted" not in load_catalog(store.refresh()).plans
    other.close()
