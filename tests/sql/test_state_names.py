"""The state tables of a view have names of their own, however deep its aggregates stand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from engine.sql.bind.binder import bind
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.incremental_plan import Rules, build_incremental_plan
from engine.sql.plan import Node, Scan, list_scans
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


class EveryColumnIsWhole:
    """Tells bigint for every column."""

    def infer_types(self, node: Node) -> Mapping[str, str]:
        return dict.fromkeys(node.columns, "bigint")

    def add_fragment(self, fragment: Fragment) -> Fragment:
        return fragment


def plan_of(query: str, rules: Rules = "fast"):
    """Return the incremental plan of a query."""
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    bound = bind(statement.query, small_catalog(), dialect="spark", sql=query)
    return build_incremental_plan("v", bound.plan, bound.columns, EveryColumnIsWhole(), rules)


def test_aggregates_below_aggregates_have_tables_of_their_own() -> None:
    plan = plan_of("SELECT id, (SELECT count(*) FROM auction a WHERE a.category < b.price) AS n FROM bid b")
    names = [fragment.table for fragment in plan.fragments]
    assert len(names) == len(set(names))
    for n, fragment in enumerate(plan.fragments):
        states = {scan.table for scan in list_scans(fragment.plan) if scan.table.startswith("_state")}
        assert states <= set(names[:n])


def test_two_whole_aggregates_meet_in_one_join() -> None:
    plan = plan_of("SELECT id, (SELECT max(id) FROM auction) AS a, (SELECT min(id) FROM event) AS e FROM bid")
    states: list[Scan] = [
        scan for scan in list_scans(plan.fragments[-1].plan) if scan.table.startswith("_state")
    ]
    columns = [column for scan in states for column in scan.columns]
    assert len(states) == 2 and len(columns) == len(set(columns))


def test_the_reference_rule_carries_the_key_of_a_whole_aggregate_through_a_join() -> None:
    plan = plan_of(
        "SELECT x.id, x.n, a.item FROM (SELECT b.id, b.auction, t.n FROM bid b CROSS JOIN "
        "(SELECT count(*) AS n FROM auction) t) x LEFT JOIN auction a ON x.auction = a.id",
        "reference",
    )
    tables = {fragment.table: fragment for fragment in plan.fragments}
    for fragment in plan.fragments:
        for scan in list_scans(fragment.plan):
            if scan.table in tables:
                assert set(scan.primary_key) <= {column for _, column in scan.items}
                assert {column for _, column in scan.items} <= set(tables[scan.table].plan.columns)


@pytest.mark.parametrize("rules", ["fast", "reference"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT count(price) AS n FROM bid) q ORDER BY n LIMIT 3",
        "SELECT * FROM (SELECT count(price) AS n, max(price) AS m FROM bid) q ORDER BY m, n LIMIT 2 OFFSET 1",
        "SELECT * FROM (SELECT a.id AS p, b.id AS q FROM bid a LEFT JOIN bid b ON a.price = b.auction "
        "AND a.auction = b.auction + 1) r ORDER BY p, q LIMIT 10",
        "SELECT * FROM (SELECT a.id AS p, c.n FROM bid a CROSS JOIN (SELECT count(*) AS n FROM auction) c) r "
        "ORDER BY p, n LIMIT 10",
        "SELECT * FROM (SELECT count(*) AS n FROM bid UNION ALL SELECT id FROM auction) q ORDER BY n LIMIT 3",
    ],
)
def test_the_first_rows_are_kept_with_the_hidden_columns_of_what_stands_below(
    query: str, rules: Rules
) -> None:
    plan = plan_of(query, rules)
    tables = {fragment.table: fragment for fragment in plan.fragments}
    assert set(plan.fragments[-1].plan.key) <= set(plan.fragments[-1].plan.columns)
    for fragment in plan.fragments:
        for scan in list_scans(fragment.plan):
            if scan.table in tables:
                assert {column for _, column in scan.items} <= set(tables[scan.table].plan.columns)
                assert len(scan.columns) == len(set(scan.columns))
                assert scan.primary_key == tables[scan.table].key
