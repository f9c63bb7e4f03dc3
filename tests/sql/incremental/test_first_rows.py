"""The plan says what first rows cost: what is stored and the change, or all rows where these cannot be found without Spark."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.incremental.incremental_plan import build_incremental_plan
from engine.sql.incremental.rules import FirstRows
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import table
from tests.sql.test_state_names import EveryColumnIsWhole

CATALOG = Catalog({name: table(name, {"id": "bigint", "n": "bigint"}, "id") for name in ("a", "b")})
STORED = (
    "rows that come are held against the stored ones; {} are ordered again where too few of these are left"
)
NUMBERED = (
    "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY n ORDER BY id) AS r FROM {}) q WHERE r <= 2"
)
EITHER = "(SELECT id, n FROM a UNION ALL SELECT n, id FROM b)"
WORDS = {
    "SELECT id FROM a ORDER BY n LIMIT 3": STORED.format("all rows"),
    "SELECT a.id FROM a JOIN b ON a.n = b.id ORDER BY b.n LIMIT 3": STORED.format("all rows"),
    f"SELECT id FROM {EITHER} ORDER BY n LIMIT 3": STORED.format("all rows"),
    "SELECT a.id FROM a JOIN b ON a.n > b.n ORDER BY b.id LIMIT 3": STORED.format("all rows"),
    "SELECT id, explode(array(n, id)) AS x FROM a ORDER BY x LIMIT 3": "all rows are ordered again in each epoch",
    "SELECT id FROM a ORDER BY n LIMIT 3 OFFSET 1": "all rows are ordered again in each epoch",
    NUMBERED.format("a"): STORED.format("touched groups"),
    NUMBERED.format(EITHER): STORED.format("touched groups"),
}


@pytest.mark.parametrize("query", WORDS)
def test_a_plan_says_when_first_rows_are_ordered_again(query: str) -> None:
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    bound = bind(statement.query, CATALOG, dialect="spark", sql=query)
    plan = build_incremental_plan("v", bound.plan, bound.columns, EveryColumnIsWhole())
    (why,) = [one.why for one in plan.fragments if isinstance(one.rule, FirstRows)]
    assert why == WORDS[query]
