"""CREATE SUBSCRIPTION and its cursors: read by patterns of our own, as sqlglot knows none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.errors import SqlError
from engine.sql.catalog import check_relation_name
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import NAME, parse_name
from engine.sql.parsing.statement_errors import locate_character, unsupported_error_at
from engine.sql.statements.ddl.create_clauses import read_clauses

_CREATE = re.compile(
    rf"\s*CREATE\s+SUBSCRIPTION\s+(IF\s+NOT\s+EXISTS\s+)?({NAME})\s+FROM\s+({NAME})\s*", re.IGNORECASE
)
_DECLARE = re.compile(
    rf"DECLARE\s+({NAME})\s+SUBSCRIPTION\s+CURSOR\s+FOR\s+({NAME})"
    r"(?:\s+(?:SINCE\s+(?:(NOW|BEGIN)\s*\(\s*\)|(\d+)|(FULL))|(FULL)))?",
    re.IGNORECASE,
)
_FETCH = re.compile(
    rf"FETCH\s+(NEXT|\d+)\s+FROM\s+({NAME})(?:\s+WITH\s*\(\s*timeout\s*=\s*'([^']*)'\s*\))?", re.IGNORECASE
)
_CLOSE = re.compile(rf"CLOSE\s+(?:({NAME})|ALL)", re.IGNORECASE)
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}
_UNITS = {
    **{"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0},  # RisingWave's short ones
    **_SECONDS,
    **{f"{unit}s": seconds for unit, seconds in _SECONDS.items()},
}
OPTION = "retention"
CREATE_FORM = (
    "CREATE SUBSCRIPTION [IF NOT EXISTS] name FROM table or materialized view [WITH (retention = '1 day')]"
)
DECLARE_FORM = (
    "DECLARE name SUBSCRIPTION CURSOR FOR a subscription, a table or a materialized view "
    "[SINCE now() | begin() | milliseconds since 1970 | FULL]"
)
FETCH_FORM = "FETCH NEXT FROM cursor, or FETCH 100 FROM cursor, each with WITH (timeout = '5 seconds')"
MOST_DIGITS = 15
"""Of a time in milliseconds, and more than any number of rows has."""
MOST_WAIT_SECONDS = 3_600.0
MOST_RETENTION_SECONDS = 36_500 * 86_400.0
MOST_ROWS = 1_000_000
"""So many rows one FETCH gives at most."""

Since = Literal["now", "begin", "full"]
_WORDS: dict[str, Since] = {"now": "now", "begin": "begin", "full": "full"}


@dataclass(frozen=True)
class CreateSubscription:
    """CREATE SUBSCRIPTION: changes of the table or view `source` are kept for `retention_seconds`; None: for the default."""

    name: str
    source: str
    retention_seconds: float | None
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class DeclareCursor:
    """DECLARE … SUBSCRIPTION CURSOR: `since` is a word, or milliseconds since 1970; None: where the subscription stands."""

    name: str
    source: str
    since: Since | int | None
    sql: str


@dataclass(frozen=True)
class FetchCursor:
    """FETCH: the next `count` rows of a cursor; where there are none, it waits for the first for so many `seconds`."""

    name: str
    count: int
    sql: str
    seconds: float = 0.0


@dataclass(frozen=True)
class CloseCursor:
    """CLOSE: a cursor ends, without a name all of them; what was fetched is acknowledged."""

    name: str | None
    sql: str


@dataclass(frozen=True)
class ShowSubscriptions:
    """SHOW SUBSCRIPTIONS: what each follows, and how far it is."""

    sql: str


@dataclass(frozen=True)
class ShowCursors:
    """SHOW CURSORS: the cursors of the session."""

    sql: str


SubscriptionStatement = (
    CreateSubscription | DeclareCursor | FetchCursor | CloseCursor | ShowSubscriptions | ShowCursors
)


def read_subscription_statement(readable: str, sql: str, dialect: Dialect) -> SubscriptionStatement | None:
    """Return the statement about subscriptions that a text is, None for any other; raises SqlError for a wrong one."""
    text, start = readable.strip(), len(readable) - len(readable.lstrip())
    if re.fullmatch(r"SHOW\s+SUBSCRIPTIONS", text, re.IGNORECASE):
        return ShowSubscriptions(sql)
    if re.fullmatch(r"SHOW\s+(?:SUBSCRIPTION\s+)?CURSORS", text, re.IGNORECASE):
        return ShowCursors(sql)
    if re.match(r"CREATE\s+SUBSCRIPTION\b", text, re.IGNORECASE):
        return _read_create(readable, sql, dialect)
    if re.match(r"ALTER\s+SUBSCRIPTION\b", text, re.IGNORECASE):
        hint = "DROP SUBSCRIPTION, and CREATE it again; DECLARE … SINCE moves where it stands"
        raise unsupported_error_at("ALTER SUBSCRIPTION is not offered", sql, start, hint)
    word = text.split(None, 1)[0].upper() if text else ""
    if word == "DECLARE":
        found = _DECLARE.fullmatch(text)
        if found is None:
            raise unsupported_error_at("this form of DECLARE is not offered", sql, start, DECLARE_FORM)
        if found[4] and len(found[4]) > MOST_DIGITS:
            message = f"SINCE {found[4]} is no time"
            raise unsupported_error_at(message, sql, start + found.start(4), "write milliseconds since 1970")
        since: Since | int | None = int(found[4]) if found[4] else None
        if spoken := (found[3] or found[5] or found[6]):
            since = _WORDS[spoken.lower()]
        return DeclareCursor(_read_cursor_name(found[1], dialect), parse_name(found[2], dialect), since, sql)
    if word == "FETCH":
        found = _FETCH.fullmatch(text)
        if found is None:
            raise unsupported_error_at("this form of FETCH is not offered", sql, start, FETCH_FORM)
        count = 1 if found[1].upper() == "NEXT" else int(found[1][:MOST_DIGITS])
        if not 1 <= count <= MOST_ROWS:
            message = f"FETCH {found[1]} is not offered"
            raise unsupported_error_at(message, sql, start, f"ask for 1 to {MOST_ROWS:,} rows at a time")
        seconds = 0.0 if found[3] is None else _parse_timeout(found[3], sql, start + found.start(3) - 1)
        return FetchCursor(_read_cursor_name(found[2], dialect), count, sql, seconds)
    if word == "CLOSE":
        found = _CLOSE.fullmatch(text)
        if found is None:
            raise unsupported_error_at(
                "this form of CLOSE is not offered", sql, start, "CLOSE cursor, or CLOSE ALL"
            )
        if found[1] is None or found[1].upper() == "ALL":
            return CloseCursor(None, sql)
        return CloseCursor(_read_cursor_name(found[1], dialect), sql)
    return None


def _read_create(readable: str, sql: str, dialect: Dialect) -> CreateSubscription:
    clauses = read_clauses(readable, sql, dialect)
    found = _CREATE.fullmatch(clauses.readable)
    if found is None:
        start = len(readable) - len(readable.lstrip())
        raise unsupported_error_at("this form of CREATE SUBSCRIPTION is not offered", sql, start, CREATE_FORM)
    for option, place in clauses.places.items():
        if option != OPTION:
            raise unsupported_error_at(f"option {option} is not offered", sql, place, CREATE_FORM)
    text = clauses.options.get(OPTION)
    seconds = None if text is None else _parse_retention(text, sql, clauses.places[OPTION])
    line, column = locate_character(sql, found.start(2))
    name = check_relation_name(parse_name(found[2], dialect), "subscription", sql, line, column)
    return CreateSubscription(name, parse_name(found[3], dialect), seconds, bool(found[1]), sql)


def _read_cursor_name(text: str, dialect: Dialect) -> str:
    """Return a cursor's name: what is not in quotes is in lower case, and so is all of it in Spark's dialect."""
    name = parse_name(text, dialect)
    return name if dialect != "spark" and text.startswith('"') else name.lower()


def _parse_retention(text: str, sql: str, place: int) -> float:
    seconds = _parse_span(text)
    if seconds is None or seconds > MOST_RETENTION_SECONDS:
        line, column = locate_character(sql, place)
        most = MOST_RETENTION_SECONDS / 86_400
        hint = f"write retention = '1 day', or a number of seconds; {most:,.0f} days at most"
        raise SqlError(f'retention "{text}" is no time span', sql=sql, line=line, column=column, hint=hint)
    return seconds


def _parse_timeout(text: str, sql: str, place: int) -> float:
    seconds = _parse_span(text)
    if seconds is None or seconds > MOST_WAIT_SECONDS:
        line, column = locate_character(sql, place)
        hint = f"write timeout = '5 seconds'; {MOST_WAIT_SECONDS:g} seconds at most"
        raise SqlError(
            f'"{text}" is no time for which FETCH waits', sql=sql, line=line, column=column, hint=hint
        )
    return seconds


def _parse_span(text: str) -> float | None:
    """Return a time span above 0 in seconds, None for what is none."""
    found = _SPAN.fullmatch(text.lower())
    if found is None or found[2] not in _UNITS or float(found[1]) <= 0:
        return None
    return float(found[1]) * _UNITS[found[2]]
