"""Who reads a state is told that its rows only come where that is so: of a filter on now() they go as time passes."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.incremental.incremental_plan import Rules, build_incremental_plan
from engine.sql.plan import list_scans
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.test_state_names import EveryColumnIsWhole

COLUMNS = (
    RelationColumn("id", "bigint", False),
    RelationColumn("k", "bigint"),
    RelationColumn("ts", "timestamp"),
)
CATALOG = Catalog(
    {
        name: Relation(
            name=name,
            kind="table",
            columns=COLUMNS,
            primary_key=("id",),
            distribution_key=("id",),
            append_only=grows,
        )
        for name, grows in (("log", True), ("other", True), ("ev", False))
    }
)
YOUNG = "(SELECT * FROM log WHERE ts > now() - INTERVAL '1' HOUR)"
QUERIES = (
    f"SELECT DISTINCT k FROM {YOUNG} y",
    f"SELECT k, id FROM (SELECT DISTINCT k, id FROM {YOUNG} y) d WHERE NOT EXISTS (SELECT 1 FROM other o WHERE o.id = d.k)",
    f"SELECT y.id, o.k FROM {YOUNG} y JOIN other o ON y.k = o.k",
    f"SELECT y.id, o.k FROM other o LEFT JOIN {YOUNG} y ON y.k = o.k",
    f"SELECT k, max(id) AS m, sum(id) AS s, count(DISTINCT ts) AS n FROM {YOUNG} y GROUP BY k",
    f"SELECT id FROM {YOUNG} y WHERE id > (SELECT max(k) FROM {YOUNG} z)",
    f"SELECT k FROM (SELECT DISTINCT k FROM {YOUNG} y UNION ALL SELECT k FROM other) u GROUP BY k",
    f"SELECT id, lag(k) OVER (PARTITION BY k ORDER BY id) AS p FROM {YOUNG} y",
    "SELECT k, count(*) AS n FROM (SELECT DISTINCT k, id FROM log) d GROUP BY k",
    "SELECT DISTINCT k FROM ev",
)


@pytest.mark.parametrize("rules", ["fast", "reference"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_scan_says_that_rows_only_come_where_the_plan_of_what_it_reads_says_so(
    query: str, rules: Rules
) -> None:
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    bound = bind(statement.query, CATALOG, dialect="spark", sql=query)
    plan = build_incremental_plan("v", bound.plan, bound.columns, EveryColumnIsWhole(), rules)
    fragments = {fragment.table: fragment for fragment in plan.fragments}
    for fragment in plan.fragments:
        for scan in list_scans(fragment.plan):
            if scan.append_only and scan.table in fragments:
                assert fragments[scan.table].plan.append_only, (fragment.table, scan.table)
