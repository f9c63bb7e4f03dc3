"""Benchmarks import names that are there: they run seldom, and some need packages that tests have not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "benchmarks").glob("*.py"))


def list_defined(module: str) -> set[str] | None:
    """Return the names that a module of the project has, None where it makes them up as they are asked for."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = {one.stem for one in path.iterdir()} if path.is_dir() else set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {(one.asname or one.name).partition(".")[0] for one in names}
    return None if "__getattr__" in found else found


def list_imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of the project that a text imports from, each with a name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and (ROOT / node.module.split(".")[0]).is_dir():
            yield from ((node.module, one.name) for one in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_names_that_a_benchmark_imports_are_there(file: Path) -> None:
    missing = [
        f"{module}: {name}"
        for module, name in list_imports(file.read_text())
        if (defined := list_defined(module)) is not None and name not in defined
    ]
    assert not missing


def test_a_name_that_is_not_there_is_found() -> None:
    ((module, name),) = list_imports("from benchmarks.dml import reset_mark")
    assert name not in (list_defined(module) or ())
