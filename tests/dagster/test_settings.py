"""A project's settings: from the environment, else from where the project lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_tideline.settings import VARIABLES, Settings, find_project_folder
from engine.errors import EnvironmentNotReady


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES.values(), "TIDELINE_BRANCH"):
        monkeypatch.delenv(name, raising=False)


def test_everything_lies_in_the_project_by_default(tmp_path: Path) -> None:
    settings = Settings.of_environment(tmp_path)
    assert (settings.home, settings.assets) == (tmp_path, tmp_path / "assets")
    assert settings.store == (tmp_path / ".tideline" / "store").as_uri()
    assert (settings.runs, settings.driver_seconds, settings.event_seconds) == ("tick", 3600.0, 30.0)


def test_the_environment_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDELINE_STORE", "s3://bucket/prefix")
    monkeypatch.setenv("TIDELINE_RUNS", "driver")
    monkeypatch.setenv("TIDELINE_DRIVER_SECONDS", "60")
    settings = Settings.of_environment(tmp_path)
    assert settings.assets == tmp_path / "home" / "assets"
    assert (settings.store, settings.runs, settings.driver_seconds) == ("s3://bucket/prefix", "driver", 60.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIDELINE_RUNS", "sometimes"),
        ("TIDELINE_DRIVER_SECONDS", "0"),
        ("TIDELINE_DRIVER_SECONDS", "an hour"),
    ],
)
def test_what_cannot_be_meant_is_told_by_its_variable(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(EnvironmentNotReady, match=f"{name} is '{value}'"):
        Settings.of_environment(tmp_path)


def test_a_project_is_found_from_the_folders_in_it(tmp_path: Path) -> None:
    (tmp_path / "workspace.yaml").touch()
    inside = tmp_path / "assets" / "sales"
    inside.mkdir(parents=True)
    assert find_project_folder(inside) == tmp_path
    with pytest.raises(EnvironmentNotReady, match="tideline init NAME"):
        find_project_folder(Path("/"))


def test_one_variable_makes_a_code_location_work_on_a_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_STORE", "s3://bucket/prefix")
    assert not Settings.of_environment(tmp_path).is_of_branch
    monkeypatch.setenv("TIDELINE_BRANCH", "try")
    settings = Settings.of_environment(tmp_path)
    assert settings.store == "s3://bucket/prefix/branch/try" and settings.is_of_branch
    assert settings.replace(runs="driver").store == settings.store
    assert settings.replace(store="s3://other/place").store == "s3://other/place/branch/try"
    monkeypatch.setenv("TIDELINE_BRANCH", "a b")
    with pytest.raises(EnvironmentNotReady, match='TIDELINE_BRANCH: "a b" in "a b" is no name of a branch'):
        Settings.of_environment(tmp_path)
