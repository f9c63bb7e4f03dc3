"""Models of dbt in a store: what is made, what changes, and what waits for a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline import DbtProject, plan_models, sync_models
from dagster_tideline.dbt.project import read_project
from dagster_tideline.models.loader import Model
from engine.session import Session
from tests.dagster.dbt.manifests import data_test, model, relation, source, write_manifest


def read(folder: Path, seed: str, condition: str) -> tuple[Model, ...]:
    """Return the models of a project with a seed of some rows and a view with a condition."""
    (folder / "seeds").mkdir(exist_ok=True)
    (folder / "seeds" / "levels.csv").write_text(seed)
    code = f"select id, label from {relation('orders', 'raw')} join {relation('levels')} using (level) where {condition}"
    levels = model("levels", None, materialized="seed")
    levels |= {
        "unique_id": "seed.shop.levels",
        "resource_type": "seed",
        "original_file_path": "seeds/levels.csv",
    }
    manifest = write_manifest(
        folder,
        source("orders"),
        levels,
        model("named", code, "seed.shop.levels", "source.shop.raw.orders"),
        data_test("named_has_ids", "", "model.shop.named", macro="not_null", column_name="id"),
    )
    return read_project(DbtProject(manifest=manifest)).models


@pytest.mark.long
def test_a_table_may_come_later_and_a_changed_seed_is_a_changed_view(
    tmp_path: Path, spark: SparkSession
) -> None:
    models = read(tmp_path, "level,label\n1,low\n2,high\n", "id > 0")
    with Session((tmp_path / "store").as_uri(), spark) as session:
        report = sync_models(session, models)
        assert report.created == ("levels",)
        assert "it reads the source raw.orders, and there is no table orders" in report.errors["named"]
        session.sql("CREATE TABLE orders (id INT PRIMARY KEY, level INT)")
        session.sql("INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)")
        report = sync_models(session, models)
        assert (report.created, dict(report.errors)) == (("named",), {})
        session.flush()
        assert _ask(session) == [(1, "low"), (2, "high")]
        changed = read(tmp_path, "level,label\n1,low\n2,top\n3,new\n", "id > 1")
        plan = plan_models(session, changed)
        assert [(one.name, one.change) for one in plan.changes if one.is_planned] == SEED_CHANGES
        assert dict(sync_models(session, changed).errors) == {}
        session.flush()
        assert _ask(session) == [(2, "top"), (3, "new")]
        assert plan_models(session, changed).is_empty


SEED_CHANGES = [("levels", "content"), ("named", "content")]


def _ask(session: Session) -> list[tuple[object, ...]]:
    found = session.sql("SELECT * FROM named ORDER BY id")
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]
