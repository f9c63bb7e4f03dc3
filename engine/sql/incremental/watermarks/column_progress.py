"""How far a column has come: the tables whose watermarks bound it, and the steps from those to its own bound."""

from __future__ import annotations

import msgspec

from engine.sql.expression.monotone_steps import MonotoneStep, measure_coarseness
from engine.sql.incremental.watermarks.monotone_expressions import Unit

Sources = tuple[tuple[str, tuple[MonotoneStep, ...]], ...]
"""Tables with watermarks, and the steps from each to a bound; the least of them counts."""


class ColumnProgress(msgspec.Struct, frozen=True):
    """A column that carries a watermark: the unit of its numbers, and the sources of its bound."""

    unit: Unit
    sources: Sources

    def shift(self, unit: Unit, steps: tuple[MonotoneStep, ...]) -> ColumnProgress:
        """Return the progress of what rises with the column by steps."""
        return ColumnProgress(unit, tuple((table, (*before, *steps)) for table, before in self.sources))

    def combine(self, other: ColumnProgress) -> ColumnProgress:
        """Return the progress of a column of rows that come from both."""
        return ColumnProgress(self.unit, tuple(dict.fromkeys((*self.sources, *other.sources))))

    @property
    def coarseness(self) -> int:
        """How far behind the time of rows the bound is."""
        return max(measure_coarseness(steps) for _, steps in self.sources)


Found = dict[str, ColumnProgress]
"""Columns that carry a watermark, by their names."""
