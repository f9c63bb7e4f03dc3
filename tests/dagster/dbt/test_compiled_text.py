"""Compiled texts over relations of the store: names by the tree, all else as it was written."""

from __future__ import annotations

import pytest

from dagster_tideline.dbt.compiled_text import find_dialect, find_tables, map_relations, strip_comments
from dagster_tideline.dbt.manifest import ManifestError
from engine.errors import SqlError

NAMES = {"orders": "orders", "raw_orders": "landed", "items": "items"}


def put(code: str, adapter: str = "postgres") -> str:
    """Return a text in which tables of a schema have the names above."""
    return map_relations(
        code, find_dialect(adapter), lambda parts: NAMES.get(parts[-1].lower()) if len(parts) > 1 else None
    )


def test_names_are_replaced_and_nothing_else() -> None:
    code = 'select  a, -- from db.s.orders\n \'from db.s.orders\' from "db"."s"."orders" as o;\n-- end'
    assert put(code) == "select  a, -- from db.s.orders\n 'from db.s.orders' from \"orders\" as o"


def test_columns_find_a_table_under_its_old_name() -> None:
    assert put("select raw_orders.a from s.raw_orders") == 'select raw_orders.a from "landed" AS raw_orders'
    assert put("select s.raw_orders.a from s.raw_orders") == 'select raw_orders.a from "landed" AS raw_orders'


def test_a_field_of_a_struct_is_no_column_of_a_schema() -> None:
    assert put("select o.address.city from s.orders o", "spark") == "select o.address.city from `orders` o"


def test_a_with_item_that_is_called_as_a_relation_gets_another_name() -> None:
    code = "with orders as (select * from s.orders), x as (select * from s.orders) select orders.a from orders, x"
    assert put(code) == (
        'with "orders_cte" as (select * from "orders"), x as (select * from "orders") '
        'select orders.a from "orders_cte" AS orders, x'
    )


def test_with_items_are_seen_where_they_are_in_scope() -> None:
    code = "with orders as (select 1 as a), b as (select * from orders) select * from b where a in (select a from orders)"
    assert put(code) == code
    inner = "select * from (with orders as (select 2 as a) select a from orders) q join s.orders o on true"
    assert put(inner) == (
        'select * from (with "orders_cte" as (select 2 as a) select a from "orders_cte" AS orders) q join "orders" o on true'
    )
    recursive = "with recursive t as (select 1 as n union all select n + 1 from t) select * from t"
    assert find_tables(recursive, find_dialect("postgres")) == []
    own_body = "with t as (select * from t) select * from t"
    assert [parts for parts, _ in find_tables(own_body, find_dialect("postgres"))] == [("t",)]


def test_duckdbs_division_and_order_keep_their_meaning() -> None:
    text = put("select a / b as q, row_number() over (order by a desc) as n from s.orders", "duckdb")
    assert "CAST(a AS DOUBLE PRECISION) / b" in text and "DESC NULLS LAST" in text


