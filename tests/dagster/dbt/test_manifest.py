"""Manifests of several versions, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dagster_tideline.dbt.manifest import ManifestError, read_manifest
from tests.dagster.dbt.manifests import model, source, write_manifest


@pytest.mark.parametrize("version", [10, 11, 12, 20])
def test_versions_are_read(tmp_path: Path, version: int) -> None:
    path = write_manifest(tmp_path, model("a", "select 1 as a"), source("orders"), version=version)
    found = read_manifest(path)
    assert (found.adapter, found.project, found.is_full_refresh) == ("duckdb", "shop", True)
    assert found.nodes["model.shop.a"].materialized == "table"
    assert found.sources["source.shop.raw.orders"].label == "source raw.orders"


def test_fields_that_are_null_or_missing_are_empty(tmp_path: Path) -> None:
    bare = {
        "unique_id": "model.shop.b",
        "resource_type": "model",
        "name": "b",
        "compiled_code": "select 1",
        "meta": None,
    }
    path = write_manifest(
        tmp_path, bare | {"config": {"meta": None, "tags": "daily"}, "columns": None}, exposures=None
    )
    node = read_manifest(path).nodes["model.shop.b"]
    assert (node.identifier, node.meta, node.tags, node.columns) == ("b", {}, ("daily",), {})


def test_a_compiled_text_may_be_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "a.sql").write_text("select 5 as a")
    node = model("a", None, compiled=None, compiled_path="target/a.sql")
    assert read_manifest(write_manifest(tmp_path, node)).nodes["model.shop.a"].code == "select 5 as a"
    outside = model("a", None, compiled=None, compiled_path="../secret.sql")
    (tmp_path.parent / "secret.sql").write_text("select 6")
    with pytest.raises(ManifestError, match="no compiled text"):
        read_manifest(write_manifest(tmp_path, outside))


def test_a_project_that_was_only_parsed_is_told(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="as after `dbt parse`: run `dbt compile --full-refresh`"):
        read_manifest(write_manifest(tmp_path, model("a", None)))


def test_an_old_version_and_another_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"schema v7 of dbt 1\.10\.0; v10 to v12 are read"):
        read_manifest(write_manifest(tmp_path, model("a", "select 1"), version=7))
    other = tmp_path / "catalog.json"
    for text, message in (
        ("{", "is no JSON"),
        ("[]", "no manifest"),
        (json.dumps({"metadata": {}}), "no manifest"),
    ):
        other.write_text(text)
        with pytest.raises(ManifestError, match=message):
            read_manifest(other)
    with pytest.raises(ManifestError, match="can't be read"):
        read_manifest(tmp_path / "nothing.json")


def test_only_the_same_command_tells_of_a_full_refresh(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, model("a", "select 1 as a"), refresh=False)
    assert not read_manifest(path).is_full_refresh
    (path.parent / "run_results.json").write_text(
        json.dumps({"metadata": {"invocation_id": "two"}, "args": {"full_refresh": True}})
    )
    assert not read_manifest(path).is_full_refresh
