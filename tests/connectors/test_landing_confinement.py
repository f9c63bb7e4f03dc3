"""Landing folders stay in the home of a project; where no home is defined, paths are those of the person who typed them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.connectors.sources import poll_all
from engine.errors import UnsupportedSql
from engine.session import Session


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file, beside the home of a project."""
    monkeypatch.delenv("TIDELINE_ALLOWED_PATHS", raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.csv").write_text("id,name\n1,secret\n")
    return tmp_path / "outside"


def poll(lake: Session, path: str) -> tuple[int, str | None]:
    """Poll a table that was made where no home was defined, by somebody who stood in its folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(os.environ.get("TIDELINE_HOME", "."))
        patched.delenv("TIDELINE_HOME", raising=False)
        create(lake, path)
    (report,) = poll_all(lake.catalog, lake.store)
    return report.rows, report.error


def create(lake: Session, path: str) -> None:
    lake.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, name STRING) WITH (connector = 'landing', path = '{path}')"
    )


def test_a_table_over_a_folder_out_of_the_home_is_refused_at_the_place_of_its_path(
    lake: Session, outside: Path
) -> None:
    with pytest.raises(UnsupportedSql, match="TIDELINE_ALLOWED_PATHS") as refused:
        create(lake, str(outside))
    assert refused.value.column > 1


@pytest.mark.parametrize("path", ["{outside}", "../outside"])
def test_a_folder_out_of_the_home_is_refused_with_the_setting_that_allows_it(
    lake: Session, outside: Path, path: str
) -> None:
    rows, error = poll(lake, path.format(outside=outside))
    assert (rows, "TIDELINE_ALLOWED_PATHS" in str(error)) == (0, True)


def test_a_link_in_the_home_to_a_folder_out_of_it_is_refused(lake: Session, outside: Path) -> None:
    (outside.parent / "home" / "link").symlink_to(outside)
    rows, error = poll(lake, "link")
    assert (rows, "it leads to" in str(error)) == (0, True)


def test_the_setting_allows_a_folder_out_of_the_home(
    lake: Session, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", str(outside))
    assert poll(lake, str(outside)) == (1, None)


def test_without_a_home_any_folder_can_be_named(
    lake: Session, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_HOME")
    assert poll(lake, str(outside)) == (1, None)
