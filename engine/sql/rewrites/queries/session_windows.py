"""The windows of SESSION: rows of a partition whose times are no more than the gap apart, as calls over windows.

A row begins a session if the one before it is farther away than the gap, and ends one if the one behind it is. Its window starts
at the last beginning up to it, and ends one gap after the first end from it on.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.templates import fill_tree

_MARKED = "_told"
_BEGINS, _ENDS = "session:begins", "session:ends"
_MOMENT = "_p0 + INTERVAL '0 00:00:00.000000' DAY TO SECOND"
"""The time as a timestamp, if it is a date."""


def build_session_windows(
    source: exp.Expr, keys: list[exp.Column], time: exp.Column, gap: exp.Interval
) -> exp.Select:
    """Return the query of a relation's rows that have a time, with the windows of their sessions.

    `source` is the relation as an item of FROM, of which `keys` and `time` are columns.
    """
    every = exp.Column(this=exp.Star(), table=time.args["table"].copy())
    named = [
        exp.alias_(mark, name, quoted=True)
        for mark, name in zip(build_session_marks(keys, time, gap), (_BEGINS, _ENDS), strict=True)
    ]
    marked = exp.Select(expressions=[every, *named]).from_(source, copy=False)
    marked.where(exp.Not(this=exp.Is(this=time.copy(), expression=exp.Null())), copy=False)
    columns = [
        exp.Column(this=column.this.copy(), table=exp.to_identifier(_MARKED)) for column in (*keys, time)
    ]
    begins, ends = (
        exp.column(exp.to_identifier(name, quoted=True), table=_MARKED) for name in (_BEGINS, _ENDS)
    )
    start, end = build_session_bounds(columns[:-1], columns[-1], begins, ends)
    end = exp.Add(this=exp.Paren(this=end), expression=gap.copy())
    left_out = [exp.column(exp.to_identifier(name, quoted=True)) for name in (_BEGINS, _ENDS)]
    others = exp.Column(this=exp.Star(except_=left_out), table=exp.to_identifier(_MARKED))
    items = [others, exp.alias_(start, "window_start"), exp.alias_(end, "window_end")]
    inner = exp.Subquery(this=marked, alias=exp.TableAlias(this=exp.to_identifier(_MARKED)))
    return exp.Select(expressions=items).from_(inner, copy=False)


def build_session_marks(
    keys: Sequence[exp.Expr], time: exp.Expr, gap: exp.Interval
) -> tuple[exp.Expr, exp.Expr]:
    """Return the time of a row that begins a session and of one that ends one, each null for other rows."""
    before, after = (_build_window(call(this=time.copy()), keys, time) for call in (exp.Lag, exp.Lead))
    begins = fill_tree(f"if(_p0 <= _p1 + _p2, NULL, {_MOMENT})", time, before, gap)
    return begins, fill_tree(f"if(_p1 <= _p0 + _p2, NULL, {_MOMENT})", time, after, gap)


def build_session_bounds(
    keys: Sequence[exp.Expr], time: exp.Expr, begins: exp.Expr, ends: exp.Expr
) -> tuple[exp.Expr, exp.Expr]:
    """Return when the session of a row begins, and the time of its last row, by the columns of `marks`."""
    upto = exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    since = exp.WindowSpec(kind="RANGE", start="CURRENT ROW", end="UNBOUNDED", end_side="FOLLOWING")
    return _build_window(exp.Max(this=begins), keys, time, upto), _build_window(
        exp.Min(this=ends), keys, time, since
    )


def _build_window(
    call: exp.Expr, keys: Sequence[exp.Expr], time: exp.Expr, spec: exp.WindowSpec | None = None
) -> exp.Window:
    """Return a call over the rows of a partition in the order of their times; equal times are peers in a frame."""
    order = exp.Order(expressions=[exp.Ordered(this=time.copy(), nulls_first=True)])
    by = [key.copy() for key in keys]
    return exp.Window(this=call, partition_by=by, order=order, spec=spec, over="OVER")
