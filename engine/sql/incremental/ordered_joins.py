"""Which columns of joins by order carry a watermark: the greater side of a condition, as far as both sides have come.

Of `l.ts >= r.ts` a pair comes with a row of `l`, whose time is at or above the watermark of `l`, or with one of `r`, which is not
below that of `r`, and below which no matching `l.ts` is: `l.ts` carries the least of both. The lesser side may be any past row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.sql.expression.clock import parts_of
from engine.sql.expression.nodes import Between, Column, Comparison, Expr
from engine.sql.expression.steps import Step
from engine.sql.incremental.monotone import Rising, rising
from engine.sql.incremental.progress_values import Found
from engine.sql.plan import Join


def of_order(node: Join, conditions: Sequence[Expr], left: Found, right: Found) -> Found:
    """Return the columns of a join that carry a watermark by `conditions` on its pairs."""
    found: Found = {}
    units = {name: one.unit for name, one in (left | right).items()}
    for greater, lesser in _ordered(node, conditions):
        one, other = rising(greater, units), rising(lesser, units)
        if one is None or other is None or one.unit != other.unit:
            continue
        kept = one.column in left or node.kind == "inner"
        apart = (one.column in left) != (other.column in left)
        back = _back(one)
        if not kept or not apart or back is None or one.column in found:
            continue
        source = (left | right)[other.column].after(one.unit, (*other.steps, *back))
        found[one.column] = (left | right)[one.column].beside(source)
    return found


def _back(value: Rising) -> tuple[Step, ...] | None:
    """Return the steps from a value to its column, None if it was not moved alone."""
    if any(step.kind != "shift" for step in value.steps):
        return None
    return tuple(Step("shift", -step.by) for step in reversed(value.steps))


def _ordered(node: Join, conditions: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """Yield pairs of a greater and a lesser value, of which some condition says that they are."""
    if node.nearest is not None:
        if node.nearest.before:
            yield Column(node.nearest.left), Column(node.nearest.right)
        return
    for condition in (part for each in conditions for part in parts_of(each)):
        match condition:
            case Comparison(operator=">=" | ">", left=greater, right=lesser):
                yield greater, lesser
            case Comparison(operator="<=" | "<", left=lesser, right=greater):
                yield greater, lesser
            case Between(value=value, low=low, high=high):
                yield value, low
                yield high, value
