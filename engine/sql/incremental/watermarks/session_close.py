"""EMIT ON WINDOW CLOSE of sessions: rows of a session are final once the watermark has come the gap behind its last row.

A row that comes then begins another session. The columns are those that `sql/bind/over_windows/session_frames.py` makes;
sessions of several windows have to be final together, since a row is shown once.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from engine.sql.expression.nodes import Call, Column
from engine.sql.plan import Node, Over, Project
from engine.sql.window_calls import SESSION_NEXT as NEXT
from engine.sql.window_calls import SESSION_START as START
from engine.sql.window_calls import Frame, FrameEnd, WindowCall

_WHOLE = Frame("rows", FrameEnd("preceding"), FrameEnd("following"))


class Sessions(msgspec.Struct, frozen=True):
    """Calls over sessions: their `plan`, the rows below it, and the calls `above` them over other frames, the highest first."""

    plan: Node
    source: Node
    starts: tuple[Over, ...]
    above: tuple[Over, ...]

    @property
    def times(self) -> set[str]:
        """The columns in whose order the sessions are."""
        return {over.calls[0].order[0].column for over in self.starts}

    def add_ends(self) -> tuple[Node, tuple[str, ...]]:
        """Return the plan with a column for each kind of session: the least time with which another may begin."""
        plan, ends = self.plan, list[str]()
        for over in self.starts:
            mark = over.calls[0].name.removeprefix(START)
            name = f"close:session{mark}"
            call = WindowCall(name, Call("max", (Column(NEXT + mark),)), (), _WHOLE)
            plan, by = _keep_column(plan, NEXT + mark), (*over.partition, START + mark)
            if isinstance(plan, Over) and set(plan.partition) == set(by):
                plan = msgspec.structs.replace(plan, calls=(*plan.calls, call))
            else:
                plan = Over(plan, by, (call,))
            ends.append(name)
        return plan, tuple(ends)


def match_sessions(node: Over) -> Sessions | None:
    """Return the sessions that calls over windows, or calls right below them, are over; None if there are none."""
    above: list[Over] = []
    plan: Node = node
    while isinstance(plan, Over) and not any(column.startswith(START) for column in plan.partition):
        if plan.calls[0].name.startswith(START):
            return None
        above.append(plan)
        plan = plan.input
    if not isinstance(plan, Over):
        return None
    starts = tuple(_find_starts(plan))
    lag = starts[-1].input.input  # type: ignore[union-attr]  # the columns of sessions are made by these nodes
    return Sessions(plan, lag.input.input, starts, tuple(above))  # type: ignore[union-attr]


def _find_starts(node: Node) -> Iterator[Over]:
    """Yield the nodes that compute where sessions start, the highest first."""
    while isinstance(node, Over | Project):
        if isinstance(node, Over):
            if node.calls[0].name.startswith(START):
                yield node
            elif not any(c.startswith("session:") for c in (*node.partition, node.calls[0].name)):
                return
        elif not any(name.startswith("session:") for name in node.columns):
            return
        node = node.input


def _keep_column(node: Node, column: str) -> Node:
    """Return the plan in which a column is handed up that a projection has left out."""
    if column in node.columns:
        return node
    assert isinstance(node, Over | Project), column
    below = msgspec.structs.replace(node, input=_keep_column(node.input, column))
    if isinstance(below, Project):
        below = Project(below.input, (*below.items, (column, Column(column))))
    return below
