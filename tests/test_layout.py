"""The shape of the code: how long modules and functions are, how much is handed to a call, and that no modules import each other.

What stands in the lists of exceptions was there before the rule. They only shrink: an exception that is no longer needed fails.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "dagster_project", "resources", "assets")
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 6

LONG_MODULES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()
MANY_PARAMETERS = {
    "engine.hummock.store.Hummock.iter",  # options of a read, by name
    "engine.hummock.store.Hummock.open",  # options of a store, by name
}
LATE_IMPORTS = {
    "engine.hummock.object_store -> engine.hummock.object_store.local",
    "engine.hummock.object_store -> engine.hummock.object_store.s3",  # boto3 is loaded where a store is on S3
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """What is looked at of one module: its lines, its functions with their lines and parameters, and what is imported when."""

    lines: int
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    late_imports: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    found: dict[str, Module] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text()
            found[name] = Module(len(text.splitlines()))
            read(ast.parse(text), name, found[name])
    for name, module in found.items():
        for imports in (module.imports, module.late_imports):
            known = {one if one in found else one.rpartition(".")[0] for one in imports}
            imports.clear()
            imports.update((known & set(found)) - {name})
    return found


def read(tree: ast.AST, name: str, module: Module, in_class: bool = False, late: bool = False) -> None:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            inner = f"{name}.{child.name}"
            assert child.end_lineno is not None
            module.functions[inner] = (child.end_lineno - child.lineno + 1, parameters(child, in_class))
            read(child, inner, module, late=True)
        elif isinstance(child, ast.ClassDef):
            read(child, f"{name}.{child.name}", module, True, late)
        elif isinstance(child, ast.Import):
            (module.late_imports if late else module.imports).update(alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            inside = {f"{child.module}.{alias.name}" for alias in child.names}
            (module.late_imports if late else module.imports).update(inside)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
                read(child, name, module, in_class, late)


def parameters(function: Function, is_method: bool) -> int:
    given = function.args
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in function.decorator_list)
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - (is_method and not static)


def test_modules_are_short(modules: dict[str, Module]) -> None:
    long = {name for name, module in modules.items() if module.lines > MOST_LINES}
    assert long == LONG_MODULES, (
        f"more than {MOST_LINES} lines: take a concept out; or an exception that is none by now"
    )


def test_functions_are_short(modules: dict[str, Module]) -> None:
    sizes = {name: lines for module in modules.values() for name, (lines, _) in module.functions.items()}
    long = {name for name, lines in sizes.items() if lines > MOST_LINES_OF_A_FUNCTION}
    assert long == LONG_FUNCTIONS, (
        f"more than {MOST_LINES_OF_A_FUNCTION} lines; or an exception that is none by now"
    )


def test_functions_take_few_parameters(modules: dict[str, Module]) -> None:
    counts = {name: count for module in modules.values() for name, (_, count) in module.functions.items()}
    many = {name for name, count in counts.items() if count > MOST_PARAMETERS}
    told = f"more than {MOST_PARAMETERS} parameters: name what they hand through together; or an exception that is none by now"
    assert many == MANY_PARAMETERS, told


def test_no_modules_import_each_other(modules: dict[str, Module]) -> None:
    try:
        TopologicalSorter({name: module.imports for name, module in modules.items()}).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


def test_imports_in_functions_hide_no_circle(modules: dict[str, Module]) -> None:
    reached: dict[str, set[str]] = {}

    def reach(name: str) -> set[str]:
        if name not in reached:
            reached[name] = set()
            for other in modules[name].imports:
                reached[name] |= {other} | reach(other)
        return reached[name]

    hidden = {
        f"{name} -> {other}"
        for name, module in modules.items()
        for other in module.late_imports
        if name in reach(other)
    }
    assert hidden == LATE_IMPORTS, (
        "import at the top of the file, or put what both need below; or an exception that is none by now"
    )
