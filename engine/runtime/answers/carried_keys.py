"""Plans that carry along what tells the rows apart that they are made of: of each input below, in columns of their own.

Projections, filters and joins are gone through. What is below them, a scan, a group, first rows, a window or a union, is a `Part`
of the rows: its rows are found by the values of a few of its columns. A semi join gives each pair with a row that it has found.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.sql.expression.nodes import TRUE, Column
from engine.sql.expression.template import as_columns
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
)


@dataclass(frozen=True)
class Part:
    """An input of carried rows: `carried` names for columns of it those of the plan; rows are of it where `present` is true."""

    node: Node
    carried: tuple[tuple[str, str], ...]
    present: str | None = None


@dataclass(frozen=True)
class CarryingPlan:
    """A plan with its parts, and the operators that were gone through, from the top down."""

    plan: Node
    parts: tuple[Part, ...]
    operators: tuple[Node, ...] = ()

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that tell what the rows are made of, each once."""
        found = [column for part in self.parts for _, column in part.carried]
        found += [part.present for part in self.parts if part.present is not None]
        return tuple(dict.fromkeys(found))

    def list_copies(self, columns: Sequence[str]) -> dict[str, str] | None:
        """Return for each carried column one of some columns that is the same, None if there is none for one of them."""
        origins = {find_origin(self.plan, column): column for column in columns}
        found = {column: origins.get(find_origin(self.plan, column)) for column in self.carried}
        copies = {column: copy for column, copy in found.items() if copy is not None}
        return copies if len(copies) == len(found) else None


@dataclass
class KeyCarrier:
    """Makes such plans; the names that it adds are new ones."""

    _names: Iterator[int] = field(default_factory=itertools.count)

    def carry(self, node: Node) -> CarryingPlan:
        """Return a node as a plan that carries what its parts are found by."""
        match node:
            case Filter() | DynamicFilter() | Unnest() | TemporalFilter():
                below = self.carry(node.input)
                plan = msgspec.structs.replace(node, input=below.plan)
                return CarryingPlan(plan, below.parts, (node, *below.operators))
            case Project():
                return self._project(node)
            case Join():
                return self._join(node)
        return CarryingPlan(node, (Part(node, tuple((c, c) for c in list_handles(node))),))

    def _project(self, node: Project) -> CarryingPlan:
        """Return a projection with what its input carries after its items, under new names."""
        below = self.carry(node.input)
        carried = {c for part in below.parts for _, c in part.carried}
        carried |= {part.present for part in below.parts if part.present is not None}
        names = {column: self._make_name() for column in sorted(carried)}
        plan = Project(below.plan, (*node.items, *((new, Column(old)) for old, new in names.items())))
        parts = tuple(
            Part(
                part.node,
                tuple((c, names[at]) for c, at in part.carried),
                None if part.present is None else names[part.present],
            )
            for part in below.parts
        )
        return CarryingPlan(plan, parts, below.operators)

    def _join(self, node: Join) -> CarryingPlan:
        left = self.carry(node.left)
        if node.kind == "anti":
            plan = msgspec.structs.replace(node, left=left.plan)
            return CarryingPlan(plan, left.parts, (node, *left.operators))
        right = self.carry(node.right)
        parts, below = right.parts, right.plan
        if node.kind == "left":
            marked = self._make_name()
            below = Project(below, (*as_columns(below.columns), (marked, TRUE)))
            parts = tuple(Part(p.node, p.carried, p.present or marked) for p in parts)
        kind = "inner" if node.kind == "semi" else node.kind
        plan = msgspec.structs.replace(node, left=left.plan, right=below, kind=kind)
        return CarryingPlan(plan, (*left.parts, *parts), (node, *left.operators, *right.operators))

    def _make_name(self) -> str:
        return f"why:{next(self._names)}"


def find_origin(node: Node, column: str) -> tuple[int, str]:
    """Return which column of which node, by its identity, a column is that projections, filters and joins pass on."""
    match node:
        case Filter() | DynamicFilter() | TemporalFilter():
            return find_origin(node.input, column)
        case Project():
            below = dict(node.items)[column].column
            return (id(node), column) if below is None else find_origin(node.input, below)
        case Join():
            if column in node.left.columns:
                return find_origin(node.left, column)
            inner = node.kind == "inner"
            return find_origin(node.right, column) if inner else (id(node), column)
    return id(node), column


def list_handles(node: Node) -> tuple[str, ...]:
    """Return the columns by which the rows are found that a row of a part is made of."""
    match node:
        case Scan() | UnionAll():
            return node.key
        case Aggregate():
            return node.key
        case Over():
            return node.partition
        case TopN():
            return tuple(dict.fromkeys((*node.key, *(node.partition if node.offset else ()))))
    return ()
