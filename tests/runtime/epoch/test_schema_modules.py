"""Code of a schema's module runs only if the module is one of the project, or is named by a setting."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.runtime.epoch.row_checks import import_schema

SCHEMA = """
    import pathlib
    import pandera.pandas as pdr

    pathlib.Path({trace!r}).touch()
    Rows = pdr.DataFrameSchema({{"id": pdr.Column(int)}})
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's home, on the path of modules."""
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(made))
    monkeypatch.delenv("TIDELINE_ALLOWED_MODULES", raising=False)
    monkeypatch.syspath_prepend(str(made))
    return made


def module(folder: Path, name: str) -> Path:
    """Write a module (`a.b`: of a package) and return the file that is there once it has run."""
    *packages, last = name.split(".")
    for package in packages:
        folder = folder / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    folder.mkdir(exist_ok=True)
    trace = folder / f"{last}.ran"
    (folder / f"{last}.py").write_text(textwrap.dedent(SCHEMA.format(trace=str(trace))))
    for known in (name, *(".".join(packages[: n + 1]) for n in range(len(packages)))):
        sys.modules.pop(known, None)
    return trace


def test_a_module_of_the_project_is_imported(home: Path) -> None:
    traces = [module(home, "own_rows"), module(home, "own_package.inner.rows")]
    assert import_schema("own_rows:Rows") and import_schema("own_package.inner.rows:Rows")
    assert all(trace.exists() for trace in traces)


def test_without_a_home_the_project_is_the_working_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_HOME")
    module(home, "folder_rows")
    with pytest.raises(SqlError, match="not one of the project"):
        import_schema("folder_rows:Rows")
    monkeypatch.chdir(home)
    assert import_schema("folder_rows:Rows")


@pytest.mark.parametrize("name", ["strange_rows", "strange_package.inner.rows"])
def test_a_module_from_elsewhere_is_refused_before_it_runs(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    trace = module(tmp_path / "elsewhere", name)
    with pytest.raises(SqlError, match=r"not one of the project.*\n.*TIDELINE_ALLOWED_MODULES"):
        import_schema(f"{name}:Rows")
    assert not trace.exists() and name.partition(".")[0] not in sys.modules
    monkeypatch.setenv("TIDELINE_ALLOWED_MODULES", f"other, {name.partition('.')[0]}")
    assert import_schema(f"{name}:Rows") and trace.exists()
    monkeypatch.delenv("TIDELINE_ALLOWED_MODULES")
    with pytest.raises(SqlError, match="not one of the project"):  # nor is what was imported already
        import_schema(f"{name}:Rows")


def test_a_prefix_names_whole_names_of_modules(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    trace = module(tmp_path / "elsewhere", "widerows")
    monkeypatch.setenv("TIDELINE_ALLOWED_MODULES", "wide")
    with pytest.raises(SqlError, match="not one of the project"):
        import_schema("widerows:Rows")
    assert not trace.exists()


@pytest.mark.parametrize(
    "name", ["os:environ", "sys:modules", "antigravity:x", "pandera.pandas:Column", "this:s"]
)
def test_what_is_installed_is_not_of_the_project_even_where_it_lies_in_its_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", "/")
    with pytest.raises(SqlError, match="not one of the project"):
        import_schema(name)


def test_a_link_out_of_the_home_leads_out_of_the_project(home: Path, tmp_path: Path) -> None:
    trace = module(tmp_path / "elsewhere", "linked_rows")
    (home / "linked_rows.py").symlink_to(tmp_path / "elsewhere" / "linked_rows.py")
    with pytest.raises(SqlError, match="not one of the project"):
        import_schema("linked_rows:Rows")
    assert not trace.exists()


@pytest.mark.parametrize("name", ["no_such_module:Rows", "__main__:Rows", ".rows:Rows"])
def test_a_module_that_is_not_there_is_an_error(home: Path, name: str) -> None:
    with pytest.raises(SqlError):
        import_schema(name)
