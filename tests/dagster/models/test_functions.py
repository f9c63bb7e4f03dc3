"""Functions as models: their files are read, made before what calls them, and an edit is a change of the views that call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.change_plan import plan_models
from dagster_tideline.models.dry_run import find_refused_models
from dagster_tideline.models.loader import load_models, normalize_sql
from dagster_tideline.runs.asset_builder import build_assets
from dagster_tideline.sync import sync_models
from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session

FILES = {
    "tables.sql": "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
    "a_view.sql": "CREATE MATERIALIZED VIEW a_view AS SELECT id, zone(a) AS z FROM t",
    "over.sql": "CREATE MATERIALIZED VIEW over AS SELECT z, count(*) AS n FROM a_view GROUP BY z;\n"
    "CREATE MATERIALIZED VIEW apart AS SELECT id FROM t",
    "functions/zone.sql": "-- description: which zone\nCREATE FUNCTION zone(a INT) RETURNS STRING LANGUAGE python DETERMINISTIC AS $$\n"
    "def zone(a):\n    return 'Z' + str(a // 10)  # it's one; of ten\n$$;\n",
    "functions/twice.sql": "CREATE FUNCTION twice(a INT) RETURNS STRING RETURN concat(zone(a), zone(a))",
    "plain.sql": "CREATE VIEW plain AS SELECT id, twice(a) AS zz FROM t",
}


def write_files(folder: Path, **edits: str) -> None:
    for name, text in FILES.items():
        for before, after in edits.values() and [(edits["before"], edits["after"])]:
            text = text.replace(before, after)
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def test_functions_are_read_from_files_and_come_before_what_calls_them(tmp_path: Path) -> None:
    write_files(tmp_path)
    models = {model.name: model for model in load_models(tmp_path)}
    assert not any(model.error for model in models.values())
    order = list(models)
    assert order.index("zone") < order.index("twice") < order.index("plain")
    assert order.index("zone") < order.index("a_view")
    assert models["a_view"].reads == ("t", "zone") and models["twice"].reads == ("zone",)
    assert (models["zone"].kind, models["zone"].description) == ("function", "which zone")
    assets = build_assets(list(models.values()), {})
    specs = {
        spec.key.to_user_string(): spec
        for asset in assets
        for spec in ([asset] if isinstance(asset, dg.AssetSpec) else asset.specs)
    }
    assert specs["zone"].kinds == {"function", "tideline"}
    assert {dep.asset_key.to_user_string() for dep in specs["a_view"].deps} == {"t", "zone"}
    dg.Definitions(assets=assets)


def test_a_file_with_a_wrong_function_is_a_model_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "f.sql").write_text(
        "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$\ndef f(a) return a\n$$"
    )
    (model,) = load_models(tmp_path)
    assert (model.name, model.kind) == ("f", "function")
    assert "it is no Python" in (model.error or "")


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_the_case_of_a_body_matters(dialect: str) -> None:
    text = "CREATE FUNCTION f(a INT) RETURNS TEXT LANGUAGE python AS $$def f(a): return 'A'$$"
    assert normalize_sql(text, dialect) != normalize_sql(text.replace("'A'", "'a'"), dialect)
    assert normalize_sql(text, dialect) == normalize_sql(
        text.replace("CREATE FUNCTION", "create  function"), dialect
    )


def test_an_edit_is_a_change_of_the_views_that_call_a_function(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "assets"
    write_files(folder)
    with Session((tmp_path / "s").as_uri(), spark) as session:
        assert not sync_models(session, load_models(folder)).errors
        session.sql("INSERT INTO t VALUES (1, 5), (2, 15), (3, 25)")
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM over ORDER BY z") == [("Z0", 1), ("Z1", 1), ("Z2", 1)]
        plan = plan_models(session, load_models(folder))
        assert plan.is_empty

        write_files(folder, before="// 10", after="// 20")
        plan = plan_models(session, load_models(folder))
        found = {one.name: (one.change, one.work) for one in plan.changes}
        assert found["zone"] == ("content", "text")
        assert found["a_view"] == ("unchanged", "difference")
        assert found["apart"] == ("unchanged", "nothing")
        assert plan["a_view"].reasons == ("zone, which it reads, is another",)

        assert not sync_models(session, load_models(folder)).errors
        assert rows(session, "SELECT * FROM over ORDER BY z") == [("Z0", 1), ("Z1", 1), ("Z2", 1)]
        session.sql("INSERT INTO t VALUES (4, 35)")
        session.flush().raise_for_errors()
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM a_view ORDER BY id") == [
            (1, "Z0"),
            (2, "Z0"),
            (3, "Z1"),
            (4, "Z1"),
        ]
        assert rows(session, "SELECT * FROM over ORDER BY z") == [("Z0", 2), ("Z1", 2)]
        assert rows(session, "SELECT zz FROM plain WHERE id = 4") == [("Z1Z1",)]
        assert plan_models(session, load_models(folder)).is_empty


def test_a_change_that_was_discarded_is_planned_again(tmp_path: Path, spark: SparkSession) -> None:
    """What a view reads has changed then, and its own text has not."""
    folder = tmp_path / "assets"
    write_files(folder)
    (folder / "above.sql").write_text("CREATE MATERIALIZED VIEW above AS SELECT id, zz FROM plain")
    with Session((tmp_path / "s").as_uri(), spark) as session:
        assert not sync_models(session, load_models(folder)).errors
        session.sql("INSERT INTO t VALUES (1, 15)")
        session.flush().raise_for_errors()
        write_files(folder, before="// 10", after="// 20")
        assert not sync_models(session, load_models(folder)).errors
        for view in ("a_view", "above"):
            session.discard(view)
        session.flush().raise_for_errors()
        old = {"a_view": [(1, "Z1")], "above": [(1, "Z1Z1")]}
        assert {view: rows(session, f"SELECT * FROM {view}") for view in old} == old

        plan = plan_models(session, load_models(folder))
        for view in old:
            assert (plan[view].change, plan[view].work) == ("content", "difference")
            assert plan[view].reasons == ("what it reads is another since its next query was discarded",)
        assert {one.name for one in plan.changes if one.is_planned} == {*old}
        assert not sync_models(session, load_models(folder)).errors
        session.flush().raise_for_errors()
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM a_view") == [(1, "Z0")]
        assert rows(session, "SELECT * FROM above") == [(1, "Z0Z0")]
        assert plan_models(session, load_models(folder)).is_empty


def test_an_edit_that_a_view_cannot_follow_is_refused_whole(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "assets"
    write_files(folder)
    with Session((tmp_path / "s").as_uri(), spark) as session:
        assert not sync_models(session, load_models(folder)).errors
        before = load_catalog(session.store.refresh()).catalog.get("zone")
        write_files(folder, before="zone(a INT)", after="zone(a INT, b INT)")
        (folder / "functions/zone.sql").write_text(
            (folder / "functions/zone.sql").read_text().replace("def zone(a)", "def zone(a, b)")
        )
        errors = sync_models(session, load_models(folder)).errors
        assert "takes 2 values" in str(errors)
        assert load_catalog(session.store.refresh()).catalog.get("zone") == before


def test_a_check_of_definitions_tries_functions(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "assets"
    write_files(folder)
    with Session((tmp_path / "s").as_uri(), spark) as session:
        assert not sync_models(session, load_models(folder)).errors
    stored = load_catalog(Hummock.open((tmp_path / "s").as_uri()).refresh()).catalog.relations
    assert find_refused_models(load_models(folder), stored) == {}
    write_files(folder, before="zone(a) AS z", after="zone(a, a) AS z")
    assert "takes 1 values" in find_refused_models(load_models(folder), stored)["a_view"]
