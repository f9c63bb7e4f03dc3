"""generate_series up to now() in FROM of a view: the series up to a fixed day far ahead, of which a filter on now() shows a part.

`generate_series(a, now(), s)` -> the rows of generate_series(a, '2100-01-01', s) that are <= now(). A filter on now() keeps all
rows that are still to come, so a series of more than MOST_ROWS up to that day is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import sqlglot.expressions as exp

from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.rewrites.queries.fixed_windows import read_length
from engine.sql.typing.intervals import has_months, parse_calendar_interval

LAST_DAY = "2100-01-01"
MOST_ROWS = 1_000_000
_AT, _DAY = "_at", 86_400_000_000
_CALLS = (exp.ExplodingGenerateSeries, exp.GenerateSeries)
_CLOCK = (exp.CurrentTimestamp, exp.CurrentDate, exp.Localtimestamp)
_CLOCK_NAMES = ("now", "transaction_timestamp", "statement_timestamp")
Wrong = Callable[[str, exp.Expr, str], Exception]


def expand_series_to_now(item: exp.Expr, call: exp.Expr, wrong: Wrong) -> exp.Subquery | None:
    """Return an item of FROM that is a series up to now() as a subquery, None if it is no such.

    Raises what `wrong` makes of a message, a place and a remedy: for a start that is no constant of a time, a step that is not
    positive, a series that is too long, and one whose rows are numbered.
    """
    if not isinstance(call, _CALLS) or not _reads_clock(call.args.get("end")):
        return None
    start, end, step = call.args.get("start"), call.args["end"], call.args.get("step")
    if not isinstance(step, exp.Interval | exp.Cast):
        hint = "write generate_series(TIMESTAMPTZ '2024-01-01', now(), INTERVAL '1' DAY)"
        raise wrong("a series up to now() has a step that is an interval", call, hint)
    kind, first = _parse_start(start, call, wrong)
    span = datetime.fromisoformat(LAST_DAY).replace(tzinfo=UTC) - first
    rows = int(span.total_seconds() * 1_000_000) // _measure_least_step(step, kind, wrong)
    if rows > MOST_ROWS:
        message = (
            f"the series has {rows:,} rows up to {LAST_DAY}, more than {MOST_ROWS:,}, which a view would hold"
        )
        raise wrong(message, call, "take a longer step, or begin later")
    if any(part.args.get("ordinality") or part.args.get("offset") for part in (item, call)):
        raise wrong("WITH ORDINALITY of a series up to now()", item, "number its rows by row_number()")
    return _build_filtered_series(item, call, kind, end)


def _build_filtered_series(item: exp.Expr, call: exp.Expr, kind: exp.DataType, end: exp.Expr) -> exp.Subquery:
    whole = call.copy()
    whole.set("start", exp.Cast(this=_strip_cast(call.args["start"]).copy(), to=kind.copy()))
    whole.set("end", exp.Cast(this=exp.Literal.string(LAST_DAY), to=kind.copy()))
    names = exp.TableAlias(this=exp.to_identifier(_AT), columns=[exp.to_identifier(_AT)])
    given_alias = item.args.get("alias")
    name = (
        normalize_identifier(given_alias.this)
        if given_alias is not None and given_alias.this is not None
        else "generate_series"
    )
    at = exp.column(_AT)
    query = exp.Select(expressions=[exp.alias_(at, name, quoted=True)])
    query = query.from_(exp.Table(this=whole, alias=names), copy=False)
    query = query.where(copy_location(exp.LTE(this=at.copy(), expression=end.copy()), end), copy=False)
    alias = (
        given_alias.copy()
        if given_alias is not None
        else exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    )
    return copy_location(exp.Subquery(this=query, alias=alias), call)


def _measure_least_step(step: exp.Interval | exp.Cast, kind: exp.DataType, wrong: Wrong) -> int:
    """Return how many microseconds a step has at the least; raises for one that is not positive, or that dates cannot take."""
    what = "the step of generate_series"
    if not has_months(step):
        length = read_length(step, what, wrong)
        if kind.this == exp.DataType.Type.DATE and length % _DAY:
            hint = (
                "begin with a time, generate_series(TIMESTAMPTZ '2024-01-01', …), or write INTERVAL '1' DAY"
            )
            raise wrong("a series of dates has a step of less than a day", step, hint)
        return length
    unit = step.args.get("unit")
    text = step.name if isinstance(unit, exp.IntervalSpan) else f"{step.name} {unit.name if unit else ''}"
    found = parse_calendar_interval(text)
    if found is None or found[0] <= 0:
        raise wrong(f"{what} is not positive", step, "write INTERVAL '1' MONTH")
    return 28 * _DAY * found[0]


def _parse_start(start: exp.Expr | None, call: exp.Expr, wrong: Wrong) -> tuple[exp.DataType, datetime]:
    """Return the type of a start and when it is; a text means a TIMESTAMPTZ."""
    text = _strip_cast(start)
    kind = start.to if isinstance(start, exp.Cast) else exp.DataType.build("TIMESTAMPTZ")
    hint = "write a constant: generate_series(TIMESTAMPTZ '2024-01-01', now(), INTERVAL '1' DAY)"
    if not isinstance(text, exp.Literal) or not text.is_string:
        raise wrong("a series up to now() begins at a constant time", start or call, hint)
    try:
        found = datetime.fromisoformat(text.name.strip())
    except ValueError:
        raise wrong(f"'{text.name}' is no time", start or call, hint) from None
    return kind, found if found.tzinfo else found.replace(tzinfo=UTC)


def _strip_cast(start: exp.Expr | None) -> exp.Expr:
    return start.this if isinstance(start, exp.Cast) else start or exp.Null()


def _reads_clock(end: exp.Expr | None) -> bool:
    if end is None:
        return False
    return any(
        isinstance(part, _CLOCK) or (isinstance(part, exp.Anonymous) and part.name.lower() in _CLOCK_NAMES)
        for part in end.find_all(exp.Func)
    )
