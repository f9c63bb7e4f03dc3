"""Text -> one typed statement: sqlglot parses, a small layer of our own reads what it does not."""

from __future__ import annotations

import logging
import re

import sqlglot
import sqlglot.expressions as exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from engine.errors import SqlError
from engine.sql.clauses import Clauses, clauses_of, source_clauses
from engine.sql.create import create, drop, query_text
from engine.sql.dml_statements import delete, insert, update
from engine.sql.names import identifier, table_name
from engine.sql.own_statements import own_statement, set_statement
from engine.sql.parsed import parsed
from engine.sql.refusals import (
    STATEMENTS,
    clause_not_offered,
    first_word,
    not_offered,
    refusal,
    syntax_error,
    unclosed,
)
from engine.sql.sink_statements import AlterSink, CreateSink, ShowSinks, sink_statement
from engine.sql.statement_types import (
    Alter,
    Comment,
    CreateFunction,
    CreateIndex,
    CreateMaterializedView,
    CreateTable,
    CreateView,
    DeleteFrom,
    Describe,
    Drop,
    Explain,
    Flush,
    Insert,
    Select,
    Set,
    SetOptions,
    Show,
    ShowCreate,
    ShowVariable,
    Statement,
    Update,
    Wait,
)

__all__ = [
    "Alter",
    "AlterSink",
    "Comment",
    "CreateFunction",
    "CreateIndex",
    "CreateMaterializedView",
    "CreateSink",
    "CreateTable",
    "CreateView",
    "DeleteFrom",
    "Describe",
    "Drop",
    "Explain",
    "Flush",
    "Insert",
    "Select",
    "Set",
    "SetOptions",
    "Show",
    "ShowCreate",
    "ShowSinks",
    "ShowVariable",
    "Statement",
    "Update",
    "Wait",
    "identifier",
    "parse",
    "split",
]

_TABLE_OR_VIEW = re.compile(r"\s*CREATE\s+(TABLE|(MATERIALIZED\s+)?VIEW)\b", re.IGNORECASE)

logging.getLogger("sqlglot").setLevel(logging.ERROR)


def split(text: str, dialect: str) -> list[str]:
    """Cut a script at its semicolons; comments and strings are left alone."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except TokenError as error:
        raise unclosed(text) from error
    parts, start = [], 0
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            parts.append(text[start : token.start])
            start = token.end + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if _has_words(part, dialect)]


def _has_words(text: str, dialect: str) -> bool:
    return bool(sqlglot.tokenize(text, read=dialect))


def parse(text: str, dialect: str) -> Statement:
    """Parse exactly one statement; raises SqlError with line, column and remedy."""
    parts = split(text, dialect)
    if not parts:
        raise SqlError("there is no statement", sql=text, hint="write one, for example SELECT … FROM …")
    if len(parts) != 1:
        raise SqlError(f"one statement is expected, {len(parts)} were given", hint="run them one by one")
    sql = parts[0]
    # comments before and after the statement are no part of it
    end = sqlglot.tokenize(sql, read=dialect)[-1].end + 1
    return _statement(_blank(_blank(sql, end, len(sql)), 0, first_word(sql)), sql, dialect)


def _statement(readable: str, sql: str, dialect: str) -> Statement:
    """Parse `readable`, in which what sqlglot does not read is blank; places are those of `sql`."""
    own = _sink(readable, sql, dialect) or own_statement(readable, sql, dialect)
    own = own or _explain(readable, sql, dialect)
    if own is not None:
        return own
    clauses = Clauses(readable)
    source = re.match(r"\s*(?:CREATE|DROP)\s+(SOURCE)\b", readable, re.IGNORECASE)
    if source is not None:  # an APPEND ONLY table that a connector feeds
        readable = f"{readable[: source.start(1)]}TABLE {readable[source.end(1) :]}"
    if _TABLE_OR_VIEW.match(readable):
        clauses = clauses_of(readable, sql, dialect)
        readable = clauses.readable
        if source is not None:
            clauses = source_clauses(clauses, sql, source.start(1))
    tree = _tree(readable, sql, dialect)
    match tree:
        case exp.Create():
            return create(tree, clauses, sql, dialect)
        case exp.Drop():
            return drop(tree, sql)
        case exp.Insert():
            return insert(tree, sql)
        case exp.Update():
            return update(tree, sql)
        case exp.Delete():
            return delete(tree, sql)
        case exp.Query():
            return Select(tree, sql)
        case exp.Describe():
            return Describe(table_name(tree.this, sql), sql)
        case exp.Set():
            return set_statement(tree, sql)
    raise _misread_query(readable, sql, dialect) or not_offered(sql)


def _blank(text: str, start: int, end: int) -> str:
    """Return the text with a part of it blank, so that everything else keeps its place."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _tree(readable: str, sql: str, dialect: str) -> exp.Expr:
    try:
        return parsed(readable, dialect)
    except TokenError as error:
        raise unclosed(sql) from error
    except ParseError as error:
        known = not_offered(sql)
        if known.hint != STATEMENTS:
            raise _misread_query(readable, sql, dialect) or known from error
        raise syntax_error(error, readable, sql) from error


def _misread_query(readable: str, sql: str, dialect: str) -> SqlError | None:
    """Return what is wrong with the query of a CREATE … AS, or None if it can be read."""
    query = query_text(readable, dialect)
    if not _TABLE_OR_VIEW.match(readable) or query == readable or clause_not_offered(sql) is not None:
        return None
    alone = _blank(readable, 0, readable.rindex(query))
    try:
        tree = parsed(alone, dialect)
    except ParseError as error:
        return syntax_error(error, alone, sql)
    if isinstance(tree, exp.Query):
        return None
    word = query.split()[0].upper()
    return refusal(f"AS {word} is not offered", sql, readable.rindex(query), "write AS SELECT …")


def _sink(readable: str, sql: str, dialect: str) -> Statement | None:
    pattern = r"DROP\s+SINK\s+(IF\s+EXISTS\s+)?(\S+?)(\s+CASCADE)?"
    if found := re.fullmatch(pattern, readable.strip(), re.IGNORECASE):
        name = found[2] if found[2][0] in '`"' else found[2].lower()
        return Drop("sink", name.strip('`"'), bool(found[1]), bool(found[3]), sql)
    return sink_statement(readable, sql, dialect)


def _explain(readable: str, sql: str, dialect: str) -> Explain | None:
    text, start = readable.strip(), len(readable) - len(readable.lstrip())
    if found := re.match(r"EXPLAIN\b\s*(INCREMENTAL\b\s*)?", text, re.IGNORECASE):
        explained = _blank(readable, start, start + found.end())
        hint = "EXPLAIN [INCREMENTAL] SELECT …, or EXPLAIN [INCREMENTAL] CREATE MATERIALIZED VIEW …"
        wrong = refusal(
            "EXPLAIN takes a SELECT or a CREATE MATERIALIZED VIEW", sql, start + found.end(), hint
        )
        if not re.match(r"\s*(SELECT|WITH|VALUES|FROM|TABLE|CREATE|\()", explained, re.IGNORECASE):
            raise wrong
        inner = _statement(explained, sql, dialect)
        if isinstance(inner, CreateMaterializedView):
            return Explain(inner, bool(found[1]), sql)
        if isinstance(inner, Select):
            return Explain(inner.query, bool(found[1]), sql)
        raise wrong
    return None
