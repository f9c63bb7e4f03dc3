"""EMIT ON WINDOW CLOSE: a query's rows that no row yet to come can change, as a filter against watermarks.

The filter stands as high as a column carries a watermark: above groups of windows, so that their state is one row a group. Calls
over windows that go along the time are computed over rows that are closed already.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engine.sql.expression.nodes import Column, Comparison, Expr, Literal
from engine.sql.expression.template import as_columns, build_not_null, call, fill_template, join_conditions
from engine.sql.incremental.watermarks.column_progress import ColumnProgress, Found
from engine.sql.incremental.watermarks.monotone_expressions import Unit
from engine.sql.incremental.watermarks.session_close import Sessions, match_sessions
from engine.sql.incremental.watermarks.watermark_columns import OfScan, find_progress, list_bounds
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    TopN,
    UnionAll,
    Unnest,
)
from engine.sql.window_calls import Frame, FrameEnd, SortKey, WindowCall

Refuse = Callable[[str, str], Exception]
CLOSE_AT = "close:at"
_NUMBERS: dict[Unit, str] = {
    "micros": "unix_micros(CAST(:x AS TIMESTAMP_LTZ))",
    "days": "CAST(unix_date(:x) AS BIGINT)",
    "ones": "CAST(:x AS BIGINT)",
}
_BEHIND = ("row_number", "rank", "dense_rank", "lag", "first_value", "nth_value")
_NO_COLUMN = "no column of {what} carries a watermark"
_SHOW = (
    "show the time or the window of the rows: SELECT window_start, … FROM tumble(t, ts, INTERVAL '1' HOUR) …, "
    "where t has WATERMARK FOR ts"
)


def cast_to_number(column: str, unit: Unit) -> Expr:
    """Return a column as the number that it is compared by."""
    return fill_template(_NUMBERS[unit], x=Column(column))


def emit_on_window_close(plan: Node, of_scan: OfScan, refuse: Refuse) -> Node:
    """Return the plan whose rows are those of `plan` that are closed; raises what `refuse` makes of a message and a remedy."""
    return _WindowCloser(of_scan, refuse).keep_closed(plan)


class _WindowCloser:
    def __init__(self, of_scan: OfScan, refuse: Refuse) -> None:
        self.of_scan, self.refuse = of_scan, refuse

    def keep_closed(self, node: Node, fills: bool = False) -> Node:
        """Return the closed rows of a node; with `fills` they are those between which GAP_FILL puts others."""
        found = find_progress(node, self.of_scan)
        below = find_progress(node.input, self.of_scan) if isinstance(node, Unnest) else {}
        if found and not below:
            return self._filter_rows(node, found)
        match node:
            case Project():
                gaps = any(":gap:times" in name for name in node.columns)
                return msgspec.structs.replace(node, input=self.keep_closed(node.input, gaps))
            case Filter():
                return msgspec.structs.replace(node, input=self.keep_closed(node.input))
            case Unnest():
                return msgspec.structs.replace(node, input=self.keep_closed(node.input), closes=True)
            case Over():
                sessions = match_sessions(node)
                return self._close_over(node, fills) if sessions is None else self._close_sessions(sessions)
        raise self._build_error(node)

    def _filter_rows(self, node: Node, found: Found) -> Node:
        """Return the rows of a node below the bound of the column that follows the time most closely."""
        column = min(found, key=lambda name: found[name].coarseness)
        return filter_by_watermark(node, column, found[column])

    def _close_over(self, node: Over, fills: bool) -> Node:
        """Return calls that go along a column with a watermark over the closed rows, those alone whose frames are whole."""
        below = find_progress(node.input, self.of_scan)
        carried = {key.column for one in node.calls for key in one.order[:1] if key.column in below}
        if not carried:
            hint = "PARTITION BY the window, or ORDER BY the column of the watermark, ascending"
            raise self.refuse("no order or partition of the window function carries a watermark", hint)
        column = min(carried)
        for one in node.calls:
            if not _goes_along(one, column):
                what = (
                    f"{_get_name(one)} does not go along the column of the watermark: rows to come change it"
                )
                hint = "begin the ORDER BY of each of its windows with that column, ascending; or PARTITION BY the window"
                raise self.refuse(what, hint)
        return self._close_along(node, filter_by_watermark(node.input, column, below[column]), fills)

    def _close_sessions(self, sessions: Sessions) -> Node:
        """Return calls over sessions that are closed, and what goes along the time over their rows."""
        below = find_progress(sessions.source, self.of_scan)
        column = min(sessions.times)
        if len(sessions.times) != 1 or column not in below:
            hint = "ORDER BY the column of the watermark in every window"
            raise self.refuse("the order of the sessions carries no watermark", hint)
        carried = below[column]
        plan, ends = sessions.add_ends()
        columns = {name: Column(name) for name in sessions.plan.columns}
        numbers = [_compute_session_end(name, carried.unit) for name in ends]
        at = f"{CLOSE_AT}:sessions"
        last = numbers[0] if len(numbers) == 1 else call("greatest", *numbers)
        known = Filter(
            plan, join_conditions([build_not_null(Column(name)) for name in ends]) or Literal("true")
        )
        fed = Project(known, (*columns.items(), (at, last)))
        closed: Node = DynamicFilter(fed, at, list_bounds(carried), "<=", closes=True)
        if not sessions.above:
            return closed
        self._check_above(sessions, column)
        return self._close_along(sessions.above[0], closed)

    def _check_above(self, sessions: Sessions, column: str) -> None:
        """Refuse other frames whose rows, where their sessions are closed, are not the first of their partition."""
        node = sessions.above[0]
        by = {name for over in sessions.starts for name in over.partition}
        along = all(_goes_along(one, column) for one in node.calls)
        if len(sessions.above) > 1 or not by <= set(node.partition) or not along:
            hint = "give it the PARTITION BY and the ORDER BY of the sessions, or make a view of its own"
            raise self.refuse("a frame beside sessions goes through other rows than they do", hint)

    def _close_along(self, node: Over, source: Node, fills: bool = False) -> Node:
        """Return calls over closed rows, of which those behind are to come: those alone whose frames are whole."""
        # what stands between two rows is known with the second: rows are added then, and none changes
        if fills:
            return msgspec.structs.replace(node, input=source)
        ahead: dict[tuple[SortKey, ...], int] = {}
        for one in node.calls:
            ahead[one.order] = max(ahead.get(one.order, 0), self._count_rows_ahead(one))
        # which of the rows of one time stands behind another is a matter of each order by itself
        needed = [(order, rows) for order, rows in ahead.items() if rows]
        whole = [
            _count_rows_to_come(f"close:rows:{n}", order, rows) for n, (order, rows) in enumerate(needed)
        ]
        over = msgspec.structs.replace(node, input=source, calls=(*node.calls, *whole), closes=True)
        complete = [
            Comparison("=", Column(one.name), Literal(str(rows + 1), "bigint"))
            for one, (_, rows) in zip(whole, needed, strict=True)
        ]
        condition = join_conditions(complete)
        if condition is None:
            return over
        return Project(Filter(over, condition), as_columns(node.columns))

    def _count_rows_ahead(self, call: WindowCall) -> int:
        """Return how many rows behind a row a call reads; raises for those that read to the end."""
        name = getattr(call.call, "function", "")
        arguments: tuple[Expr, ...] = getattr(call.call, "arguments", ())
        if call.frame is None:
            if name in _BEHIND:
                return 0
            if name == "lead":
                offset = arguments[1] if len(arguments) > 1 else Literal("1")
                if isinstance(offset, Literal) and offset.text.isdigit():
                    return int(offset.text)
            raise self._build_reads_on_error(name)
        end = call.frame.end
        if end.side in ("preceding", "current row"):
            return 0
        ahead = end.offset
        if call.frame.unit == "rows" and isinstance(ahead, Literal) and ahead.text.isdigit():
            return int(ahead.text)
        raise self._build_reads_on_error(name)

    def _build_reads_on_error(self, name: str) -> Exception:
        hint = "end its frame at CURRENT ROW, or at a number of ROWS FOLLOWING, or PARTITION BY the window"
        return self.refuse(f"{name} reads rows behind a row without an end: it never closes", hint)

    def _build_error(self, node: Node) -> Exception:
        match node:
            case Aggregate():
                what, hint = "GROUP BY", "group by the window: GROUP BY window_start"
            case TopN():
                what = "PARTITION BY, and no first column of ORDER BY, ascending with NULLS LAST,"
                hint = "take the first rows of each window: PARTITION BY window_start; or those along the time: ORDER BY ts"
            case Join():
                what = "the join's equalities, and no greater side of a comparison of times,"
                hint = "join by the times or windows of both sides, each of a table with a watermark; or a.ts >= b.ts"
            case UnionAll():
                what, hint = (
                    "every branch of UNION ALL",
                    "show the time in one place of all branches, all with watermarks",
                )
            case _:
                what, hint = "the query", _SHOW
        return self.refuse(_NO_COLUMN.format(what=what), hint)


def _compute_session_end(column: str, unit: Unit) -> Expr:
    """Return the least number with which another session may begin."""
    if unit == "ones":
        return fill_template("CAST(least(:x, 9223372036854775807) AS BIGINT)", x=Column(column))
    return cast_to_number(column, unit)


def filter_by_watermark(node: Node, column: str, carried: ColumnProgress) -> DynamicFilter:
    """Return the rows of a node whose `column` is below the bound of its watermark."""
    at = f"{CLOSE_AT}:{column}"
    items = as_columns(node.columns)
    known = Filter(node, build_not_null(Column(column)))
    fed = Project(known, (*items, (at, cast_to_number(column, carried.unit))))
    return DynamicFilter(fed, at, list_bounds(carried), "<", closes=True)


def _goes_along(call: WindowCall, column: str) -> bool:
    """Tell whether the rows of later times stand behind all others in the order of a call."""
    return bool(call.order) and call.order[0].column == column and not call.order[0].descending


def _get_name(call: WindowCall) -> str:
    return getattr(call.call, "function", "") or "an expression over a window"


def _count_rows_to_come(name: str, order: tuple[SortKey, ...], ahead: int) -> WindowCall:
    """Return the call that counts the rows from each row on in an order, up to `ahead` behind it."""
    frame = Frame("rows", FrameEnd("current row"), FrameEnd("following", Literal(str(ahead))))
    return WindowCall(name, call("count", Literal("1")), order, frame)
