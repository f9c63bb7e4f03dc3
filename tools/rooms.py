"""`python -m tools.rooms` writes docs/rooms.md: which layer and which room imports which, and how often.

The order is that of import-linter's contracts in `pyproject.toml`, the imports are those that grimp finds, as import-linter does.
`--check` writes nothing and ends with 1 where an arrow has come or gone; counts are those of the day of the writing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rooms.md"
PACKAGES = ("engine", "dagster_tideline", "tideline", "dagster_project", "assets", "resources")

HEAD = """\
<!-- written by `make pages` (python -m tools.rooms) -->
# Which room imports which

The layers and rooms of [architecture.md](architecture.md), in the order of the contracts in `pyproject.toml`,
which `make lint` holds. Each stands above what it may import, so all numbers of a table are right of its
diagonal.

A drawing leaves out an arrow where a way over other rooms leads there too; its table has all of them.
A row's number in a column says how many imports of modules lead from the row's room into the column's. The
numbers are those of the day on which `make pages` was run; a test tells when an arrow comes or goes.
`python -m tools.shape` measures modules and functions.
"""

Arrows = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Drawing:
    """One contract: its title, and its layers or rooms from the highest to the lowest, as import-linter names them."""

    title: str
    rooms: tuple[str, ...]

    @property
    def stem(self) -> str:
        """What the names of all rooms begin with and is not shown, "" or with its dot at the end."""
        parents = {room.rpartition(".")[0] for room in self.rooms}
        return f"{parents.pop()}." if len(parents) == 1 else "engine."


def _read_contracts() -> list[dict[str, Any]]:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [contract for contract in told if contract["type"] == "layers"]


def build_import_graph() -> grimp.ImportGraph:
    """Return the imports of all packages, without those that the contracts leave out."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    for contract in _read_contracts():
        for left_out in contract.get("ignore_imports", ()):
            importer, imported = left_out.split(" -> ")
            graph.remove_import(importer=importer, imported=imported)
    return graph


def list_drawings() -> list[Drawing]:
    """Return the contracts that order layers."""
    return [
        Drawing(contract["name"], tuple(re.findall(r"[\w.]+", " ".join(contract["layers"]))))
        for contract in _read_contracts()
    ]


def count_arrows(graph: grimp.ImportGraph, rooms: Sequence[str]) -> dict[tuple[str, str], int]:
    """Return how many imports lead from each room into each other one."""
    found: dict[tuple[str, str], int] = {}
    for module in graph.modules:
        if (source := find_room(module, rooms)) is None:
            continue
        for imported in graph.find_modules_directly_imported_by(module):
            target = find_room(imported, rooms)
            if target is not None and target != source:
                found[source, target] = found.get((source, target), 0) + 1
    return found


def find_room(module: str, rooms: Sequence[str]) -> str | None:
    """Return the room that a module is in, or None."""
    return next((room for room in rooms if f"{module}.".startswith(f"{room}.")), None)


def reduce_arrows(arrows: Arrows) -> list[tuple[str, str]]:
    """Return the arrows to whose ends no other way leads."""
    after: dict[str, set[str]] = {}
    for source, target in arrows:
        after.setdefault(source, set()).add(target)

    def reaches(source: str, target: str, seen: frozenset[str]) -> bool:
        nexts = after.get(source, set()) - seen
        return target in nexts or any(reaches(one, target, seen | {one}) for one in nexts)

    return [
        (source, target)
        for source, target in arrows
        if not any(reaches(one, target, frozenset({source, one})) for one in after[source] - {target})
    ]


def render_page(graph: grimp.ImportGraph) -> str:
    """Return the page's text."""
    sections = (line for drawing in list_drawings() for line in _render_section(graph, drawing))
    return "\n".join([HEAD, *sections]).rstrip() + "\n"


def _render_section(graph: grimp.ImportGraph, drawing: Drawing) -> Iterator[str]:
    found = count_arrows(graph, drawing.rooms)
    order = {room: place for place, room in enumerate(drawing.rooms)}
    names = {room: room.removeprefix(drawing.stem) for room in drawing.rooms}
    yield f"## {drawing.title}\n"
    yield "```mermaid\nflowchart TD"
    for source, target in sorted(reduce_arrows(found), key=lambda arrow: (order[arrow[0]], order[arrow[1]])):
        yield f"    {_render_box(names[source])} -->|{found[source, target]}| {_render_box(names[target])}"
    yield "```\n"
    yield "```text"
    heads = [str(place) for place in range(1, len(order) + 1)]
    rows = {
        source: [
            "-" if source == target else str(found.get((source, target)) or ".") for target in drawing.rooms
        ]
        for source in order
    }
    widths = [max(map(len, column)) + 1 for column in zip(heads, *rows.values(), strict=True)]
    width = max(map(len, names.values())) + 3
    yield " " * width + _align(heads, widths)
    for source, place in order.items():
        yield f"{place + 1:>2} {names[source]:<{width - 3}}" + _align(rows[source], widths)
    yield "```\n"


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _render_box(name: str) -> str:
    return f"{name.replace('.', '_')}[{name}]"


def strip_counts(text: str) -> str:
    """Return a page without its counts: what stays the same as long as no arrow comes or goes."""
    return re.sub(r"\d+", "#", re.sub(r" +", " ", text))


def main() -> None:
    """Write the page, or with `--check` tell whether it has the arrows that there are."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument(
        "--check", action="store_true", help="write nothing; end with 1 where the page is stale"
    )
    text = render_page(build_import_graph())
    if asked.parse_args().check:
        same = PAGE.exists() and strip_counts(PAGE.read_text()) == strip_counts(text)
        sys.exit(0 if same else f"{PAGE} is stale: run make pages")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
