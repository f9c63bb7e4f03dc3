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
from engine.sql.parsing.names import NAME, parse_name
from engine.sql.parsing.statement_errors import build_syntax_error, locate_character, unsupported_error_at
from engine.sql.parsing.tokens import tokenize
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.ddl.create_clauses import Clauses, make_blanks, read_clauses

_INTO = rf"INTO\s+({NAME})\s*(\(\s*{NAME}(?:\s*,\s*{NAME})*\s*\)|\([^()]*\))?"
_HEAD = rf"\s*CREATE\s+SINK\s+(IF\s+NOT\s+EXISTS\s+)?({NAME})\s+(?:{_INTO}\s*)?"
_CREATE = re.compile(rf"{_HEAD}FROM\s+({NAME})(?:\s+{_INTO})?\s*", re.IGNORECASE)
_CREATE_AS = re.compile(rf"{_HEAD}AS\b\s*", re.IGNORECASE)
_ALTER = re.compile(rf"\s*ALTER\s+SINK\s+({NAME})\s+(PAUSE|RESUME|RESET)\s*", re.IGNORECASE)
_COMMA = re.compile(r""",(?=(?:[^"`]|"[^"]*"|`[^`]*`)*$)""")
CREATE_FORM = (
    "CREATE SINK [IF NOT EXISTS] name [INTO table [(column, …)]] FROM view, or AS SELECT …, "
    "then [WITH (connector = 'file', 'delta', 'postgres' or 'kafka', …)]"
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


def read_sink_statement(
    readable: str, sql: str, dialect: Dialect
) -> CreateSink | AlterSink | ShowSinks | None:
    """Return the statement about sinks that a text is, None for any other; raises SqlError for a wrong one."""
    if re.fullmatch(r"\s*SHOW\s+SINKS\s*", readable, re.IGNORECASE):
        return ShowSinks(sql)
    if re.match(r"\s*ALTER\s+SINK\b", readable, re.IGNORECASE):
        found = _ALTER.fullmatch(readable)
        if found is None:
            hint = "ALTER SINK name PAUSE, RESUME, or RESET (start again with the rows as they are)"
            raise unsupported_error_at("this ALTER SINK is not offered", sql, _find_start(readable), hint)
        return AlterSink(parse_name(found[1], dialect), _ACTIONS[found[2].lower()], sql)
    if not re.match(r"\s*CREATE\s+SINK\b", readable, re.IGNORECASE):
        return None
    if found := _CREATE_AS.match(readable):
        return _build_query_sink(found, readable, sql, dialect)
    clauses = read_clauses(readable, sql, dialect)
    found = _CREATE.fullmatch(clauses.readable)
    if found is None or (found[3] and found[6]):
        raise unsupported_error_at(
            "this form of CREATE SINK is not offered", sql, _find_start(readable), CREATE_FORM
        )
    into = 3 if found[3] else 6
    columns = _read_columns(found, into + 1, sql, dialect)
    made = _build_sink(found, sql, dialect, into, clauses)
    return replace(made, source=parse_name(found[5], dialect), columns=columns)


def _build_sink(found: re.Match[str], sql: str, dialect: Dialect, into: int, clauses: Clauses) -> CreateSink:
    place = locate_character(sql, found.start(2))
    name = check_relation_name(parse_name(found[2], dialect), "sink", sql, *place)
    table = parse_name(found[into], dialect) if found[into] else None
    return CreateSink(name, "", table, clauses.options, clauses.places, bool(found[1]), sql)


def _build_query_sink(found: re.Match[str], readable: str, sql: str, dialect: Dialect) -> CreateSink:
    """Return the sink of a query; its options stand behind the query, as WITH and a parenthesis, where no query has one."""
    start, end, clauses = found.end(), len(readable), None
    depth, tokens = 0, tokenize(readable, dialect)
    for n, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        opens = n + 1 < len(tokens) and tokens[n + 1].token_type == TokenType.L_PAREN
        if depth == 0 and token.start >= start and token.token_type == TokenType.WITH and opens:
            end = token.start
            clauses = read_clauses(make_blanks(readable[:end]) + readable[end:], sql, dialect)
    if clauses is not None and clauses.readable.strip():
        at = len(clauses.readable) - len(clauses.readable.lstrip())
        raise unsupported_error_at("this is not expected behind the options of a sink", sql, at, CREATE_FORM)
    query_sql = readable[start:end].strip()
    alone = make_blanks(readable[:start]) + readable[start:end]
    try:
        query = parse_tree(alone, dialect)
    except ParseError as error:
        raise build_syntax_error(error, alone, sql) from error
    if not isinstance(query, exp.Query):
        word = (query_sql.split() or ["nothing"])[0].upper()
        raise unsupported_error_at(f"AS {word} is not offered", sql, start, "write AS SELECT …")
    made = _build_sink(found, sql, dialect, 3, clauses or Clauses(""))
    columns = _read_columns(found, 4, sql, dialect)
    return replace(made, source=sink_view_name(made.name), columns=columns, query=query, query_sql=query_sql)


def sink_view_name(sink: str) -> str:
    """Return the name of the view that a sink AS SELECT has for itself; no user can give it."""
    return f"_sink_{sink}".replace(".", "$")


def find_view_sink(view: str) -> str | None:
    """Return the sink AS SELECT that has a view for itself, None for any other view."""
    prefix = sink_view_name("")
    return view.removeprefix(prefix).replace("$", ".") if view.startswith(prefix) else None


def _read_columns(found: re.Match[str], group: int, sql: str, dialect: Dialect) -> tuple[str, ...]:
    if not found[group]:
        return ()
    names = [part.strip() for part in _COMMA.split(found[group][1:-1])]
    for n, name in enumerate(names):
        if re.fullmatch(NAME, name) is None or name in names[:n]:
            message = (
                f"column {name} occurs twice"
                if name in names[:n]
                else f"{name or 'nothing'} is no name of a column"
            )
            raise unsupported_error_at(message, sql, found.start(group), CREATE_FORM)
    return tuple(parse_name(name, dialect) for name in names)


def _find_start(readable: str) -> int:
    return len(readable) - len(readable.lstrip())
