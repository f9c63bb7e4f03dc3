"""Which rows the sides of a join never need again: those that nothing can meet which is still to come on the other side.

Of `l.ts >= r.ts - d` rows of `l` below the watermark of `r` less d are done with. Rows may come there yet, as each side has its
own watermark: they meet what is there, and are let go at once. A left join takes null-extended rows back as long as their left
rows are looked up, so as long it needs all that these have met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.sql.expression.nodes import Expr
from engine.sql.incremental.ordered_joins import Limit, limits
from engine.sql.incremental.progress_values import Found, Progress
from engine.sql.plan import Join

Going = tuple[str, Progress] | None
"""A column of a side, and the bound below which its rows are let go."""


def going(node: Join, conditions: Sequence[Expr], left: Found, right: Found) -> tuple[Going, Going]:
    """Return which rows of each side of an inner or a left join are let go; `conditions` stand on its pairs, beside its own."""
    own = (*conditions, *([] if node.residual is None else [node.residual]))
    found = [*limits(node, own, left, right), *_equal(node, left, right)]
    of_left = _nearest(
        (limit.column, limit.below(right[limit.other])) for limit in found if limit.column in left
    )
    back = [limit for limit in found if limit.column in right]
    if node.kind == "inner":
        return of_left, _nearest((limit.column, limit.below(left[limit.other])) for limit in back)
    if of_left is None:
        return None, None
    column, bound = of_left
    met = (
        (one.column, one.below(left[column]).beside(one.below(bound))) for one in back if one.other == column
    )
    return of_left, _nearest(met)


def _equal(node: Join, left: Found, right: Found) -> Iterator[Limit]:
    for one, other in node.on:
        if one in left and other in right and left[one].unit == right[other].unit:
            yield Limit(one, other, left[one].unit, ())
            yield Limit(other, one, left[one].unit, ())


def _nearest(found: Iterator[tuple[str, Progress]]) -> Going:
    return min(found, key=lambda one: one[1].coarseness, default=None)
