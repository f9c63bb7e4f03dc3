"""Which views have one row at most, whose key never changes: a sink may replace it under whatever key."""

from __future__ import annotations

import pytest

from engine.sql.incremental.one_row import is_one_row
from tests.sql.test_state_names import plan_of

ONE = (
    "SELECT max(price) AS p FROM bid",
    "SELECT p + 1 AS q FROM (SELECT max(price) AS p FROM bid) AS m WHERE p > 3",
    "SELECT a.n, e.m FROM (SELECT count(*) AS n FROM auction) AS a CROSS JOIN (SELECT max(id) AS m FROM event) AS e",
    "SELECT count(*) AS n FROM (SELECT auction, count(*) AS c FROM bid GROUP BY auction) AS g",
    "SELECT n, rank() OVER (ORDER BY n) AS r FROM (SELECT count(*) AS n FROM bid) AS c",
)
MANY = (
    "SELECT id FROM bid",
    "SELECT auction, max(price) AS p FROM bid GROUP BY auction",
    "SELECT b.id, m.p FROM bid b CROSS JOIN (SELECT max(price) AS p FROM bid) AS m",
    "SELECT id FROM bid ORDER BY price LIMIT 1",
    "SELECT max(price) AS p FROM bid UNION ALL SELECT min(price) AS p FROM bid",
    "SELECT n FROM (SELECT count(*) AS n FROM bid) AS c GROUP BY n",
)
"""The last but two and the last have one row at a time, which may be another one: what it replaces is told by its key."""


@pytest.mark.parametrize(("query", "one"), [*((q, True) for q in ONE), *((q, False) for q in MANY)])
def test_a_view_has_one_row_where_an_aggregate_without_groups_gives_it(query: str, one: bool) -> None:
    plan = plan_of(query)
    assert is_one_row("v", {fragment.table: fragment for fragment in plan.fragments}) is one


def test_a_view_of_a_view_of_one_row_has_one_row() -> None:
    fragments = {fragment.table: fragment for fragment in plan_of(ONE[0]).fragments}
    over = fragments["v"]
    from_it = plan_of("SELECT id FROM bid").fragments[-1]
    assert not is_one_row("w", {**fragments, "w": from_it})
    assert is_one_row("bid", {**fragments, "bid": over}) and not is_one_row("bid", fragments)
    assert is_one_row("v", {"v": from_it, "bid": over})
