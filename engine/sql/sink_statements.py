"""CREATE SINK, ALTER SINK, SHOW SINKS: read by patterns of our own, as sqlglot knows none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.sql.catalog import check_name
from engine.sql.clauses import clauses_of
from engine.sql.refusals import line_and_column, refusal

_NAME = r'("[^"]+"|`[^`]+`|[A-Za-z_]\w*)'
_CREATE = re.compile(
    rf"\s*CREATE\s+SINK\s+(IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+(?:INTO\s+{_NAME}\s+)?FROM\s+{_NAME}(?:\s+INTO\s+{_NAME})?\s*",
    re.IGNORECASE,
)
_ALTER = re.compile(rf"\s*ALTER\s+SINK\s+{_NAME}\s+(PAUSE|RESUME|RESET)\s*", re.IGNORECASE)
CREATE_FORM = "CREATE SINK [IF NOT EXISTS] name FROM view [INTO table] [WITH (connector = 'file', path = …, format = 'parquet')]"


@dataclass(frozen=True)
class CreateSink:
    """CREATE SINK; `into` is the table that takes the rows, None for a connector; `places` are where options stand."""

    name: str
    source: str
    into: str | None
    options: dict[str, str]
    places: dict[str, int]
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class AlterSink:
    """ALTER SINK; `action` is pause, resume or reset."""

    name: str
    action: str
    sql: str


@dataclass(frozen=True)
class ShowSinks:
    """SHOW SINKS: how far each is, and why it does not go on."""

    sql: str


def sink_statement(readable: str, sql: str, dialect: str) -> CreateSink | AlterSink | ShowSinks | None:
    """Return the statement about sinks that a text is, None for any other; raises SqlError for a wrong one."""
    if re.fullmatch(r"\s*SHOW\s+SINKS\s*", readable, re.IGNORECASE):
        return ShowSinks(sql)
    if re.match(r"\s*ALTER\s+SINK\b", readable, re.IGNORECASE):
        found = _ALTER.fullmatch(readable)
        if found is None:
            hint = "ALTER SINK name PAUSE, RESUME, or RESET (start again with the rows as they are)"
            raise refusal("this ALTER SINK is not offered", sql, _start(readable), hint)
        return AlterSink(_name(found[1]), found[2].lower(), sql)
    if not re.match(r"\s*CREATE\s+SINK\b", readable, re.IGNORECASE):
        return None
    clauses = clauses_of(readable, sql, dialect)
    found = _CREATE.fullmatch(clauses.readable)
    if found is None or (found[3] and found[5]):
        hint = CREATE_FORM
        if re.search(r"\bAS\b", clauses.readable, re.IGNORECASE):
            hint = "CREATE MATERIALIZED VIEW for the query first, then CREATE SINK … FROM it"
        raise refusal("this form of CREATE SINK is not offered", sql, _start(readable), hint)
    name = check_name(_name(found[2]), "sink", sql, *line_and_column(sql, found.start(2)))
    into = found[3] or found[5]
    return CreateSink(
        name,
        _name(found[4]),
        _name(into) if into else None,
        clauses.options,
        clauses.places,
        bool(found[1]),
        sql,
    )


def _start(readable: str) -> int:
    return len(readable) - len(readable.lstrip())


def _name(text: str) -> str:
    return text[1:-1] if text[0] in '"`' else text.lower()
