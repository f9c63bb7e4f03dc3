"""The shape of the code: how long modules and functions are, how much is handed to a call, and that no modules import each other.

What stands in the lists of exceptions was there before the rule. They only shrink: an exception that is no longer needed fails.
"""

from __future__ import annotations

import pytest

from tools.shape import (
    MOST_LINES,
    MOST_LINES_OF_A_FUNCTION,
    MOST_PARAMETERS,
    Module,
    find_circle,
    read_modules,
)

PACKAGES = ("engine", "dagster_tideline", "tideline", "dagster_project", "resources", "assets")

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


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return read_modules(PACKAGES)


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
    found = find_circle(modules)
    assert not found, f"modules import each other: {' <- '.join(found)}"


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
