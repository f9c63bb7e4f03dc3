"""A store whose plans name each fragment's rule by a word, as it was written before rules were kinds, goes on from what it has.

`rule_words.tar.gz` is such a store: views of all rules over two tables, with a row deleted after the first content, that mean
`VIEWS`.
"""

from __future__ import annotations

import msgspec
import pytest

from engine.hummock import Hummock
from engine.meta.catalog.plan_upgrade import decode_plan
from engine.meta.catalog.rule_words import has_rule_words
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.rules import FirstRows, KeyedRecompute, Rule, StoredPartials
from tests.meta.earlier_plans.going_on import (
    assert_goes_on,
    assert_written_anew_in_one_commit,
    earlier,
    stored_plans,
)

STORE = "rule_words.tar.gz"
VIEWS = {
    "noted": "SELECT id, upper(note) AS shown FROM bid WHERE price > 10",
    "joined": "SELECT b.id, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id",
    "sold": "SELECT a.seller, b.id, b.price FROM auction a JOIN bid b ON b.auction = a.id",
    "sums": "SELECT auction, count(*) AS n, sum(price) AS s FROM bid GROUP BY auction",
    "extremes": "SELECT auction, max(price) AS high, count(DISTINCT note) AS notes FROM bid GROUP BY auction",
    "listed": "SELECT auction, sort_array(collect_list(price), false) AS prices FROM bid GROUP BY auction",
    "every": "SELECT sort_array(collect_list(price)) AS prices FROM bid",
    "best": "SELECT id, auction, price FROM bid ORDER BY price DESC, id LIMIT 2",
    "best_each": "SELECT a.id AS auction, q.id, q.price FROM auction a, "
    "LATERAL (SELECT id, price FROM bid WHERE auction = a.id ORDER BY price DESC, id LIMIT 1) q",
    "by_reference": "SELECT a.seller, count(*) AS n, max(b.price) AS high FROM auction a JOIN bid b "
    "ON b.auction = a.id GROUP BY a.seller",
    "ranked": "SELECT id, rank() OVER (ORDER BY price) AS place FROM bid",
}


CHANGES = (
    "INSERT INTO bid VALUES (5, 1, 80, 'e'), (6, 2, 5, 'a'), (7, 3, 9, NULL)",
    "DELETE FROM bid WHERE id = 4",
    "UPDATE bid SET price = 21 WHERE id = 2",
    "UPDATE auction SET item = 'bowl', seller = 8 WHERE id = 2",
)
ANSWERED = {view: query for view, query in VIEWS.items() if view != "ranked"}
"""A query that is answered once has no window functions."""


def _rules(store: Hummock) -> list[Rule]:
    return [f.rule for plan in load_catalog(store.refresh()).plans.values() for f in plan.fragments]


@pytest.mark.long
def test_the_views_go_on_and_equal_their_queries(session: Session) -> None:
    assert len(earlier(session.store, has_rule_words)) >= len(VIEWS)
    assert_goes_on(session, has_rule_words, CHANGES, ANSWERED)


def test_plans_are_written_with_kinds_in_one_commit_and_mean_the_same(old: str) -> None:
    assert_written_anew_in_one_commit(Hummock.open(old), has_rule_words)


def test_every_kind_of_rule_is_read(old: str) -> None:
    words = {word for text in stored_plans(Hummock.open(old)).values() for word in _words(text)}
    every = ["linear", "join", "aggregate", "top-n", "reference", "index", "full"]
    assert words == {*every, "keyed recompute"}
    assert {rule.word for rule in _rules(Hummock.open(old))} == words


def test_what_a_rule_needs_is_carried_by_it(old: str) -> None:
    plans = load_catalog(Hummock.open(old).refresh()).plans

    def rule(view: str) -> Rule:
        return plans[view].fragments[-1].rule

    def first_rows(view: str) -> list[FirstRows]:
        return [f.rule for f in plans[view].fragments if isinstance(f.rule, FirstRows)]

    listed, every, sums = rule("listed"), rule("every"), rule("sums")
    assert isinstance(listed, KeyedRecompute) and len(listed.by) == 1
    assert isinstance(every, KeyedRecompute) and every.by == ()
    assert isinstance(sums, StoredPartials) and [len(call.partials) for call in sums.partials] == [1, 3]
    assert [rule.by for rule in first_rows("best")] == [()]
    assert [len(rule.by) for rule in first_rows("best_each")] == [1]


def test_a_plan_of_today_is_read_as_it_is(old: str) -> None:
    for plan in load_catalog(Hummock.open(old).refresh()).plans.values():
        text = msgspec.json.encode(plan).decode()
        assert not has_rule_words(text)
        assert decode_plan(text) == msgspec.json.decode(text, type=IncrementalPlan) == plan


def _words(text: str) -> list[str]:
    return [fragment["rule"] for fragment in msgspec.json.decode(text)["fragments"]]
