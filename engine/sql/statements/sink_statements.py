"""CREATE SINK, ALTER SINK, SHOW SINKS: read by patterns of our own, as sqlglot knows none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import sqlglot.expressions as exp
from sqlglot import TokenType
from sqlglot.errors import ParseError

from engine.sql.catalog import check_relation_name
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import NAME, written_name
from engine.sql.parsing.parsed import parsed
from engine.sql.parsing.refusals import line_and_column, refusal, syntax_error
from engine.sql.parsing.tokens import tokens_of
from engine.sql.statements.clauses import Clauses, blanks, clauses_of

_INTO = rf"INTO\s+({NAME})\s*(\(\s*{NAME}(?:\s*,\s*{NAME})*\s*\)|\([^()]*\))?"
_HEAD = rf"\s*CREATE\s+SINK\s+(IF\s+NOT\s+EXISTS\s+)?({NAME})\s+(?:{_INTO}\s*)?"
_CREATE = re.compile(rf"{_HEAD}FROM\s+({NAME})(?:\s+{_INTO})?\s*", re.IGNORECASE)
_CREATE_AS = re.compile(rf"{_HEAD}AS\b\s*", re.IGNORECASE)
_ALTER = re.compile(rf"\s*ALTER\s+SINK\s+({NAME})\s+(PAUSE|RESUME|RESET)\s*", re.IGNORECASE)
_COMMA = re.compile(r""",(?=(?:[^"`]|"[^"]*"|`[^`]*`)*$)""")
CREATE_FORM = (
    "CREATE SINK [IF NOT EXISTS] name [INTO table [(column, …)]] FROM view, or AS SELECT …, "
    "then [WITH (connector = 'file' or 'delta', path = …)]"
)


SinkAction = Literal["pause", "resume", "reset"]
_ACTIONS: dict[str, SinkAction] = {"pause": "pause", "resume": "resume", "reset": "reset"}


@dataclass(frozen=True)
class CreateSink:
    """CREATE SINK; `into` is the table that takes the rows, None for a connector; `places` are where options stand.

    `columns` are those of the table that take the view's columns, in their order; none: those of the same names. A sink AS a
    `query` is one from a view of its own, which is its `source`.
    """

    name: str
    source: str
    into: str | None
    options: dict[str, str]
    places: dict[str, int]
    if_not_exists: bool
    sql: str
    columns: tuple[str, ...] = ()
    query: exp.Query | None = None
    query_sql: str = ""


@dataclass(frozen=True)
class AlterSink:
    """ALTER SINK; `action` is pause, resume or reset."""

    name: str
    action: SinkAction
    sql: str


@dataclass(frozen=True)
class ShowSinks:
    """SHOW SINKS: how far each is, and why it does not go on."""

    sql: str


def sink_statement(readable: str, sql: str, dialect: Dialect) -> CreateSink | AlterSink | ShowSinks | None:
    """Return the statement about sinks that a text is, None for any other; raises SqlError for a wrong one."""
    if re.fullmatch(r"\s*SHOW\s+SINKS\s*", readable, re.IGNORECASE):
        return ShowSinks(sql)
    if re.match(r"\s*ALTER\s+SINK\b", readable, re.IGNORECASE):
        found = _ALTER.fullmatch(readable)
        if found is None:
            hint = "ALTER SINK name PAUSE, RESUME, or RESET (start again with the rows as they are)"
            raise refusal("this ALTER SINK is not offered", sql, _start(readable), hint)
        return AlterSink(written_name(found[1], dialect), _ACTIONS[found[2].lower()], sql)
    if not re.match(r"\s*CREATE\s+SINK\b", readable, re.IGNORECASE):
        return None
    if found := _CREATE_AS.match(readable):
        return _as_query(found, readable, sql, dialect)
    clauses = clauses_of(readable, sql, dialect)
    found = _CREATE.fullmatch(clauses.readable)
    if found is None or (found[3] and found[6]):
        raise refusal("this form of CREATE SINK is not offered", sql, _start(readable), CREATE_FORM)
    into = 3 if found[3] else 6
    columns = _columns(found, into + 1, sql, dialect)
    made = _sink(found, sql, dialect, into, clauses)
    return replace(made, source=written_name(found[5], dialect), columns=columns)


def _sink(found: re.Match[str], sql: str, dialect: Dialect, into: int, clauses: Clauses) -> CreateSink:
    place = line_and_column(sql, found.start(2))
    name = check_relation_name(written_name(found[2], dialect), "sink", sql, *place)
    table = written_name(found[into], dialect) if found[into] else None
    return CreateSink(name, "", table, clauses.options, clauses.places, bool(found[1]), sql)


def _as_query(found: re.Match[str], readable: str, sql: str, dialect: Dialect) -> CreateSink:
    """Return the sink of a query; its options stand behind the query, as WITH and a parenthesis, where no query has one."""
    start, end, clauses = found.end(), len(readable), None
    depth, tokens = 0, tokens_of(readable, dialect)
    for n, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        opens = n + 1 < len(tokens) and tokens[n + 1].token_type == TokenType.L_PAREN
        if depth == 0 and token.start >= start and token.token_type == TokenType.WITH and opens:
            end = token.start
            clauses = clauses_of(blanks(readable[:end]) + readable[end:], sql, dialect)
    if clauses is not None and clauses.readable.strip():
        at = len(clauses.readable) - len(clauses.readable.lstrip())
        raise refusal("this is not expected behind the options of a sink", sql, at, CREATE_FORM)
    query_sql = readable[start:end].strip()
    alone = blanks(readable[:start]) + readable[start:end]
    try:
        query = parsed(alone, dialect)
    except ParseError as error:
        raise syntax_error(error, alone, sql) from error
    if not isinstance(query, exp.Query):
        word = (query_sql.split() or ["nothing"])[0].upper()
        raise refusal(f"AS {word} is not offered", sql, start, "write AS SELECT …")
    made = _sink(found, sql, dialect, 3, clauses or Clauses(""))
    columns = _columns(found, 4, sql, dialect)
    return replace(made, source=view_of(made.name), columns=columns, query=query, query_sql=query_sql)


def view_of(sink: str) -> str:
    """Return the name of the view that a sink AS SELECT has for itself; no user can give it."""
    return f"_sink_{sink}".replace(".", "$")


def _columns(found: re.Match[str], group: int, sql: str, dialect: Dialect) -> tuple[str, ...]:
    if not found[group]:
        return ()
    names = [part.strip() for part in _COMMA.split(found[group][1:-1])]
    for n, name in enumerate(names):
        if re.fullmatch(NAME, name) is None or name in names[:n]:
            message = (
                f"column {name} stands twice"
                if name in names[:n]
                else f"{name or 'nothing'} is no name of a column"
            )
            raise refusal(message, sql, found.start(group), CREATE_FORM)
    return tuple(written_name(name, dialect) for name in names)


def _start(readable: str) -> int:
    return len(readable) - len(readable.lstrip())
