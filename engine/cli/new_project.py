"""`tideline init NAME`: a project of a user's own, with one view and its test, from the files in `project/`."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

import typer

from engine.cli.first_start import write_archive
from engine.errors import EnvironmentNotReady
from engine.jars import check_java, fetch

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
TARGET_NAMES = {"gitignore": ".gitignore", "pyproject": "pyproject.toml"}
"""Files that tools would take for their own, or leave out of a package, under the names that they are written as."""


def init_project(folder: Path) -> None:
    """Make a project, tell of its files, and fetch and prepare what its Spark needs, unless it is there."""
    for path in make_project(folder):
        typer.echo(f"  {path}")
    check_java()
    fetch()
    typer.echo("\nSpark starts once, to start faster from now on")
    write_archive()
    typer.echo(f"\ncd {folder} && tideline up      # or: python -m pytest")


def make_project(folder: Path) -> list[Path]:
    """Write a new project into a folder that is not there, or empty; returns its files; raises EnvironmentNotReady."""
    if NAME.fullmatch(folder.name) is None:
        raise EnvironmentNotReady(
            f"'{folder.name}' is no name for a project: use letters, digits, _ and -, a letter first"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise EnvironmentNotReady(f"{folder} is there already and not empty: name another folder")
    words = {"name": folder.name, "version": version("tideline")}
    return _copy(files("engine.cli") / "project", folder, words)


def _copy(source: Traversable, target: Path, words: dict[str, str]) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                paths += _copy(entry, target / entry.name, words)
            continue
        path = target / TARGET_NAMES.get(entry.name, entry.name)
        path.write_text(Template(entry.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
        paths.append(path)
    return paths