def test_letters_in_formats_of_dates_are_no_patterns() -> None:
    text = put("select strftime(a, '%Y-%m-%dT%H:%M'), strftime('Week %V \"%B\"', a) from s.orders", "duckdb")
    assert """TO_CHAR(a, 'YYYY-MM-DD"T"HH24:MI')""" in text
    assert """TO_CHAR(a, '"Week" IW \\"FMMonth\\"')""" in text
    assert "'ID\"\"DD'" in put("select format_date('%u%d', a) from s.orders", "bigquery")
    assert "AS TIMESTAMP)" in put("select strptime(a, '%Y') from s.orders", "duckdb")
    with pytest.raises(SqlError, match="%W in the format of a date has no pattern") as caught:
        put("select a,\n strftime(a, '%Y-%W') from s.orders", "duckdb")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("code", "message", "place"),
    [
        ("select a from s.orders where (", "cannot be read", (1, 30)),
        ("select 'a", "cannot be read", (1, 1)),
        ("delete from s.orders", "no single SELECT", (1, 1)),
        ("select 1; select 2", "no single SELECT", (1, 1)),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(code: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        put(code)
    assert (caught.value.line, caught.value.column) == place


def test_what_cannot_be_translated_is_told() -> None:
    with pytest.raises(SqlError, match="duckdb cannot be translated to postgres: PIVOT"):
        put("select * from s.orders pivot (sum(b) for a in (1, 2))", "duckdb")
    with pytest.raises(SqlError, match="postgres has no such cast") as caught:
        put("select b,\n try_cast(a as int) from s.orders", "duckdb")
    assert caught.value.line == 2


def test_an_adapter_that_nothing_reads_is_told() -> None:
    with pytest.raises(ManifestError, match="adapter cobol are not read"):
        find_dialect("cobol")


def test_comments_go_and_quotes_stay() -> None:
    assert strip_comments("-- it's\nselect '-- a' /* ; */ from t", "postgres") == "select '-- a' from t"


@pytest.mark.parametrize(
    ("adapter", "code", "wanted"),
    [
        (
            "snowflake",
            "select iff(a > 1, b, null) as x, a / b as q from db.s.orders",
            "CAST(a AS DOUBLE PRECISION) / b",
        ),
        ("trino", "select a / b as q from db.s.orders", "a / b AS q"),
        ("bigquery", "select safe_divide(a, b) as q from `db`.`s`.`orders`", "CASE WHEN b <> 0"),
        ("redshift", "select nvl(a, 0) as n from db.s.orders", "COALESCE(a, 0)"),
    ],
)
def test_other_warehouses_texts_become_postgres(adapter: str, code: str, wanted: str) -> None:
    text = put(code, adapter)
    assert find_dialect(adapter).target == "postgres"
    assert wanted in " ".join(text.split()) and 'FROM "orders"' in text


def test_a_column_that_only_its_schema_tells_apart_is_refused() -> None:
    inner = "select * from s.orders where exists (select 1 from r.raw_orders as orders where orders.id = s.orders.id)"
    with pytest.raises(SqlError, match=r"s\.orders is told from another orders by its schema alone"):
        put(inner)
    with pytest.raises(SqlError, match=r"(?s)line 1, column 8.*give each of them an alias"):
        put("select s.orders.id from s.orders join r.orders on true")
    with pytest.raises(SqlError, match="by its schema alone"):
        put("with orders as (select 1 as id) select s.orders.id from s.orders join orders on true")
    nested = (
        "select s.orders.id from s.orders where exists (select 1 from s.items where s.items.id = s.orders.id)"
    )
    assert put(nested) == (
        'select orders.id from "orders" where exists (select 1 from "items" where items.id = orders.id)'
    )


def test_with_items_in_quotes_are_told_apart_by_case_where_the_database_does() -> None:
    code = 'with "Orders" as (select 1 as a), orders as (select 2 as a) select * from "Orders", orders, s.orders z'
    assert put(code) == (
        'with "orders_cte" as (select 1 as a), "orders_cte_" as (select 2 as a) '
        'select * from "orders_cte" AS "Orders", "orders_cte_" AS orders, "orders" z'
    )
    same = 'with "Orders" as (select 1 as a) select * from orders, s.orders z'
    assert 'FROM "orders_cte" AS orders' in put(same, "duckdb")


def test_a_join_whose_word_the_target_reads_as_a_name_is_refused() -> None:
    with pytest.raises(SqlError, match="POSITIONAL JOIN is not taken"):
        put("select * from s.orders positional join s.items", "duckdb")


@pytest.mark.parametrize(
    ("adapter", "text", "message"),
    [
        ("duckdb", "select a ~ 'x' as b from s.items", "matches patterns with whole texts"),
        ("snowflake", "select a rlike 'x' as b from s.items", "matches patterns with whole texts"),
        ("bigquery", "select substr(a, -2) as b from s.items", "a negative start counts from the end"),
    ],
)
def test_words_that_mean_something_else_in_the_target_are_refused(
    adapter: str, text: str, message: str
) -> None:
    with pytest.raises(SqlError, match=message):
        put(text, adapter)


def test_words_that_mean_the_same_are_not_refused() -> None:
    assert "a ~ 'x'" in put("select regexp_matches(a, 'x') as b from s.items", "duckdb")
    assert "SUBSTRING(a FROM -2)" in put("select substring(a, -2) as b from s.items", "redshift")


def test_the_greatest_of_a_null_is_null_where_it_was() -> None:
    text = " ".join(put("select greatest(a, least(b, 1)) as b from s.items", "snowflake").split())
    assert text.startswith("SELECT CASE WHEN a IS NULL OR ") and text.count("GREATEST(") == 1
    assert "THEN NULL ELSE LEAST(b, 1) END" in text
    assert "CASE" not in put("select greatest(a, b) as b from s.items", "duckdb")
