"""Nodes of a dbt project as models: what becomes of each, and why others are not taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dagster_tideline import TidelineTranslator
from dagster_tideline.dbt.project import DbtProject, DbtReading, read_project
from dagster_tideline.models.asset_spec import build_asset_spec, build_column_schema
from dagster_tideline.models.loader import Model
from dagster_tideline.sync import explain_absent
from engine.sql.catalog import Catalog, RelationColumn
from tests.dagster.dbt.manifests import data_test, model, relation, source, write_manifest

ORDERS = f"select id, status from {relation('orders', 'raw')}"


def read(folder: Path, *nodes: dict[str, Any], **others: Any) -> DbtReading:
    """Return the reading of a project of nodes; `adapter`, `refresh` and parts of the manifest come by name."""
    options = {key: others.pop(key) for key in ("select", "exclude", "sources") if key in others}
    return read_project(DbtProject(manifest=write_manifest(folder, *nodes, **others), **options))


def models(reading: DbtReading) -> dict[str, Model]:
    """Return the models of a reading by their names."""
    return {one.name: one for one in reading.models}


def reasons(reading: DbtReading) -> dict[str, str]:
    """Return why nodes are not taken, by their names."""
    return {node.name: node.reason for node in reading.nodes if not node.taken}


@pytest.mark.parametrize("materialized", ["table", "view", "incremental", "materialized_view"])
def test_models_become_materialized_views(tmp_path: Path, materialized: str) -> None:
    found = models(
        read(tmp_path, source("orders"), model("stg", ORDERS, materialized=materialized), adapter="postgres")
    )
    assert found["stg"].sql == 'CREATE MATERIALIZED VIEW "stg" AS\nselect id, status from "orders"'
    assert (found["stg"].kind, found["stg"].dialect, found["stg"].reads) == (
        "materialized view",
        "postgres",
        ("orders",),
    )


def test_inputs_come_before_their_readers_and_sparks_texts_stay_sparks(tmp_path: Path) -> None:
    over = f"select * from {relation('stg', mark='`')}"
    reading = read(
        tmp_path,
        model("a_reader", over, "model.shop.stg"),
        model("stg", "select 1 as id"),
        adapter="databricks",
    )
    assert [one.name for one in reading.models] == ["stg", "a_reader"]
    assert reading.models[1].sql.endswith("select * from `stg`") and reading.models[1].dialect == "spark"


def test_an_incremental_text_of_changes_is_refused_with_what_to_run(tmp_path: Path) -> None:
    code = f"{ORDERS}\nwhere id > (select max(id) from {relation('events')})"
    reading = read(
        tmp_path,
        source("orders"),
        model("events", code, materialized="incremental"),
        model("over", f"select id from {relation('events')}", "model.shop.events"),
        model("other", "select 1 as id"),
        data_test("has_ids", "", "model.shop.events", macro="not_null", column_name="id"),
    )
    error = str(models(reading)["events"].error)
    assert "it is that of an incremental run" in error and "run `dbt compile --full-refresh`" in error
    assert "line 2" in error and "^" in error
    assert reasons(reading)["over"] == "it reads events, which is not taken"
    assert reasons(reading)["has_ids"] == "events is not taken"
    assert models(reading)["other"].error is None


def test_whether_a_text_is_of_all_rows_is_noted_where_it_is_not_known(tmp_path: Path) -> None:
    node = model("events", "select 1 as id", materialized="incremental", raw_code="{% if is_incremental() %}")
    (sure,) = read(tmp_path, node).nodes
    (unsure,) = read(tmp_path, node, refresh=False).nodes
    assert sure.reason == "" and sure.taken
    assert "not known: run `dbt compile --full-refresh`" in unsure.reason and unsure.taken


def test_what_is_not_taken_is_told_in_a_line_each(tmp_path: Path) -> None:
    kinds = {"snap": "snapshot", "hook": "operation", "idea": "analysis"}
    nodes = [model(name, "select 1") | {"resource_type": kind} for name, kind in kinds.items()]
    reading = read(
        tmp_path,
        *nodes,
        model("py", "def model(dbt, session): ...", language="python"),
        model("odd", "select 1", materialized="external"),
        model("part", None),
        model("eph", "select 1", materialized="ephemeral"),
        metrics={"m": {"name": "revenue"}},
    )
    found = reasons(reading)
    assert {name: text[:30] for name, text in found.items()} == {
        "snap": "snapshots are not taken: land ",
        "hook": "operations are not run",
        "idea": "an analysis is no table",
        "py": "a model in python is not taken",
        "odd": "the materialization external i",
        "part": "it has no compiled text: run `",
        "revenue": "a metric is no table",
    }
    assert sorted(models(reading)) == ["odd", "part", "py"]  # their assets show why
    assert all("\n" not in text for text in found.values())


def test_tables_that_nobody_declares_are_told_at_their_place(tmp_path: Path) -> None:
    code = "select 1 as id\nfrom other.schema_x.things"
    refused = models(read(tmp_path, model("a", code)))["a"]
    assert "other.schema_x.things is no model, seed or source" in str(
        refused.error
    ) and "line 2, column 6" in str(refused.error)
    taken = models(read(tmp_path, model("a", code), sources={"schema_x.things": "things"}))["a"]
    assert taken.error is None and taken.reads == ("things",)


def test_a_table_that_is_missing_is_told_by_what_dbt_calls_it(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        source("orders"),
        model("stg", ORDERS),
        model(
            "over",
            f"select s.id from {relation('stg')} s join {relation('snap')} using (id)",
            "model.shop.stg",
        ),
        model("snap", "select 1") | {"resource_type": "snapshot"},
        select="over",
    )
    message = explain_absent(models(reading)["over"], Catalog({}))
    assert "the model stg, which is not selected, and there is no table stg" in message
    assert "the snapshot snap, which is not selected" in message
    source_error = explain_absent(
        models(read(tmp_path, source("orders"), model("stg", ORDERS)))["stg"], Catalog({})
    )
    assert source_error.startswith(
        "it reads the source raw.orders, and there is no table orders: create the table"
    )


def test_tests_become_checks_of_their_model(tmp_path: Path) -> None:
    def of_orders(name: str, macro: str | None, code: str = "", **others: Any) -> dict[str, Any]:
        return data_test(name, code, "model.shop.orders", macro=macro, **others)

    failing = f"-- it's wrong\nselect id from {relation('orders')} where id < 0"
    reading = read(
        tmp_path,
        model("orders", "select 1 as id, 'a' as status"),
        of_orders("t1", "not_null", column_name="id"),
        of_orders("t2", "unique", column_name="id", config={"severity": "WARN"}),
        of_orders("t3", "accepted_values", column_name="status", arguments={"values": ["a", "it's"]}),
        of_orders("t4", "accepted_values", column_name="id", arguments={"values": [1, 2], "quote": False}),
        of_orders(
            "t5",
            "expression_is_true",
            namespace="dbt_utils",
            arguments={"expression": "id > 0 and status <> ';'"},
        ),
        of_orders("t6", None, failing),
        of_orders("t7", "not_null", failing, column_name="id", config={"where": "id > 5"}),
        of_orders("t8", "not_null", column_name="id", config={"error_if": ">10"}),
        of_orders("t9", "mine", failing, config={"fail_calc": "sum(n)"}),
    )
    assert models(reading)["orders"].checks == {
        "t1": "not_null(id)",
        "t2": "unique(id)",
        "t3": "accepted(status, 'a', 'it''s')",
        "t4": "accepted(id, 1, 2)",
        "t5": "(id > 0 AND status <> ';')",
        "t6": 'SELECT\n  id\nFROM "orders"\nWHERE\n  id < 0',
        "t7": 'SELECT\n  id\nFROM "orders"\nWHERE\n  id < 0',
    }
    assert "t2: unique(id) warn" in models(reading)["orders"].options["checks"]
    assert reasons(reading) == {
        "t8": "a check has no error_if: >10",
        "t9": "a check counts rows and has no fail_calc",
    }


def test_a_test_whose_meaning_is_the_projects_own_is_asked_by_its_query(tmp_path: Path) -> None:
    failing = f"select id from {relation('orders')} where id is null and id > 0"
    own = {
        "nodes": ["model.shop.orders"],
        "macros": ["macro.shop.test_not_null", "macro.dbt.get_where_subquery"],
    }
    usual = own | {"macros": ["macro.dbt.test_not_null"]}
    reading = read(
        tmp_path,
        model("orders", "select 1 as id"),
        data_test("own", failing, macro="not_null", column_name="id", depends_on=own),
        data_test("usual", failing, macro="not_null", column_name="id", depends_on=usual),
        data_test(
            "nulls",
            failing,
            "model.shop.orders",
            macro="accepted_values",
            column_name="id",
            arguments={"values": [1, None], "quote": False},
        ),
    )
    checks = models(reading)["orders"].checks
    assert checks["usual"] == "not_null(id)"
    assert checks["own"].startswith("SELECT") and checks["nulls"].startswith("SELECT")


def test_a_condition_on_the_clock_is_asked_by_its_query(tmp_path: Path) -> None:
    late = f"select 1 from (select * from {relation('orders')}) q where not (at <= now())"
    said = {
        "macro": "expression_is_true",
        "namespace": "dbt_utils",
        "arguments": {"expression": "at <= now()"},
    }
    reading = read(
        tmp_path,
        model("orders", "select 1 as id"),
        data_test("late", late, "model.shop.orders", **said),
    )
    assert models(reading)["orders"].checks["late"].startswith("SELECT")


def test_a_test_of_two_tables_is_a_view_of_the_rows_that_fail(tmp_path: Path) -> None:
    code = f"select o.id from {relation('orders')} o left join {relation('shops', 'raw')} s on o.id = s.id where s.id is null"
    reading = read(
        tmp_path,
        source("shops"),
        model("orders", "select 1 as id"),
        data_test("orphans", code, "model.shop.orders", "source.shop.raw.shops", macro="relationships"),
    )
    view = models(reading)["orphans"]
    assert view.reads == ("orders", "shops") and view.group == "tests"
    assert view.checks == {"orphans": 'SELECT * FROM "orphans"'}


def test_tests_can_be_left_out(tmp_path: Path) -> None:
    test = data_test("t1", "", "model.shop.orders", macro="not_null", column_name="id")
    assert (
        models(read(tmp_path, model("orders", "select 1 as id"), test, exclude=["t1"]))["orders"].checks == {}
    )


def test_what_dbt_says_of_a_model_is_what_its_asset_shows(tmp_path: Path) -> None:
    node = model(
        "orders",
        "select 1 as id",
        description="All orders.",
        tags=["nightly", "team:sales"],
        meta={"owner": "ann@example.com"},
        group="sales",
        columns={"id": {"name": "ID", "description": "Its number."}},
    )
    exposure = {
        "name": "board",
        "type": "dashboard",
        "url": "https://x",
        "depends_on": {"nodes": ["model.shop.orders"]},
    }
    groups = {"g": {"name": "sales", "owner": {"email": "sales@example.com"}}}
    found = models(read(tmp_path, node, exposures={"e": exposure}, groups=groups))["orders"]
    assert found.description == "All orders." and found.group == "sales"
    assert found.owners == ("ann@example.com", "sales@example.com")
    assert found.tags == {"nightly": "", "team_sales": ""}
    assert TidelineTranslator().get_metadata(found)["dbt/exposures"] == "board, dashboard, https://x"
    assert build_asset_spec(found, None).metadata["dbt/unique_id"] == "model.shop.orders"
    schema = build_column_schema([RelationColumn("id", "INT")], found.column_descriptions)
    assert schema is not None and schema.columns[0].description == "Its number."


def test_the_folder_is_the_group_of_a_model(tmp_path: Path) -> None:
    node = model("a", "select 1 as id") | {"path": "marts/sales/a.sql"}
    assert models(read(tmp_path, node))["a"].group == "marts_sales"


def test_a_model_of_a_package_says_so(tmp_path: Path) -> None:
    node = model("a", "select (", package_name="tools")
    assert str(models(read(tmp_path, node))["a"].error).startswith(
        "tools: models/a.sql: duckdb cannot be read"
    )
