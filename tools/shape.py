"""`python -m tools.shape` measures the engine's code: modules, functions, their lengths and parameters, circles of imports.

The same reader serves the tests of the layout (`tests/test_layout.py`), which say how long anything may be.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 450
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """What is looked at of one module: its lines, its functions with their lines and parameters, and what is imported when."""

    lines: int
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    late_imports: set[str] = field(default_factory=set)


def read_modules(packages: Iterable[str]) -> dict[str, Module]:
    """Return the modules of packages of the repository by name; imports are those among them."""
    found: dict[str, Module] = {}
    for package in packages:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text()
            found[name] = Module(len(text.splitlines()))
            _read(ast.parse(text), name, found[name])
    for name, module in found.items():
        for imports in (module.imports, module.late_imports):
            known = {one if one in found else one.rpartition(".")[0] for one in imports}
            imports.clear()
            imports.update((known & set(found)) - {name})
    return found


def _read(tree: ast.AST, name: str, module: Module, in_class: bool = False, late: bool = False) -> None:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            inner = f"{name}.{child.name}"
            assert child.end_lineno is not None
            module.functions[inner] = (
                child.end_lineno - child.lineno + 1,
                _count_parameters(child, in_class),
            )
            _read(child, inner, module, late=True)
        elif isinstance(child, ast.ClassDef):
            _read(child, f"{name}.{child.name}", module, True, late)
        elif isinstance(child, ast.Import):
            (module.late_imports if late else module.imports).update(alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            inside = {f"{child.module}.{alias.name}" for alias in child.names}
            (module.late_imports if late else module.imports).update(inside)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
                _read(child, name, module, in_class, late)


def _count_parameters(function: Function, is_method: bool) -> int:
    given = function.args
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in function.decorator_list)
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - (is_method and not static)


def find_circle(modules: Mapping[str, Module]) -> list[str]:
    """Return modules that import each other at the top of their files, the first again at the end; none: an empty list."""
    try:
        TopologicalSorter({name: module.imports for name, module in modules.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def count_circles(modules: Mapping[str, Module]) -> int:
    """Return how many imports have to go, one after the other, until no modules import each other."""
    left = {name: Module(0, imports=set(module.imports)) for name, module in modules.items()}
    count = 0
    while found := find_circle(left):
        count += 1
        left[found[1]].imports.discard(found[0])
    return count


def measure_modules(modules: Mapping[str, Module]) -> dict[str, str]:
    """Return the measures of modules, each with its name."""
    functions = {name: size for module in modules.values() for name, size in module.functions.items()}
    lengths = [lines for lines, _ in functions.values()]
    long_module = max(modules, key=lambda name: modules[name].lines)
    long_function = max(functions, key=lambda name: functions[name][0])
    return {
        "modules": f"{len(modules):,}",
        "lines": f"{sum(module.lines for module in modules.values()):,}",
        "longest module": f"{modules[long_module].lines} lines, {long_module} (at most {MOST_LINES})",
        "functions": f"{len(functions):,}",
        "lines of a function, median": f"{median(lengths):.0f}",
        "lines of a function, 90th percentile": f"{quantiles(lengths, n=10)[-1]:.0f}",
        "longest function": f"{functions[long_function][0]} lines, {long_function}",
        f"functions over {MOST_LINES_OF_A_FUNCTION} lines": f"{sum(n > MOST_LINES_OF_A_FUNCTION for n in lengths)}",
        f"functions with over {MOST_PARAMETERS} parameters": f"{sum(n > MOST_PARAMETERS for _, n in functions.values())}",
        "circles of imports": f"{count_circles(modules)}",
    }


def main() -> None:
    """Print the measures of packages, by default of the engine."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("packages", nargs="*", default=["engine"], help="packages of the repository")
    found = measure_modules(read_modules(asked.parse_args().packages))
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    main()
