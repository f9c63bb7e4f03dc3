"""Which columns of joins by order carry a watermark: the greater side of a condition, as far as both sides have come.

Of `l.ts >= r.ts` a pair comes with a row of `l`, whose time is at or above the watermark of `l`, or with one of `r`, which is not
below that of `r`, and below which no matching `l.ts` is: `l.ts` carries the least of both. The lesser side may be any past row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.sql.expression.clock import split_predicate
from engine.sql.expression.monotone_steps import MonotoneStep
from engine.sql.expression.nodes import Between, Column, Comparison, Expr
from engine.sql.incremental.watermarks.column_progress import ColumnProgress, Found
from engine.sql.incremental.watermarks.monotone_expressions import RisingValue, Unit, match_rising
from engine.sql.plan import Join


class PairLimit(NamedTuple):
    """What a condition says of pairs: `column` is never below what steps make of `other`, a column of the other side."""

    column: str
    other: str
    unit: Unit
    steps: tuple[MonotoneStep, ...]

    def below(self, other: ColumnProgress) -> ColumnProgress:
        """Return the bound below which no pair has the column, by that of the other side's."""
        return other.shift(self.unit, self.steps)


def find_ordered_progress(node: Join, conditions: Sequence[Expr], left: Found, right: Found) -> Found:
    """Return the columns of a join that carry a watermark by `conditions` on its pairs."""
    found: Found = {}
    for limit in derive_limits(node, conditions, left, right):
        if (limit.column in left or node.kind == "inner") and limit.column not in found:
            both = left | right
            found[limit.column] = both[limit.column].combine(limit.below(both[limit.other]))
    return found


def derive_limits(node: Join, conditions: Sequence[Expr], left: Found, right: Found) -> Iterator[PairLimit]:
    """Yield what `conditions` on the pairs of a join say of columns that carry a watermark."""
    units = {name: one.unit for name, one in (left | right).items()}
    for greater, lesser in _list_ordered_pairs(node, conditions):
        one, other = match_rising(greater, units), match_rising(lesser, units)
        if one is None or other is None or one.unit != other.unit:
            continue
        crosses_sides = (one.column in left) != (other.column in left)
        back = _invert_steps(one)
        if crosses_sides and back is not None:
            yield PairLimit(one.column, other.column, one.unit, (*other.steps, *back))


def _invert_steps(value: RisingValue) -> tuple[MonotoneStep, ...] | None:
    """Return the steps from a value to its column, None if it was not moved alone."""
    if any(step.kind != "shift" for step in value.steps):
        return None
    return tuple(MonotoneStep("shift", -step.by) for step in reversed(value.steps))


def _list_ordered_pairs(node: Join, conditions: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """Yield pairs of a greater and a lesser value, of which some condition says that they are."""
    if node.nearest is not None:
        if node.nearest.before:
            yield Column(node.nearest.left), Column(node.nearest.right)
        return
    for condition in (part for each in conditions for part in split_predicate(each)):
        match condition:
            case Comparison(operator=">=" | ">", left=greater, right=lesser):
                yield greater, lesser
            case Comparison(operator="<=" | "<", left=lesser, right=greater):
                yield greater, lesser
            case Between(value=value, low=low, high=high):
                yield value, low
                yield high, value
