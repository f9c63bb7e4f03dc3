"""What all branches of an OR in WHERE demand is demanded once; whatever else WHERE says keeps its meaning."""

from __future__ import annotations

import pytest

from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.queries.extract_common_factors import extract_common_factors
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(a AND x) OR (a AND y)", "a AND (x OR y)"),
        ("(a AND x) OR a", "a"),
        ("(a = b AND x) OR (b = a AND y)", "a = b AND (x OR y)"),
        ("(a AND (x OR y)) OR (a AND z)", "a AND (x OR y OR z)"),
        ("n AND ((a AND x) OR (a AND y))", "n AND a AND (x OR y)"),
        ("n AND (x OR y)", "n AND (x OR y)"),
        ("(x OR y) AND (n OR z)", "(x OR y) AND (n OR z)"),
        ("(n AND (x OR y))", "n AND (x OR y)"),
        ("NOT ((a AND x) OR (a AND y))", "NOT ((a AND x) OR (a AND y))"),
    ],
)
def test_where_demands_once_what_all_branches_demand(before: str, after: str) -> None:
    assert _where(f"SELECT 1 FROM t WHERE {before}") == f"SELECT 1 FROM t WHERE {after}"


def test_the_condition_of_an_aggregate_stays_as_it_is() -> None:
    query = "SELECT COUNT(*) FILTER(WHERE (a AND x) OR (a AND y)) FROM t"
    assert _where(query) == query


def test_a_query_inside_is_rewritten_as_well() -> None:
    query = "SELECT 1 FROM t WHERE EXISTS(SELECT 1 FROM u WHERE {}) AND z"
    assert _where(query.format("(a AND x) OR (a AND y)")) == query.format("a AND (x OR y)")


def _where(query: str) -> str:
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    return extract_common_factors(statement.query, QueryText(small_catalog(), "spark", query)).sql(
        dialect="spark"
    )
