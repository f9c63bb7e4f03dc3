"""EXCLUDE in a window's frame: the frame as parts that leave nothing out, in the order in which their rows stand.

A part may count for some rows only (`when`): a row without a value has its peers for a frame of RANGE, however far that looks. Of
ROWS the parts are single rows where peers are cut in two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlglot.expressions as exp

from engine.sql.bind.over_windows.frames import EMPTY, locate_end
from engine.sql.expression.nodes import Call, Column, Comparison, Expr, IsNull, Not, walk
from engine.sql.expression.nodes import Literal as Constant
from engine.sql.expression.template import build_struct, cast, fill_template
from engine.sql.typing.types import decimal_digits
from engine.sql.window_calls import Frame, FrameEnd, SortKey

Exclusion = Literal["current row", "group", "ties"]
MOST_ROWS = 16
"""Frames of ROWS that look farther are not taken apart into rows."""
FAR = math.inf
_AT = FrameEnd("current row")
_BEFORE = FrameEnd("preceding")
_BEHIND = FrameEnd("following")


@dataclass(frozen=True)
class FramePart:
    """Some rows of a frame; those of a partition in which all rows are peers if it is `among_peers`."""

    frame: Frame
    when: Expr | None = None
    among_peers: bool = False


Refuse = Callable[[str, str], Exception]
"""(what is not offered, what to write instead) -> the error, with its place."""
Read = Callable[[Call, FramePart], Column]
"""A call over one part -> the column that holds its result."""


def parse_exclusion(spec: exp.WindowSpec | None) -> Exclusion | None:
    """Return what a frame leaves out; None if it is nothing."""
    word = spec.args.get("exclude") if spec is not None else None
    match word.name.upper() if word is not None else "NO OTHERS":
        case "CURRENT ROW":
            return "current row"
        case "GROUP":
            return "group"
        case "TIES":
            return "ties"
    return None


@dataclass(frozen=True)
class ExcludingFrame:
    """A frame and what it leaves out of its rows; `order` is that of the rows, of the type `kind` where it is one column.

    `alone` tells that no two rows of a partition are equal in the order.
    """

    frame: Frame
    exclude: Exclusion
    order: tuple[SortKey, ...]
    kind: str | None
    is_unique: bool
    refuse: Refuse

    def split_parts(self, read: Read) -> list[FramePart]:
        """Return the parts of the frame; `read` gives what their conditions ask of other rows."""
        if self.frame == EMPTY:
            return [FramePart(EMPTY)]
        if not self.order:
            found = self._split_equals()
        elif self.frame.unit == "rows" or (self.frame.is_whole and self.exclude == "current row"):
            found = self._split_rows(read)
        elif self.frame.unit == "range" and (self.frame.start.offset or self.frame.end.offset):
            found = self._split_values()
        else:
            found = self._split_groups()
        return found or [FramePart(EMPTY)]

    @property
    def _end_offsets(self) -> tuple[float, float]:
        start, end = locate_end(self.frame.start), locate_end(self.frame.end)
        assert start is not None and end is not None
        return start, end

    def _split_equals(self) -> list[FramePart]:
        """Without an order all rows of the partition are peers."""
        start, end = self._end_offsets
        if self.exclude == "current row":
            return _exclude_own_row(start, end)
        return self._build_own_row() if self.exclude == "ties" and start <= 0 <= end else []

    def _build_own_row(self, when: Expr | None = None) -> list[FramePart]:
        return [FramePart(Frame("rows", _AT, _AT), when)]

    def _build_peers(
        self, when: Expr | None = None, *, before: bool = True, behind: bool = True
    ) -> list[FramePart]:
        """Return what stays of the row's own peers, all of whom the frame has."""
        if self.exclude != "current row":
            return self._build_own_row(when) if self.exclude == "ties" else []
        if self.is_unique:
            return []
        sides = [Frame("rows", _BEFORE, _build_end(-1))] * before + [
            Frame("rows", _build_end(1), _BEHIND)
        ] * behind
        return [FramePart(frame, when, among_peers=True) for frame in sides]

    # ---- GROUPS, and RANGE without an offset -----------------------------------------------------------------
    def _split_groups(self) -> list[FramePart]:
        start, end = self._end_offsets
        if not start <= 0 <= end:
            return [FramePart(self.frame)]
        before, open_before = self._build_side(-1, start)
        behind, open_behind = self._build_side(1, end)
        return [*before, *self._build_peers(before=not open_before, behind=not open_behind), *behind]

    def _build_side(
        self, side: int, far: float, near: FramePart | None = None
    ) -> tuple[list[FramePart], bool]:
        """Return the part of the frame on one side of the peers, and whether it has the peers of that side, too."""
        if abs(far) == FAR and self.exclude == "current row":  # all rows on that side of the row itself
            return [FramePart(_build_frame("rows", *_sort_ends(side, far)))], True
        if far == 0:
            return [], False
        return [near or FramePart(_build_frame("groups", *_sort_ends(side, far)))], False

    # ---- RANGE with an offset --------------------------------------------------------------------------------
    def _split_values(self) -> list[FramePart]:
        """Rows with a value have those from a value to another, others have their peers, and all beyond on an open side."""
        missing: Expr = IsNull(Column(self.order[0].column))
        there: Expr = Not(missing)
        start, end = _find_side(self.frame.start), _find_side(self.frame.end)
        nearest = self._find_least_step()
        if start <= 0 <= end:
            close = (FrameEnd("preceding", nearest), FrameEnd("following", nearest))
            left = FramePart(Frame("range", self.frame.start, close[0]), there)
            right = FramePart(Frame("range", close[1], self.frame.end), there)
            before, open_before = self._build_side(-1, start, None if start == -FAR else left)
            behind, open_behind = self._build_side(1, end, None if end == FAR else right)
            return [*before, *self._build_peers(before=not open_before, behind=not open_behind), *behind]
        beyond = [
            FramePart(_build_frame("groups", *_sort_ends(side, far)), missing)
            for side, far in ((-1, start), (1, end))
            if abs(far) == FAR
        ]
        own = self._build_peers(missing)
        whole = FramePart(self.frame, there)
        return [*own, *beyond, whole] if start > 0 else [whole, *beyond, *own]

    def _find_least_step(self) -> Expr:
        """Return the least distance of two values of the order, as an offset of its type."""
        offsets = [end.offset for end in (self.frame.start, self.frame.end) if end.offset is not None]
        order_type = offsets[0].type or ""
        if (digits := decimal_digits(order_type)) is not None:
            return cast(Constant(f"1E-{digits[1]}", "string"), order_type)
        if order_type == "interval day to second":
            return cast(fill_template("INTERVAL '0.000001' SECOND"), order_type)
        if self.kind == "date" and not order_type:
            return Constant("1")
        what = (
            "an offset in months"
            if order_type.startswith("interval")
            else f"RANGE with an offset over {self.kind}"
        )
        hint = (
            "write the offset in days" if order_type.startswith("interval") else "CAST the order to DECIMAL"
        )
        raise self.refuse(f"EXCLUDE beside {what}", hint)

    # ---- ROWS ------------------------------------------------------------------------------------------------
    def _split_rows(self, read: Read) -> list[FramePart]:
        start, end = self._end_offsets
        if self.exclude == "current row" or (self.is_unique and self.exclude == "group"):
            return _exclude_own_row(start, end)
        if self.is_unique:
            return [FramePart(self.frame)]
        before = self._exclude_peers(-1, min(end, -1), start, read)
        behind = self._exclude_peers(1, max(start, 1), end, read)
        own = self._build_own_row() if self.exclude == "ties" and start <= 0 <= end else []
        return [*reversed(before), *own, *behind]

    def _exclude_peers(self, side: int, near: float, far: float, read: Read) -> list[FramePart]:
        """Return the rows of one side from `near` to `far` that are no peers of the row, the nearest first."""
        if far * side < near * side:
            return []
        if abs(far) < FAR:
            rows = range(int(near), int(far) + side, side)
            if len(rows) > MOST_ROWS:
                what = f"EXCLUDE {self.exclude.upper()} beside ROWS that cut peers in two, over more than {MOST_ROWS} rows,"
                raise self.refuse(what, "write GROUPS or RANGE, or let ORDER BY distinguish all rows")
            return [
                FramePart(_build_frame("rows", at, at), Not(self._build_peer_test(at, read))) for at in rows
            ]
        others = _build_frame("groups", *_sort_ends(side, far))
        if near == side:
            return [FramePart(others)]
        peer = self._build_peer_test(int(near), read)  # then all between are peers, too
        return [FramePart(others, peer), FramePart(_build_frame("rows", *sorted((near, far))), Not(peer))]

    def _build_peer_test(self, at: int, read: Read) -> Expr:
        """Return whether the row that stands so many rows behind is there, and equal in the order."""
        mine = build_struct([(f"f{n}", Column(key.column)) for n, key in enumerate(self.order)])
        theirs = read(Call("first_value", (mine,)), FramePart(_build_frame("rows", at, at)))
        return Comparison("<=>", theirs, mine)


def _exclude_own_row(start: float, end: float) -> list[FramePart]:
    """Return the rows from `start` to `end` without the one at 0."""
    if not start <= 0 <= end:
        return [FramePart(_build_frame("rows", start, end))]
    sides = ((start, -1.0), (1.0, end))
    return [FramePart(_build_frame("rows", low, high)) for low, high in sides if low <= high]


def _build_frame(unit: Literal["rows", "groups"], start: float, end: float) -> Frame:
    return Frame(unit, _build_end(start), _build_end(end))


def _sort_ends(side: int, far: float) -> Sequence[float]:
    return sorted((side, far))


def _build_end(at: float) -> FrameEnd:
    if at == 0:
        return _AT
    offset = None if abs(at) == FAR else Constant(str(abs(int(at))))
    return FrameEnd("preceding" if at < 0 else "following", offset)


def _find_side(end: FrameEnd) -> float:
    """Return on which side an end lies: infinite where it is open, and 0 for one at the row's own value."""
    if end.side == "current row":
        return 0
    sign = -1 if end.side == "preceding" else 1
    if end.offset is None:
        return sign * FAR
    texts = (part.text for part in walk(end.offset) if isinstance(part, Constant))
    return sign if any(digit in "123456789" for text in texts for digit in text) else 0
