"""Folders of landing tables are made with the project's tables; one that may not be made stops no other model."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_tideline.models.loader import Model
from dagster_tideline.sync import sync_models
from engine.session import Session


def model(name: str, path: str) -> Model:
    options = {"connector": "landing", "path": path}
    text = f"CREATE TABLE {name} (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{path}')"
    return Model(name, "table", text, f"assets/{name}.sql", options=options)


def test_a_model_whose_folder_lies_out_of_the_home_is_told_and_the_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(home))
    monkeypatch.delenv("TIDELINE_ALLOWED_PATHS", raising=False)
    with Session((tmp_path / "store").as_uri()) as session:
        report = sync_models(
            session, [model("out", str(tmp_path / "out")), model("inside", "landing/inside")]
        )
        assert report.created == ("inside",)
        assert "TIDELINE_ALLOWED_PATHS" in report.errors["out"]
        assert "out" not in session.catalog.relations
    assert (home / "landing" / "inside").is_dir() and not (tmp_path / "out").exists()


@pytest.mark.s3
def test_no_folder_is_made_for_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(home))
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", "s3://no-bucket")
    with Session((tmp_path / "store").as_uri()) as session:
        asked = [model("cloud", "gs://b/in"), model("gone", "s3://no-bucket/in"), model("inside", "inside")]
        report = sync_models(session, asked)
        assert report.created == ("inside",)
        assert "files are not read from gs://" in report.errors["cloud"]
        assert "there is no bucket no-bucket" in report.errors["gone"]
    assert [path.name for path in home.iterdir()] == ["inside"]
