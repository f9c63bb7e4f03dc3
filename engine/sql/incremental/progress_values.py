"""How far a column has come: the tables whose watermarks bound it, and the steps from those to its own bound."""

from __future__ import annotations

import msgspec

from engine.sql.expression.steps import Step, coarseness
from engine.sql.incremental.monotone import Unit

Sources = tuple[tuple[str, tuple[Step, ...]], ...]
"""Tables with watermarks, and the steps from each to a bound; the least of them counts."""


class Progress(msgspec.Struct, frozen=True):
    """A column that carries a watermark: the unit of its numbers, and the sources of its bound."""

    unit: Unit
    sources: Sources

    def after(self, unit: Unit, steps: tuple[Step, ...]) -> Progress:
        """Return the progress of what rises with the column by steps."""
        return Progress(unit, tuple((table, (*before, *steps)) for table, before in self.sources))

    def beside(self, other: Progress) -> Progress:
        """Return the progress of a column of rows that come from both."""
        return Progress(self.unit, tuple(dict.fromkeys((*self.sources, *other.sources))))

    @property
    def coarseness(self) -> int:
        """How far behind the time of rows the bound is."""
        return max(coarseness(steps) for _, steps in self.sources)


Found = dict[str, Progress]
"""Columns that carry a watermark, by their names."""
