"""A compiled dbt project over tables that change: its views equal what DuckDB answers to the same compiled texts."""

from __future__ import annotations

import datetime
import decimal
import json
import random
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from dagster_tideline import DbtProject, sync_models
from dagster_tideline.dbt.project import read_project
from engine.session import Session
from tests.dagster.dbt.manifests import data_test, model, relation, source, write_manifest

STG_ORDERS = f"""
with source as (
    -- the shop's own rows: it's raw
    select * from {relation("orders", "raw")}
)
select id as order_id, customer as customer_id, cents / 100 as amount, status, placed_at,
    strftime('%A %-d %B', placed_at) as told, strftime(placed_at, '%Y-%m-%dT%H:%M:%S, Week %V, %d%j') as formatted,
    strptime(strftime(placed_at, '%Y/%m/%d'), '%Y/%m/%d') as day,
    date_trunc('month', placed_at::date)::text as month
from source where status <> 'test'
"""
ORDERS = f"""
with orders as (select * from {relation("stg_orders")}),
customers as (select * from {relation("customers", "raw")}),
totals as (
    select o.customer_id, count(*) as n, sum(o.amount) as total, max(placed_at) as newest
    from orders as o group by o.customer_id
)
select customers.id, customers.name, coalesce(totals.n, 0) as n, totals.total, totals.newest
from customers left join totals on customers.id = totals.customer_id
"""
BY_DAY = f"""
select date_trunc('day', "stg_orders".placed_at)::date as day, s.label, count(*) filter (where amount > 20) as large,
    sum(amount) as total, cast(sum(amount) as integer) as rounded, round(avg(amount), 3) as mean
from {relation("stg_orders")} left join {relation("statuses")} s using (status)
group by 1, 2
"""
BEST = f"""
select id, name, total, row_number() over (order by total desc nulls last, id) as place
from {relation("orders")} qualify place <= 3
"""
BAD = f"select id, frobnicate(name) as x from {relation('orders')}"
ORPHANS = f"""
select o.customer_id as from_field from {relation("stg_orders")} o
left join {relation("customers", "raw")} c on o.customer_id = c.id where c.id is null
"""
NODES = [
    source("orders"),
    source("customers"),
    model("stg_orders", STG_ORDERS, "source.shop.raw.orders", materialized="view"),
    model("orders", ORDERS, "model.shop.stg_orders", "source.shop.raw.customers"),
    model("by_day", BY_DAY, "model.shop.stg_orders", "seed.shop.statuses", materialized="incremental"),
    model("best", BEST, "model.shop.orders", materialized="materialized_view"),
    model("bad", BAD, "model.shop.orders"),
    model("over_bad", f"select id from {relation('bad')}", "model.shop.bad"),
    model("statuses", None, materialized="seed")
    | {
        "unique_id": "seed.shop.statuses",
        "resource_type": "seed",
        "original_file_path": "seeds/statuses.csv",
    },
    data_test("not_null_id", "", "model.shop.orders", macro="not_null", column_name="id"),
    data_test(
        "known_status",
        "",
        "model.shop.stg_orders",
        macro="accepted_values",
        arguments={"column_name": "status", "values": ["open", "paid"]},
        config={"severity": "warn"},
    ),
    data_test(
        "orphans",
        ORPHANS,
        "model.shop.stg_orders",
        "source.shop.raw.customers",
        config={"severity": "WARN"},
    ),
]
VIEWS = ("stg_orders", "orders", "by_day", "best")


def simplify(value: object) -> object:
    """Return a value as both engines give it."""
    if isinstance(value, float | decimal.Decimal | int) and not isinstance(value, bool):
        return round(float(value), 6)
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def ask_duckdb(session: Session, nodes: dict[str, dict[str, str]]) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of all views as DuckDB computes them from the tables of a store."""
    with duckdb.connect() as db:
        db.execute("ATTACH ':memory:' AS shopdb")
        db.execute("SET TimeZone = 'UTC'")
        db.execute("CREATE SCHEMA shopdb.raw")
        for table, into in (("orders_raw", "orders"), ("customers", "customers")):
            rows = session.sql(f"SELECT * FROM {table}")
            db.register("given", rows)
            db.execute(f"CREATE TABLE shopdb.raw.{into} AS SELECT * FROM given")
        db.execute(
            "CREATE TABLE shopdb.main.statuses AS SELECT * FROM (VALUES ('open', 'Open'), ('paid', 'It''s paid')) t(status, label)"
        )
        answers = {}
        for name in VIEWS:
            db.execute(f"CREATE TABLE {relation(name)} AS {nodes[f'model.shop.{name}']['compiled_code']}")
            answers[name] = db.execute(f"SELECT * FROM {relation(name)}").fetchall()
        return answers


@pytest.mark.long
def test_views_equal_duckdbs_answers_over_five_rounds_of_changes(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "statuses.csv").write_text("status,label\nopen,Open\npaid,It's paid\n")
    manifest = write_manifest(tmp_path, *NODES)
    reading = read_project(DbtProject(manifest=manifest, sources={"raw.orders": "orders_raw"}))
    nodes = json.loads(manifest.read_text())["nodes"]
    made = random.Random(5)
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql(
            "CREATE TABLE orders_raw (id INT PRIMARY KEY, customer INT, cents INT, status STRING, placed_at TIMESTAMP_NTZ)"
        )
        session.sql("CREATE TABLE customers (id INT PRIMARY KEY, name STRING)")
        report = sync_models(session, reading.models)
        assert sorted(report.errors) == ["bad", "over_bad"]
        assert "frobnicate" in report.errors["bad"] and "it reads bad" in report.errors["over_bad"]
        for number in range(5):
            for key in range(number * 8, number * 8 + 8):
                status = made.choice(("open", "paid", "test", "lost"))
                when = f"2024-03-0{made.randrange(1, 6)} 10:0{made.randrange(10)}:00"
                values = (
                    f"{key}, {made.randrange(6)}, {made.randrange(9000)}, '{status}', TIMESTAMP_NTZ '{when}'"
                )
                session.sql(f"INSERT INTO orders_raw VALUES ({values})")
            session.sql(f"INSERT INTO customers VALUES ({number}, 'name {number}')")
            session.sql(f"DELETE FROM orders_raw WHERE id = {made.randrange(number * 8 + 1)}")
            session.sql(f"UPDATE orders_raw SET cents = cents + 1234 WHERE id % 7 = {number}")
            assert [one.error for one in session.flush() if one.error] == []
            expected = ask_duckdb(session, nodes)
            for name in VIEWS:
                found = session.sql(f"SELECT * FROM {name}")
                assert found is not None
                rows = [tuple(simplify(value) for value in row.values()) for row in found.to_pylist()]
                wanted = [tuple(map(simplify, row)) for row in expected[name]]
                assert sorted(rows, key=repr) == sorted(wanted, key=repr), name
        lost = session.sql("SELECT count(*) AS n FROM orphans")
        assert lost is not None and lost.to_pylist()[0]["n"] > 0
        again = sync_models(session, reading.models)
        assert not again.created and not again.changed
