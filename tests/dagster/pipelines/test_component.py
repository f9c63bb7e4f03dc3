"""A pipeline as a component: its datasets are assets beside the tables that it reads."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from dagster_tideline import PipelineProject, Settings, TidelinePipelineComponent, load_models
from dagster_tideline.pipelines.project import list_known_tables
from dagster_tideline.project_models import load_project_models
from engine.errors import EnvironmentNotReady
from engine.pipelines.spec import PipelineError
from tests.pipelines.projects import write_project

SPEC = "name: p\nstorage: s\nlibraries:\n  - glob: {include: gold/**}\n"
TEXT = """
CREATE MATERIALIZED VIEW best COMMENT 'The best' AS SELECT id, x FROM raw.orders WHERE x > 3;
CREATE TEMPORARY VIEW low AS SELECT * FROM raw.orders WHERE x < 3;
CREATE STREAMING TABLE seen AS SELECT at FROM STREAM log;
CREATE MATERIALIZED VIEW bad AS SELECT count(*) FROM low;
"""
TABLES = """
CREATE TABLE landed (id INT PRIMARY KEY, x INT);
CREATE TABLE log (at TIMESTAMP) APPEND ONLY;
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))


def make_project(folder: Path) -> Path:
    """Write a pipeline, and beside it the models of the tables that it reads."""
    write_project(folder / "pipeline", {"spark-pipeline.yml": SPEC, "gold/a.sql": TEXT})
    place = folder / "defs"
    place.mkdir()
    (place / "tables.sql").write_text(TABLES)
    return place


def test_datasets_are_assets_beside_the_tables_of_files(tmp_path: Path) -> None:
    place = make_project(tmp_path)
    component = TidelinePipelineComponent(
        spec="../pipeline",
        tables={"raw.orders": "landed"},
        store=(tmp_path / "store").as_uri(),
        key_prefix="shop",
        owners=["team:data"],
    )
    graph = component.build_project_defs(tmp_path, place).resolve_asset_graph()
    best = graph.get(dg.AssetKey(["shop", "best"]))
    assert best.parent_keys == {dg.AssetKey(["shop", "landed"])}
    assert best.owners == ["team:data"] and best.group_name == "gold"
    assert best.metadata["pipelines/place"] == "gold/a.sql:2"
    assert "The best" in str(best.description)
    assert graph.get(dg.AssetKey(["shop", "seen"])).parent_keys == {dg.AssetKey(["shop", "log"])}
    assert "has no name" in str(graph.get(dg.AssetKey(["shop", "bad"])).description)


def test_the_environment_names_a_spec_and_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path)
    monkeypatch.setenv("TIDELINE_ASSETS", str(tmp_path / "defs"))
    monkeypatch.setenv("TIDELINE_PIPELINE_SPEC", str(tmp_path / "pipeline" / "spark-pipeline.yml"))
    monkeypatch.setenv("TIDELINE_PIPELINE_TABLES", "raw.orders = landed")
    settings = Settings.of_environment(tmp_path)
    found = {one.name: one for one in load_project_models(settings)}
    assert found["best"].reads == ("landed",)
    assert settings.pipeline is not None and settings.pipeline.leave_out == ()
    monkeypatch.setenv("TIDELINE_PIPELINE_LEAVE_OUT", " silver.at, gold.by ,")
    left = Settings.of_environment(tmp_path).pipeline
    assert left is not None and left.leave_out == ("silver.at", "gold.by")
    monkeypatch.setenv("TIDELINE_PIPELINE_TABLES", "raw.orders")
    with pytest.raises(EnvironmentNotReady, match="names no table: write"):
        Settings.of_environment(tmp_path)


def test_a_spec_that_is_missing_fails_the_loading_in_a_sentence(tmp_path: Path) -> None:
    settings = Settings.of_environment(tmp_path).replace(pipeline=PipelineProject(spec=tmp_path / "no.yml"))
    with pytest.raises(PipelineError, match="there is no spec"):
        load_project_models(settings)


def test_the_yaml_of_a_component_says_it_all(tmp_path: Path) -> None:
    make_project(tmp_path)
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.scaffold_component(
            component_cls=TidelinePipelineComponent,
            defs_yaml_contents={
                "type": "dagster_tideline.TidelinePipelineComponent",
                "attributes": {
                    "spec": str(tmp_path / "pipeline" / "spark-pipeline.yml"),
                    "tables": {"raw.orders": "landed"},
                    "store": (tmp_path / "store").as_uri(),
                },
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=place) as (component, definitions):
            assert isinstance(component, TidelinePipelineComponent)
            assert definitions.resolve_asset_graph().has(dg.AssetKey("best"))


def test_a_table_whose_rows_end_is_not_append_only_to_a_stream(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "tables.sql").write_text(
        TABLES
        + "CREATE TABLE short (at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1' HOUR WITH TTL) APPEND ONLY;"
    )
    known = {one.name: one for one in list_known_tables({}, load_models(folder))}
    assert {name: one.append_only for name, one in known.items()} == {
        "landed": False,
        "log": True,
        "short": False,
    }
    assert known["landed"].columns == ("id", "x")
