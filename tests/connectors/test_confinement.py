"""Paths of sources and sinks stay in the project's home, or in what a setting adds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.connectors.confinement import SETTING, find_project_home, resolve_allowed_path
from engine.errors import PathNotAllowed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(SETTING, raising=False)
    made = tmp_path / "home"
    made.mkdir()
    return made


def test_a_path_in_the_home_is_allowed_whether_it_exists_or_not(home: Path) -> None:
    assert resolve_allowed_path(home / "landing" / "new", home) == home / "landing" / "new"


def test_a_relative_path_starts_at_the_home(home: Path) -> None:
    assert resolve_allowed_path(Path("landing"), home) == home / "landing"


def test_the_home_itself_is_allowed(home: Path) -> None:
    assert resolve_allowed_path(Path("."), home) == home


@pytest.mark.parametrize("path", ["/etc", "..", "../other", "landing/../../other", "/"])
def test_a_path_that_leads_out_is_refused_with_the_setting_that_allows_it(home: Path, path: str) -> None:
    with pytest.raises(PathNotAllowed, match=SETTING):
        resolve_allowed_path(Path(path), home)


def test_a_folder_whose_name_begins_like_the_home_is_another_one(home: Path) -> None:
    with pytest.raises(PathNotAllowed):
        resolve_allowed_path(home.parent / "homestead", home)


def test_a_link_counts_as_what_it_leads_to(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (home / "inside").mkdir()
    (home / "out").symlink_to(tmp_path / "secret")
    (home / "in").symlink_to(home / "inside")
    assert resolve_allowed_path(home / "in" / "a.csv", home) == home / "inside" / "a.csv"
    with pytest.raises(PathNotAllowed, match="it leads to"):
        resolve_allowed_path(home / "out" / "a.csv", home)


def test_a_home_that_is_a_link_is_resolved_as_well(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert resolve_allowed_path(Path("landing"), tmp_path / "link") == home / "landing"


def test_a_link_to_itself_is_refused(home: Path) -> None:
    (home / "loop").symlink_to(home / "loop")
    with pytest.raises(PathNotAllowed):
        resolve_allowed_path(home / "loop" / "a.csv", home)


def test_the_setting_widens_what_is_allowed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, os.pathsep.join([str(tmp_path / "one"), "", "../two"]))
    assert resolve_allowed_path(tmp_path / "one" / "a", home) == tmp_path / "one" / "a"
    assert resolve_allowed_path(tmp_path / "two", home) == tmp_path / "two"
    with pytest.raises(PathNotAllowed):
        resolve_allowed_path(tmp_path / "three", home)


def test_a_home_is_defined_by_its_setting_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    assert find_project_home() is None
    monkeypatch.setenv("TIDELINE_HOME", str(home))
    assert find_project_home() == home
