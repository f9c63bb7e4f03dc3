"""Which rows the sides of a join never need again: those that nothing can meet which is still to come on the other side.

Of `l.ts >= r.ts - d` rows of `l` below the watermark of `r` less d are done with. Rows may come there yet, as each side has its
own watermark: they meet what is there, and are let go at once. A left join takes null-extended rows back as long as their left
rows are looked up, so as long it needs all that these have met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.sql.expression.nodes import Expr
from engine.sql.incremental.watermarks.column_progress import ColumnProgress, Found
from engine.sql.incremental.watermarks.ordered_joins import PairLimit, derive_limits
from engine.sql.plan import Join

Going = tuple[str, ColumnProgress] | None
"""A column of a side, and the bound below which its rows are let go."""


def find_releasable(node: Join, conditions: Sequence[Expr], left: Found, right: Found) -> tuple[Going, Going]:
    """Return which rows of each side of an inner or a left join are let go; `conditions` stand on its pairs, beside its own."""
    own = (*conditions, *([] if node.residual is None else [node.residual]))
    found = [*derive_limits(node, own, left, right), *_list_equal_limits(node, left, right)]
    of_left = _choose_nearest(
        (limit.column, limit.below(right[limit.other])) for limit in found if limit.column in left
    )
    back = [limit for limit in found if limit.column in right]
    if node.kind == "inner":
        return of_left, _choose_nearest((limit.column, limit.below(left[limit.other])) for limit in back)
    if of_left is None:
        return None, None
    column, bound = of_left
    combined = (
        (one.column, one.below(left[column]).combine(one.below(bound))) for one in back if one.other == column
    )
    return of_left, _choose_nearest(combined)


def _list_equal_limits(node: Join, left: Found, right: Found) -> Iterator[PairLimit]:
    for one, other in node.on:
        if one in left and other in right and left[one].unit == right[other].unit:
            yield PairLimit(one, other, left[one].unit, ())
            yield PairLimit(other, one, left[one].unit, ())


def _choose_nearest(found: Iterator[tuple[str, ColumnProgress]]) -> Going:
    return min(found, key=lambda one: one[1].coarseness, default=None)
