"""Import every module of the packages in this process, and print what of the process that has changed."""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import logging
import os
import signal
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PACKAGES = ("tideline", "engine", "dagster_tideline")
TEMPLATE = Path("engine/cli/project")
LIBRARIES = ("dagster", "pandas", "pyarrow", "pyspark", "sqlglot", "logging", "warnings")
"""Those whose functions and classes are held against what they were."""


OF_AN_EXTRA = {"engine.telemetry.exporters": "opentelemetry"}
"""Modules that need what a smaller installation has not."""


def list_modules() -> list[str]:
    """Return the names of all modules of the packages but those that run when they are imported."""
    paths = [path for package in PACKAGES for path in sorted(Path(package).rglob("*.py"))]
    shown = [path for path in paths if path.name != "__main__.py" and TEMPLATE not in path.parents]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in shown]
    return [name for name in names if importlib.util.find_spec(OF_AN_EXTRA.get(name, name.partition(".")[0]))]


def find_source(module: str) -> Path:
    """Return the file of a module."""
    path = Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def list_imports(module: str) -> Iterator[str]:
    """Yield what a module imports from other packages."""
    for node in ast.walk(ast.parse(find_source(module).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def describe_process() -> dict[str, object]:
    """Return what importing could change."""
    known: dict[str, object] = {
        "gc.isenabled": gc.isenabled(),
        "gc.get_threshold": gc.get_threshold(),
        "gc.get_freeze_count": gc.get_freeze_count(),
        "warnings.filters": list(warnings.filters),
        "environment": dict(os.environ),
        "recursion": sys.getrecursionlimit(),
        "working folder": os.getcwd(),
        "hooks": (sys.excepthook, threading_hook(), sys.unraisablehook),
    }
    known |= {f"signal {number}": signal.getsignal(number) for number in signal.valid_signals()}
    loggers = {"root": logging.getLogger(), **logging.root.manager.loggerDict}
    for name, one in loggers.items():
        if isinstance(one, logging.Logger) and not name.startswith(PACKAGES):
            known[f"level of the logger {name}"] = one.level
            known[f"handlers of the logger {name}"] = list(one.handlers)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in LIBRARIES:
            known |= describe_parts(name, module)
    return known


def threading_hook() -> object:
    """Return what is called for an error of a thread."""
    import threading

    return threading.excepthook


def describe_parts(name: str, module: types.ModuleType) -> dict[str, object]:
    """Return the functions and classes of a module, and what stands in its classes."""
    found: dict[str, object] = {}
    for attribute, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
            found[f"{name}.{attribute}"] = id(value)
        if isinstance(value, type) and value.__module__ == name:
            parts = {key: one for key, one in vars(value).items() if not key.startswith(("_abc", "__"))}
            found |= {f"{name}.{attribute}.{key}": id(one) for key, one in parts.items()}
    return found


def main() -> int:
    """Compare; 1 if anything has changed."""
    modules = list_modules()
    for name in sorted({found for module in modules for found in list_imports(module)}):
        if not name.startswith(PACKAGES):
            with suppress(Exception):
                importlib.import_module(name)
    before = describe_process()
    for module in modules:
        importlib.import_module(module)
    after = describe_process()
    added = {key for key in after.keys() - before.keys() if key.rpartition(".")[0] in before}
    changed = sorted({key for key, value in before.items() if after.get(key) != value} | added)
    for key in changed:
        print(f"{key}: {before.get(key)} has become {after.get(key)}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
