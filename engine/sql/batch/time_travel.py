"""Moments of the past at which a query reads a table: FOR SYSTEM_TIME AS OF, TIMESTAMP AS OF, VERSION AS OF."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass

import sqlglot.expressions as exp
from sqlglot.errors import SqlglotError

from engine.errors import SqlError
from engine.sql.parsing.proctime import is_at_proctime
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tree_parser import parse_tree

_SECONDS_BELOW = 100_000_000_000
_MOST_DIGITS = 19
"""Of an epoch, which has 64 bits; what is longer names perhaps no time at all."""
_HINT = "write an epoch, TIMESTAMP '2026-01-31 10:00:00', or now() - INTERVAL '10' MINUTE"
_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}


@dataclass(frozen=True)
class Moment:
    """An epoch, or seconds since 1970, or seconds before the present; exactly one is given."""

    epoch: int | None = None
    seconds: float | None = None
    ago: float | None = None


def parse_moment(table: exp.Table, sql: str) -> Moment | None:
    """Return the moment at which a table of FROM is to be read, or None; raises SqlError for one that is not a constant."""
    version = table.args.get("version") or table.args.get("when")
    if version is None or is_at_proctime(table):
        return None
    moment = version.expression
    if (
        not isinstance(version, exp.Version)
        or str(version.args.get("kind")).upper() != "AS OF"
        or moment is None
    ):
        raise sql_error("a table is read AS OF one moment", table, sql, _HINT)
    found = _parse_moment(moment)
    if found is None:
        raise sql_error(f"{moment.sql()} is no moment of the past", moment, sql, _HINT)
    return found


def parse_moment_text(text: str) -> Moment | None:
    """Return the moment that an ISO timestamp means, in UTC unless it names a zone; None if it is none."""
    try:
        found = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return Moment(seconds=(found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp())


def read_moment(text: str) -> Moment:
    """Return the moment that a text names: an epoch, a time, or an expression that FOR SYSTEM_TIME AS OF takes.

    Raises SqlError for any other text.

    >>> read_moment("2026-01-31 10:00:00"), read_moment("now() - INTERVAL '10' MINUTE")
    (Moment(epoch=None, seconds=1769853600.0, ago=None), Moment(epoch=None, seconds=None, ago=600.0))
    """
    text = text.strip()
    found = _parse_moment(exp.Literal.number(text)) if text.isdecimal() else parse_moment_text(text)
    if found is not None:
        return found
    query = f"SELECT * FROM t FOR SYSTEM_TIME AS OF {text}"
    try:
        tree = parse_tree(query, "risingwave")
        table = tree.find(exp.Table)
        clauses = {name for name, part in tree.args.items() if part}
        alone = (
            table is not None and not table.alias and clauses <= {"expressions", "from_"} and ";" not in text
        )
        found = parse_moment(table, query) if table is not None and alone else None
    except (SqlError, SqlglotError, RecursionError):
        found = None
    if found is None:
        raise SqlError(f"{text or 'nothing'} is no moment of the past", hint=_HINT)
    return found


def _parse_moment(node: exp.Expr) -> Moment | None:
    match node:
        case exp.Paren():
            return _parse_moment(node.this)
        case exp.Literal(is_string=True):
            return parse_moment_text(node.name)
        case exp.Literal():
            if not node.name.isdigit() or len(node.name) > _MOST_DIGITS:
                return None
            number = int(node.name)  # no store has an epoch this low: it counts seconds
            return Moment(seconds=float(number)) if number < _SECONDS_BELOW else Moment(epoch=number)
        case exp.Cast() | exp.TsOrDsToTimestamp() if (
            isinstance(node.this, exp.Literal) and node.this.is_string
        ):
            return parse_moment_text(node.this.name)
        case exp.CurrentTimestamp() | exp.Anonymous() if _is_now(node):
            return Moment(ago=0.0)
        case exp.Sub() if _is_now(node.this) and isinstance(node.expression, exp.Interval):
            seconds = _parse_seconds(node.expression)
            return None if seconds is None else Moment(ago=seconds)
    return None


def _is_now(node: exp.Expr) -> bool:
    return isinstance(node, exp.CurrentTimestamp) or node.sql().upper() in ("NOW()", "CURRENT_TIMESTAMP()")


def _parse_seconds(interval: exp.Interval) -> float | None:
    unit = _UNITS.get(interval.text("unit").upper().removesuffix("S"))
    try:
        seconds = float("nan") if unit is None else float(interval.this.name) * unit
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
