"""Queries become plans with the right keys, pushed filters and pruned columns."""

from __future__ import annotations

import pytest

from engine.sql.batch.point_read import point_read, query_tables, to_spark
from engine.sql.bind.binder import bind
from engine.sql.explain import explain
from engine.sql.plan import Aggregate, Filter, Join, Project, Scan, UnionAll, list_scans
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


def plan_of(query: str, dialect: str = "spark"):
    statement = parse_statement(query, dialect)
    assert isinstance(statement, Select)
    return bind(statement.query, small_catalog(), dialect=dialect, sql=query)


def test_columns_that_nobody_reads_are_pruned_but_the_key_stays() -> None:
    (scan,) = list_scans(plan_of("SELECT price FROM bid").plan)
    assert [column for _, column in scan.items] == ["id", "price"]


def test_filters_move_below_joins_but_not_to_the_side_that_may_be_null() -> None:
    query = "SELECT b.id, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id WHERE b.price > 1 AND a.item IS NULL"
    bound = plan_of(query).plan
    assert (
        isinstance(bound, Project) and isinstance(bound.input, Filter) and isinstance(bound.input.input, Join)
    )
    join = bound.input.input
    assert isinstance(join.left, Filter) and isinstance(join.right, Scan)


def test_equalities_of_where_become_the_keys_of_a_comma_join() -> None:
    bound = plan_of("SELECT b.id, a.item FROM bid b, auction a WHERE b.auction = a.id AND b.price > 3").plan
    assert isinstance(bound, Project) and isinstance(bound.input, Join)
    assert bound.input.on == (("b:auction", "a:id"),) and isinstance(bound.input.left, Filter)


def test_the_key_of_a_join_to_a_unique_row_is_the_key_of_the_other_side() -> None:
    bound = plan_of("SELECT b.id, a.item FROM bid b JOIN auction a ON b.auction = a.id").plan
    assert bound.key == ("out:id",)


def test_a_right_join_is_a_left_join_with_its_sides_exchanged() -> None:
    bound = plan_of("SELECT a.id, b.price FROM bid b RIGHT JOIN auction a ON b.auction = a.id").plan
    join = bound.input  # type: ignore[union-attr]
    assert isinstance(join, Join) and join.kind == "left" and join.left.columns[0].startswith("a:")


def test_join_sides_of_different_types_are_cast_to_the_wider_one() -> None:
    bound = plan_of("SELECT a.id FROM auction a JOIN bid b ON a.category = b.id").plan
    assert "CAST(`a:category` AS BIGINT)" in explain(bound)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT auction, count(*) FROM bid GROUP BY auction",
        "SELECT auction, count(*) FROM bid GROUP BY 1",
        "SELECT auction AS a, count(*) FROM bid GROUP BY a",
        "SELECT auction, count(*) FROM bid GROUP BY ALL",
    ],
)
def test_group_by_takes_columns_ordinals_and_aliases(query: str) -> None:
    bound = plan_of(query)
    assert isinstance(bound.plan.input, Aggregate) and [name for name, _ in bound.columns][1] == "count"  # type: ignore[union-attr]


def test_unnamed_columns_get_names_that_differ() -> None:
    names = [
        n
        for n, _ in plan_of(
            "SELECT auction, sum(price), sum(id), price + 1 FROM bid GROUP BY auction, price"
        ).columns
    ]
    assert names == ["auction", "sum", "sum_2", "column_4"]


def test_the_same_call_is_computed_once() -> None:
    bound = plan_of(
        "SELECT auction, sum(price) AS s, sum(price) / count(*) AS m FROM bid GROUP BY auction HAVING sum(price) > 3"
    )
    aggregate = bound.plan.input.input  # type: ignore[union-attr]
    assert isinstance(aggregate, Aggregate) and [call.function for call in aggregate.calls] == [
        "sum",
        "count",
    ]


def test_union_all_flattens_and_keeps_the_branch_in_the_key() -> None:
    bound = plan_of("SELECT id FROM bid UNION ALL SELECT id FROM auction UNION ALL SELECT id FROM event").plan
    assert isinstance(bound, Project) and isinstance(bound.input, UnionAll) and len(bound.input.inputs) == 3
    assert bound.input.key[0] == "_branch" and bound.key[0] == "union:branch"


def test_plain_views_and_ctes_are_written_out() -> None:
    bound = plan_of("WITH d AS (SELECT id FROM dear) SELECT d.id FROM d JOIN bid b ON d.id = b.id").plan
    assert [scan.table for scan in list_scans(bound)] == ["bid", "bid"]


def test_only_append_only_inputs_give_append_only_plans() -> None:
    assert plan_of("SELECT id FROM event").plan.append_only
    assert not plan_of("SELECT id FROM bid").plan.append_only
    assert not plan_of("SELECT kind, count(*) AS n FROM event GROUP BY kind").plan.append_only


def test_simple_reads_need_no_spark() -> None:
    query = "SELECT id AS i, price FROM bid WHERE auction = 3 AND price IN (1, 2) AND note IS NOT NULL ORDER BY price DESC LIMIT 5"
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    found = point_read(statement.query, small_catalog(), "spark")
    assert found is not None
    assert found.columns == (("i", "id"), ("price", "price")) and found.limit == 5
    assert [(p.column, p.op) for p in found.predicates] == [
        ("auction", "="),
        ("price", "in"),
        ("note", "is not null"),
    ]
    assert found.order == (("price", True, False),)


@pytest.mark.parametrize(
    "query", ["SELECT id + 1 FROM bid", "SELECT max(id) FROM bid", "SELECT id FROM bid WHERE id = price"]
)
def test_other_reads_are_left_to_spark(query: str) -> None:
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select) and point_read(statement.query, small_catalog(), "spark") is None


def test_the_tables_of_a_query_are_found_behind_plain_views() -> None:
    statement = parse_statement("SELECT d.id FROM dear d JOIN auction a ON d.id = a.id", "spark")
    assert isinstance(statement, Select)
    assert query_tables(statement.query, small_catalog()) == ("bid", "auction")
    assert "WHERE price > 50" in to_spark(statement.query, small_catalog())
