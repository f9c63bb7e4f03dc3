"""`python -m tools.shape` measures the product's code: its size, its names, its rooms, and how its commits are guarded.

With `--against REVISION` the measures of an earlier state stand beside those of now. The same reader serves the test of the
layout (`tests/test_layout.py`), which holds the names and forbids circles of imports. Sizes are printed for reviewers only.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("engine", "dagster_tideline", "tideline", "dagster_project", "resources", "assets")
MOST_PARAMETERS = 6
TEMPLATE = "engine/cli/project/"
"""What `tideline init` copies is a user's code."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """The measures of one module: lines, functions with lines and parameters, imports, and what it names and guards."""

    lines: int
    path: Path = Path()
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    late_imports: set[str] = field(default_factory=set)
    conflicts: int = 0
    checks: int = 0
    prefixes: list[str] = field(default_factory=list)


def read_modules(packages: Iterable[str], root: Path = ROOT) -> dict[str, Module]:
    """Return the modules of packages of a tree by name; imports are those among them."""
    found: dict[str, Module] = {}
    for path in (path for package in packages for path in sorted((root / package).rglob("*.py"))):
        if TEMPLATE in path.as_posix():
            continue
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text()
        tree = ast.parse(text)
        found[name] = Module(len(text.splitlines()), path.relative_to(root))
        _read(tree, name, found[name])
        _read_guards(tree, found[name])
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
            module.classes.append(child.name)
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


CATALOG_PREFIX = re.compile(
    r"(?:relation|plan|sink|backfill|barrier|failure|quarantine|crossing|checks|control|replaced)/"
)


def _read_guards(tree: ast.AST, module: Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            module.conflicts += any(
                isinstance(n, ast.Name) and n.id == "Conflict" for n in ast.walk(node.type)
            )
        elif isinstance(node, Function):
            module.checks += sum(map(_is_check, node.body))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and CATALOG_PREFIX.match(node.value)
        ):
            module.prefixes.append(node.value)


def _is_check(node: ast.AST) -> bool:
    """Tell whether a nested function is a hand-written precondition: it takes a version and gives nothing."""
    if not (isinstance(node, Function) and len(node.args.args) == 1 and node.args.args[0].annotation):
        return False
    kind, returns = node.args.args[0].annotation, node.returns
    return (
        isinstance(kind, ast.Name)
        and kind.id == "Version"
        and isinstance(returns, ast.Constant)
        and returns.value is None
    )


def find_circle(modules: Mapping[str, Module]) -> list[str]:
    """Return modules that import each other at the top of their files, the first again at the end; none: an empty list."""
    try:
        TopologicalSorter({name: module.imports for name, module in modules.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def count_circles(modules: Mapping[str, Module]) -> int:
    """Return how many imports have to go, one after the other, until no modules import each other."""
    left = {name: Module(0, imports=set(m.imports)) for name, m in modules.items()}
    count = 0
    while found := find_circle(left):
        count += 1
        left[found[1]].imports.discard(found[0])
    return count


@cache
def read_verbs() -> frozenset[str]:
    """Return the verbs that names of functions are counted by (`tools/verbs.txt`)."""
    return frozenset((ROOT / "tools/verbs.txt").read_text().split())


def list_names(modules: Mapping[str, Module]) -> list[str]:
    """Return the names of all functions but those that Python fixes, such as `__init__`."""
    names = [name.rpartition(".")[2] for module in modules.values() for name in module.functions]
    return [name for name in names if not name.startswith("__")]


def is_participle(name: str) -> bool:
    """Tell whether the first word of a name ends as a participle does and is no verb by itself."""
    word = name.strip("_").partition("_")[0]
    return word.endswith(("ed", "en", "ing")) and word not in read_verbs()


def is_verb(name: str) -> bool:
    """Tell whether a name begins with a verb."""
    return name.strip("_").partition("_")[0] in read_verbs()


def list_double_classes(modules: Mapping[str, Module]) -> list[str]:
    """Return the names of classes that are defined twice or more."""
    counts = Counter(name for module in modules.values() for name in module.classes)
    return sorted(name for name, count in counts.items() if count > 1)


def count_files(modules: Mapping[str, Module]) -> Counter[str]:
    """Return how many modules each folder holds."""
    return Counter(module.path.parent.as_posix() for module in modules.values())


def measure_modules(modules: Mapping[str, Module]) -> dict[str, str]:
    """Return the measures of modules, each with its name."""
    functions = {name: size for module in modules.values() for name, size in module.functions.items()}
    lengths = [lines for lines, _ in functions.values()]
    names = list_names(modules)
    long_module = max(modules, key=lambda name: modules[name].lines)
    long_function = max(functions, key=lambda name: functions[name][0])
    folder, files = max(count_files(modules).items(), key=lambda item: item[1])
    double = list_double_classes(modules)
    return {
        "functions named by a participle": _format_share(sum(map(is_participle, names)), len(names)),
        "functions that begin with a verb": _format_share(sum(map(is_verb, names)), len(names)),
        "class names defined twice": f"{len(double)} {', '.join(double[:8])}",
        "except Conflict": f"{sum(module.conflicts for module in modules.values())}",
        "hand-written preconditions": f"{sum(module.checks for module in modules.values())}",
        "catalog prefixes spelled outside their records": f"{sum(_list_spelled(modules))}",
        "most files in a folder": f"{files} {folder}",
        "modules": f"{len(modules):,}",
        "lines": f"{sum(module.lines for module in modules.values()):,}",
        "functions": f"{len(functions):,}",
        "lines of a function, median and 90th percentile": f"{median(lengths):.0f}, {quantiles(lengths, n=10)[-1]:.0f}",
        "longest function": f"{functions[long_function][0]} lines, {long_function}",
        "longest module": f"{modules[long_module].lines} lines, {long_module}",
        f"functions with over {MOST_PARAMETERS} parameters": f"{sum(n > MOST_PARAMETERS for _, n in functions.values())}",
        "circles of imports": f"{count_circles(modules)}",
    }


def _format_share(count: int, whole: int) -> str:
    return f"{count / whole:.1%} ({count:,} of {whole:,})"


def _list_spelled(modules: Mapping[str, Module]) -> Iterator[int]:
    for name, module in modules.items():
        if name != "engine.meta.catalog.records":
            yield len(module.prefixes)


def measure_revision(revision: str, packages: Iterable[str]) -> dict[str, str]:
    """Return the measures of an earlier revision of the repository."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        archive.extractall(folder)
        return measure_modules(read_modules(packages, Path(folder)))


def main() -> None:
    """Print the measures of packages, by default of the whole product."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=PRODUCT, help="packages of the repository")
    parser.add_argument("--against", metavar="REVISION", help="print the measures of a revision first")
    args = parser.parse_args()
    found = measure_modules(read_modules(args.packages))
    before = measure_revision(args.against, args.packages) if args.against else None
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {before[name]:<60}  {value}" if before else f"{name:<{width}}  {value}")


if __name__ == "__main__":
    main()
