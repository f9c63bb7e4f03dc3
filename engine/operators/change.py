"""What an operator hands on: the signed change of a node or of a table, and what its writer has to know of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.operators.context import EpochContext
from engine.operators.flow import Rows
from engine.operators.spread import union_packed


@dataclass(frozen=True)
class Change:
    """The change of a node or a table in one epoch: rows with their weight `_w`, or a settled change (see `materialize`).

    They are a sum of so many `terms`: rows of two terms may cancel each other, and have to meet in one task. Rows that are
    `placed` are in the tasks that write them already.
    """

    rows: Rows
    terms: int = 0
    placed: bool = False

    def with_rows(self, rows: Rows) -> Change:
        """Return what an operator makes of each row for itself."""
        return replace(self, rows=rows)


def sum_terms(
    parts: Sequence[Rows], added: int, inputs: Sequence[Change | None], context: EpochContext
) -> Change | None:
    """Return the sum of an operator's parts, None if there are none: the terms of its inputs and as many `added` ones."""
    rows: Rows | None = None if context.is_small else union_packed(parts)
    if rows is None:
        rows = context.union(list(parts))
    if rows is None:
        return None
    return Change(rows, added + sum(one.terms for one in inputs if one is not None))
