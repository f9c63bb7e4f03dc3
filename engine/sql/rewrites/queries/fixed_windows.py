"""The bounds of windows of a fixed length, as Spark SQL over a time: arithmetic on microseconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.typing.intervals import (
    build_day_time_literal,
    evaluate_interval,
    has_months,
    parse_calendar_interval,
)

Wrong = Callable[[str, exp.Expr, str], Exception]

MOST_WINDOWS = 10_000
"""So many windows a row is in at most."""
_MICROSECOND = "INTERVAL '0 00:00:00.000001' DAY TO SECOND"


def read_length(node: exp.Expr, what: str, wrong: Wrong, *, positive: bool = True) -> int:
    """Return a length that is written as an interval, or as a text that means one, in microseconds; raises what `wrong` makes."""
    literal = node.name if isinstance(node, exp.Literal) and node.is_string else None
    span = evaluate_interval(node)
    inner = node.this if isinstance(node, exp.Cast | exp.Interval) else None
    plain = inner.name if isinstance(inner, exp.Literal) and node.args.get("unit") is None else literal
    found = parse_calendar_interval(plain) if span is None and plain is not None else None
    if has_months(node) or (found is not None and found[0]):
        hint = "group by date_trunc('month', …) instead, or write the length in days"
        raise wrong(f"{what} has months, which have no fixed length", node, hint)
    span = found[1] if span is None and found is not None else span
    if span is None:
        raise wrong(f"{what} is no interval: {node.sql()}", node, "write INTERVAL '10 minutes'")
    if positive and span <= timedelta():
        raise wrong(f"{what} is not positive", node, "write INTERVAL '10 minutes'")
    return span // timedelta(microseconds=1)


def build_interval(micros: int) -> exp.Interval:
    """Return a length in microseconds as an interval."""
    return build_day_time_literal(timedelta(microseconds=micros))


def compute_last_start(time: exp.Expr, slide: int, offset: int = 0) -> exp.Expr:
    """Return the last start of a window at or before a time; starts are `slide` microseconds apart, one of them at `offset`.

    It is rounded towards minus infinity. The start of a date's window is a timestamp.
    """
    return fill_tree(f"_p0 - {_MICROSECOND} * {_render_elapsed(slide, offset)}", time)


def compute_starts(time: exp.Expr, slide: int, size: int, offset: int = 0) -> exp.Expr:
    """Return the array of the starts of all windows that a time is in, the first first; null for no time."""
    less = _render_elapsed(slide, offset + size)  # since the last start that is `size` or more before
    less = f"({less} + {size - slide})" if size > slide else less
    first = fill_tree(f"_p0 - {_MICROSECOND} * {less}", time)
    return exp.Anonymous(
        this="SEQUENCE", expressions=[first, compute_last_start(time, slide, offset), build_interval(slide)]
    )


def compute_ends(time: exp.Expr, step: int, size: int, offset: int = 0) -> exp.Expr:
    """Return the array of the ends behind a time of the windows that grow by `step` up to `size`, the first first."""
    first = exp.Add(this=compute_last_start(time, step, offset), expression=build_interval(step))
    last = exp.Add(this=compute_last_start(time, size, offset), expression=build_interval(size))
    return exp.Anonymous(this="SEQUENCE", expressions=[first, last, build_interval(step)])


def _render_elapsed(slide: int, offset: int) -> str:
    """Return the microseconds that have passed since a start."""
    offset %= slide
    return f"pmod(unix_micros(CAST(_p0 AS TIMESTAMP_LTZ)){f' - {offset}' if offset else ''}, {slide})"
