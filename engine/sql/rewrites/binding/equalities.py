"""Which predicates are equalities between two expressions; internal names make each predicate unique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.sql.expression.nodes import Expr
from engine.sql.expression.substitute import substitute


@dataclass
class Equalities:
    """The two sides of each equality that was bound."""

    sides: dict[Expr, tuple[Expr, Expr]] = field(default_factory=dict)

    def record(self, predicate: Expr, left: Expr, right: Expr) -> None:
        """Remember that `predicate` says `left = right`."""
        self.sides[predicate] = (left, right)

    def rename(self, by: Mapping[str, Expr]) -> None:
        """Remember every equality also as it reads with columns replaced."""
        for predicate, (left, right) in list(self.sides.items()):
            columns = dict.fromkeys((*left.columns, *right.columns))
            if any(column in by for column in columns):
                self.record(substitute(predicate, by), substitute(left, by), substitute(right, by))

    def find_sides(self, predicate: Expr, inner: set[str]) -> tuple[Expr, Expr] | None:
        """Return (outer side, inner side) if the predicate compares columns of `inner` with columns outside of it."""
        found = self.sides.get(predicate)
        if found is None or not all(side.columns for side in found):
            return None
        for outer, own in (found, found[::-1]):
            if set(own.columns) <= inner and not set(outer.columns) & inner:
                return outer, own
        return None
