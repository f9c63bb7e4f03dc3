"""What calls over windows and orders are made of: columns of an order, frames and their ends, and the calls."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.sql.expression.nodes import Expr

SESSION_NEXT, SESSION_START = "session:next", "session:start"
"""What columns of sessions begin with: the least value with which one behind a row may begin, and the value with which its own
began."""


class SortKey(msgspec.Struct, frozen=True):
    """One column of an order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


class FrameEnd(msgspec.Struct, frozen=True):
    """An end of a frame: on which side of the current row it lies, and how far; without an `offset` on a side it is unbounded."""

    side: Literal["preceding", "current row", "following"]
    offset: Expr | None = None


class Frame(msgspec.Struct, frozen=True):
    """The rows around each row that a call over a window reads, counted in rows, in groups of peers, or by the order's value."""

    unit: Literal["rows", "range", "groups"]
    start: FrameEnd
    end: FrameEnd

    @property
    def is_whole(self) -> bool:
        """Whether it is all rows of the partition."""
        return self.start == FrameEnd("preceding") and self.end == FrameEnd("following")


class WindowCall(msgspec.Struct, frozen=True):
    """One call over a window: the column `name`, and what is computed of the rows of `frame`, in an order.

    `call` is a call of a window function, or an expression over aggregates. Functions that number rows have no frame.
    """

    name: str
    call: Expr
    order: tuple[SortKey, ...] = ()
    frame: Frame | None = None
