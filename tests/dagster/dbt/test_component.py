"""A dbt project as a component: its assets, jobs and checks are those of other models."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from dagster_tideline import DbtProject, Settings, TidelineDbtComponent, build_definitions
from dagster_tideline.project_models import load_project_models
from engine.errors import EnvironmentNotReady
from tests.dagster.dbt.manifests import data_test, model, relation, source, write_manifest

NODES = (
    source("orders"),
    model("stg", f"select id from {relation('orders', 'raw')}", "source.shop.raw.orders"),
    model("bad", "select (", tags=["odd"]),
    data_test("stg_has_ids", "", "model.shop.stg", macro="not_null", column_name="id"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))


def make_project(folder: Path) -> Path:
    """Write a dbt project, and beside it the model of the table that stands for its source."""
    write_manifest(folder / "dbt", *NODES)
    place = folder / "defs"
    place.mkdir()
    (place / "landed.sql").write_text("CREATE TABLE landed (id INT PRIMARY KEY)")
    return place


def test_dbts_models_are_assets_beside_those_of_files(tmp_path: Path) -> None:
    place = make_project(tmp_path)
    component = TidelineDbtComponent(
        manifest="../dbt/target/manifest.json",
        sources={"raw.orders": "landed"},
        store=(tmp_path / "store").as_uri(),
        key_prefix="shop",
        owners=["team:data"],
    )
    graph = component.build_project_defs(tmp_path, place).resolve_asset_graph()
    stg = graph.get(dg.AssetKey(["shop", "stg"]))
    assert stg.parent_keys == {dg.AssetKey(["shop", "landed"])}
    assert stg.owners == ["team:data"] and stg.metadata["dbt/unique_id"] == "model.shop.stg"
    names = {key.name for key in graph.asset_check_keys if key.asset_key == stg.key}
    assert "stg_has_ids" in names
    assert "can't be used" in str(graph.get(dg.AssetKey(["shop", "bad"])).description)


def test_a_selection_leaves_models_out(tmp_path: Path) -> None:
    place = make_project(tmp_path)
    component = TidelineDbtComponent(manifest="../dbt/target/manifest.json", exclude="tag:odd")
    settings = component.build_settings(tmp_path, place)
    assert [one.name for one in load_project_models(settings)] == ["landed", "stg"]


def test_the_environment_names_a_manifest_and_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path)
    monkeypatch.setenv("TIDELINE_ASSETS", str(tmp_path / "defs"))
    monkeypatch.setenv("TIDELINE_DBT_MANIFEST", str(tmp_path / "dbt" / "target" / "manifest.json"))
    monkeypatch.setenv("TIDELINE_DBT_SOURCES", "raw.orders = landed")
    settings = Settings.of_environment(tmp_path)
    found = {one.name: one for one in load_project_models(settings)}
    assert found["stg"].reads == ("landed",)
    monkeypatch.setenv("TIDELINE_DBT_SOURCES", "raw.orders")
    with pytest.raises(EnvironmentNotReady, match="names no table: write"):
        Settings.of_environment(tmp_path)


def test_a_model_of_a_file_and_one_of_dbt_do_not_share_a_name(tmp_path: Path) -> None:
    place = make_project(tmp_path)
    (place / "stg.sql").write_text("CREATE TABLE stg (id INT PRIMARY KEY)")
    dbt = DbtProject(manifest=tmp_path / "dbt" / "target" / "manifest.json")
    settings = Settings.of_environment(tmp_path).replace(assets=place, dbt=dbt)
    found = {one.name: one for one in load_project_models(settings)}
    assert found["stg"].error == "stg is declared twice: in stg.sql and in models/stg.sql"
    assert build_definitions(settings).resolve_asset_graph().has(dg.AssetKey("stg"))


def test_the_yaml_of_a_component_says_it_all(tmp_path: Path) -> None:
    make_project(tmp_path)
    with create_defs_folder_sandbox() as sandbox:
        place = sandbox.scaffold_component(
            component_cls=TidelineDbtComponent,
            defs_yaml_contents={
                "type": "dagster_tideline.TidelineDbtComponent",
                "attributes": {
                    "manifest": str(tmp_path / "dbt" / "target" / "manifest.json"),
                    "sources": {"raw.orders": "landed"},
                    "exclude": ["tag:odd"],
                    "select": "+stg bad",
                    "store": (tmp_path / "store").as_uri(),
                    "translation": {"group_name": "{{ model.name }}_group"},
                },
            },
        )
        (place / "landed.sql").write_text("CREATE TABLE landed (id INT PRIMARY KEY)")
        with sandbox.load_component_and_build_defs(defs_path=place) as (component, definitions):
            assert isinstance(component, TidelineDbtComponent)
            graph = definitions.resolve_asset_graph()
            assert graph.get(dg.AssetKey("stg")).group_name == "stg_group"
            assert not graph.has(dg.AssetKey("bad"))
