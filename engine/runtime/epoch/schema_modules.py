"""Which modules a view's schema may be imported from: those of the project, as importing a module runs its code.

The text of a model may come from somebody else than the person whose rights the process has.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from engine.errors import SqlError

SETTING = "TIDELINE_ALLOWED_MODULES"


def import_schema_module(name: str) -> ModuleType:
    """Import a module that lies in TIDELINE_HOME, else in the working folder, or that TIDELINE_ALLOWED_MODULES names.

    Packages above it run as well, so each of them is looked at before it is imported. Raises SqlError for any other module, of
    which nothing has run then, and ImportError for one that is not there.
    """
    widened = [prefix.strip() for prefix in os.environ.get(SETTING, "").split(",") if prefix.strip()]
    if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in widened):
        home = Path(os.environ.get("TIDELINE_HOME") or ".").expanduser().resolve()
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            _check_in_project(".".join(parts[:count]), home)
    return importlib.import_module(name)


def _check_in_project(name: str, home: Path) -> None:
    """Raise SqlError unless a module, whose packages were checked before, lies in the project."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module that was not found by the import system, such as __main__
        spec = None
    if spec is None:
        raise ModuleNotFoundError(f"there is no module {name}")
    places = list(_list_locations(spec))
    if not places or not all(_is_of_project(place, home) for place in places):
        where = str(places[0]) if places else "no file"
        raise SqlError(
            f"module {name} is not one of the project: it is {where}, and importing it would run its code",
            hint=f"put the schema into a module in {home}, or name the module in the environment variable {SETTING} "
            "(several are separated by commas; packages in them are meant too)",
        )


def _list_locations(spec: ModuleSpec) -> Iterator[Path]:
    """Yield the file of a module, or the folders of a package without one."""
    if spec.has_location and spec.origin is not None:
        yield Path(spec.origin)
    elif spec.origin is None:
        yield from (Path(folder) for folder in spec.submodule_search_locations or ())


def _is_of_project(place: Path, home: Path) -> bool:
    """Tell whether a file lies in the project, and not among the packages that are installed in a folder of it."""
    found = place.resolve()
    installed = {
        Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    return (
        found.is_relative_to(home)
        and not any(found.is_relative_to(folder) for folder in installed)
        and not {"site-packages", "dist-packages"} & set(found.parts)
    )
