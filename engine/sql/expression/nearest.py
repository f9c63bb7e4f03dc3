"""Which of the rows that match an as-of join takes: the one nearest to the left row in an order."""

from __future__ import annotations

from typing import Literal

import msgspec

Side = Literal[">=", ">", "<=", "<"]


class Nearest(msgspec.Struct, frozen=True):
    """Of the right rows for which `left` `operator` `right` holds, that with the nearest `right`; of several the lowest key.

    Both are columns, of one type; a null of either matches nothing.
    """

    left: str
    operator: Side
    right: str

    @property
    def before(self) -> bool:
        """Whether right rows that match stand before the left row, or with it: the last of them is the nearest."""
        return self.operator in (">=", ">")

    @property
    def level(self) -> bool:
        """Whether a right row that is level with the left one matches."""
        return self.operator in (">=", "<=")
