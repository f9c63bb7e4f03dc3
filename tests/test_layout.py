"""The shape of the code: names, how much is handed to a call, and that no modules import each other.

Sizes of modules and functions are no rule: `python -m tools.shape` prints them.
"""

from __future__ import annotations

import pytest

from tools.shape import (
    MOST_PARAMETERS,
    PRODUCT,
    Module,
    count_files,
    find_circle,
    is_participle,
    is_verb,
    list_double_classes,
    list_names,
    read_modules,
)

MANY_PARAMETERS = {
    "engine.hummock.store.Hummock.iter",  # options of a read, by name
    "engine.hummock.store.Hummock.open",  # options of a store, by name
}
LATE_IMPORTS = {
    "engine.hummock.object_store -> engine.hummock.object_store.branch",
    "engine.hummock.object_store -> engine.hummock.object_store.local",
    "engine.hummock.object_store -> engine.hummock.object_store.s3",  # boto3 is loaded where a store is on S3
}


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return read_modules(PRODUCT)


def test_functions_are_named_by_verbs(modules: dict[str, Module]) -> None:
    names = list_names(modules)
    participles = [name for name in names if is_participle(name)]
    assert len(participles) <= 0.03 * len(names), (
        f"name what these do, as `narrow` for `narrowed`: {participles}"
    )
    assert sum(map(is_verb, names)) >= 0.4 * len(names), (
        "begin names of functions with verbs (tools/verbs.txt)"
    )


def test_few_classes_share_a_name(modules: dict[str, Module]) -> None:
    double = list_double_classes(modules)
    assert len(double) <= 8, f"give each its own name: {double}"


def test_lost_races_are_a_matter_of_one_protocol(modules: dict[str, Module]) -> None:
    found = {name: module.conflicts for name, module in modules.items() if module.conflicts}
    assert sum(found.values()) <= 6, f"say how often to try again by engine.hummock.transact: {found}"


def test_a_room_has_few_files(modules: dict[str, Module]) -> None:
    full = {name: count for name, count in count_files(modules).items() if count > 20}
    assert not full, f"make rooms within these folders: {full}"


def test_functions_take_few_parameters(modules: dict[str, Module]) -> None:
    counts = {name: count for module in modules.values() for name, (_, count) in module.functions.items()}
    many = {name for name, count in counts.items() if count > MOST_PARAMETERS}
    message = f"more than {MOST_PARAMETERS} parameters: name what they hand through together; or an exception that is none by now"
    assert many == MANY_PARAMETERS, message


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
