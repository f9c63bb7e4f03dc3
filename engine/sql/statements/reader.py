"""Text -> one typed statement: sqlglot parses, a small layer of our own reads what it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import sqlglot.expressions as exp
from sqlglot import Token, TokenType
from sqlglot.errors import ParseError, TokenError

from engine.errors import SqlError
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import NAME, normalize_identifier, parse_name, resolve_table_name
from engine.sql.parsing.statement_errors import (
    STATEMENTS,
    build_statement_error,
    build_syntax_error,
    build_unclosed_error,
    find_clause_error,
    find_first_word,
    sql_error,
    unsupported_error,
    unsupported_error_at,
)
from engine.sql.parsing.tokens import tokenize
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.ddl.create import (
    as_query,
    build_create,
    build_drop,
    extract_query_text,
    list_dropped,
)
from engine.sql.statements.ddl.create_clauses import Clauses, check_source, make_blanks, read_clauses
from engine.sql.statements.ddl.create_function import mark_aggregate
from engine.sql.statements.ddl.macros import add_parameter_names
from engine.sql.statements.ddl.sink_statements import AlterSink, CreateSink, ShowSinks, read_sink_statement
from engine.sql.statements.ddl.subscription_statements import (
    CloseCursor,
    CreateSubscription,
    DeclareCursor,
    FetchCursor,
    ShowCursors,
    ShowSubscriptions,
    read_subscription_statement,
)
from engine.sql.statements.dml.dml_statements import build_delete, build_insert, build_truncate, build_update
from engine.sql.statements.dml.with_items import inline_with, refuse_writes_in_with
from engine.sql.statements.options.explain_options import read_explain_options
from engine.sql.statements.session.parameters import Parameters, bind_parameters
from engine.sql.statements.session.session_statements import (
    CancelJobs,
    CreateSchema,
    Deallocate,
    DropSchema,
    Execute,
    Flush,
    IgnoredStatement,
    Prepare,
    Refresh,
    ShowJobs,
    ShowWatermarks,
    Use,
    Wait,
)
from engine.sql.statements.statement_types import (
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
    Insert,
    Select,
    Set,
    SetOptions,
    Several,
    Show,
    ShowCreate,
    ShowVariable,
    Statement,
    Update,
)
from engine.sql.statements.token_reader import read_own_statement

__all__ = [
    "Alter",
    "AlterSink",
    "CancelJobs",
    "CloseCursor",
    "Comment",
    "CreateFunction",
    "CreateIndex",
    "CreateMaterializedView",
    "CreateSchema",
    "CreateSink",
    "CreateSubscription",
    "CreateTable",
    "CreateView",
    "Deallocate",
    "DeclareCursor",
    "DeleteFrom",
    "Describe",
    "Drop",
    "DropSchema",
    "Execute",
    "Explain",
    "FetchCursor",
    "Flush",
    "IgnoredStatement",
    "Insert",
    "Prepare",
    "Refresh",
    "Select",
    "Set",
    "SetOptions",
    "Several",
    "Show",
    "ShowCreate",
    "ShowCursors",
    "ShowJobs",
    "ShowSinks",
    "ShowSubscriptions",
    "ShowVariable",
    "ShowWatermarks",
    "Statement",
    "Update",
    "Use",
    "Wait",
    "normalize_identifier",
    "parse_statement",
    "split_statements",
]

_FUNCTION = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\b", re.IGNORECASE)
_TABLE_OR_VIEW = re.compile(
    r"\s*CREATE\s+(?:(TABLE|VIEW)|(OR\s+REPLACE\s+)?MATERIALIZED\s+VIEW)\b", re.IGNORECASE
)

_DISTRIBUTED = re.compile(
    r"\s*CREATE\s+INDEX\b.*\)\s*(DISTRIBUTED\s+BY\s*\([^()]*\)\s*)$", re.IGNORECASE | re.DOTALL
)

_OVERRIDING = re.compile(
    rf"\s*INSERT\s+INTO\s+{NAME}\s*(?:\([^()]*\)\s*)?(OVERRIDING\s+(?:SYSTEM|USER)\s+VALUE)\b", re.IGNORECASE
)


def split_statements(text: str, dialect: Dialect) -> list[str]:
    """Cut a script at its semicolons; comments and strings are left alone."""
    return [part for part, _ in _split_parts(text, dialect)]


def _split_parts(text: str, dialect: Dialect) -> list[tuple[str, int]]:
    """Return the statements of a text, each with the place behind its last word."""
    try:
        tokens = tokenize(text, dialect)
    except TokenError as error:
        raise build_unclosed_error(text) from error
    found: list[tuple[int, int, Token | None]] = []
    start, last = 0, None
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            found.append((start, token.start, last))
            start, last = token.end + 1, None
        else:
            last = token
    found.append((start, len(text), last))
    parts: list[tuple[str, int]] = []
    for start, end, last in found:
        if last is not None:
            part = text[start:end]
            begin = start + len(part) - len(part.lstrip())
            parts.append((part.strip(), last.end + 1 - begin))
    return parts


def parse_statement(text: str, dialect: Dialect, values: Parameters | None = None) -> Statement:
    """Parse exactly one statement, with values for its parameters; raises SqlError with line, column and remedy."""
    parts = _split_parts(text, dialect)
    if not parts:
        raise SqlError("there is no statement", sql=text, hint="write one, for example SELECT … FROM …")
    if len(parts) != 1:
        message = f"one statement is expected, {len(parts)} were given"
        hint = (
            "run them one by one" if values is None else "values go with one statement: run them one by one"
        )
        raise SqlError(message, sql=text, line=1, column=1, hint=hint)
    sql, end = parts[0]  # comments before and after the statement are no part of it
    return _parse_readable(_mask_comments(_mask_range(sql, end, len(sql)), dialect), sql, dialect, values)


def _mask_comments(text: str, dialect: Dialect) -> str:
    """Return a text with blanks for its comments, so that what is left keeps its place."""
    if "--" not in text and "/*" not in text:
        return text
    start = find_first_word(text)
    word = re.match(r"\w*", text[start:])
    end = start + (word.end() if word else 0)
    masked = (
        make_blanks(text[:start]) + "x" * (end - start) + text[end:]
    )  # sqlglot cuts nothing behind EXPLAIN and SHOW
    at, found = 0, list[str]()
    for token in tokenize(masked, dialect):
        found += [make_blanks(text[at : token.start]), text[token.start : token.end + 1]]
        at = token.end + 1
    return "".join([*found, make_blanks(text[at:])])


def _parse_readable(readable: str, sql: str, dialect: Dialect, values: Parameters | None = None) -> Statement:
    """Parse `readable`, in which what sqlglot does not read is blank; places are those of `sql`."""
    explained = _read_explain(readable, sql, dialect, values)
    own = explained or _read_consumer(readable, sql, dialect) or read_own_statement(readable, sql, dialect)
    if own is not None and values and explained is None:
        hint = "SELECT, INSERT, UPDATE, DELETE and EXPLAIN take values"
        raise sql_error("this statement takes no values", None, sql, hint)
    if own is not None:
        return own
    clauses = Clauses(readable)
    if found := _OVERRIDING.match(readable):  # there are no columns that a user may not write
        readable = _mask_range(readable, found.start(1), found.end(1))
    source = re.match(r"\s*(?:CREATE|DROP)\s+(SOURCE)\b", readable, re.IGNORECASE)
    if source is not None:  # to the parser a table
        readable = f"{readable[: source.start(1)]}TABLE {readable[source.end(1) :]}"
    if _TABLE_OR_VIEW.match(readable):
        clauses = read_clauses(readable, sql, dialect)
        readable = clauses.readable
        if source is not None:
            check_source(clauses, sql, source.start(1))
    aggregate = re.match(r"\s*(?:CREATE(?:\s+OR\s+REPLACE)?|DROP)\s+(AGGREGATE)\b", readable, re.IGNORECASE)
    if aggregate is not None:  # to the parser a function
        readable = f"{readable[: aggregate.start(1)]}FUNCTION {readable[aggregate.end(1) :]}"
    if _FUNCTION.match(readable):
        readable = add_parameter_names(readable, dialect)
    if spread := _DISTRIBUTED.match(readable):  # an index is spread by all of its columns
        readable = _mask_range(readable, spread.start(1), spread.end(1))
    if found := re.fullmatch(rf"\s*TABLE\s+({NAME})\s*", readable, re.IGNORECASE):
        readable = f"SELECT * FROM {found[1]}"
        sql = f"{readable}"
    tree = bind_parameters(_parse_tree(readable, sql, dialect), values, sql, dialect)
    refuse_writes_in_with(tree, sql)
    if isinstance(tree, exp.Insert | exp.Update | exp.Delete):
        tree = inline_with(tree, sql)
    match tree:
        case exp.Create():
            made = build_create(tree, clauses, sql, dialect)
            if isinstance(made, CreateFunction):
                return mark_aggregate(made) if aggregate is not None else made
            return replace(made, pass_through=source is not None) if isinstance(made, CreateTable) else made
        case exp.Drop():
            parts = [build_drop(tree, part, sql) for part in list_dropped(tree)]
            return _combine_parts([replace(part, kind="source") for part in parts] if source else parts, sql)
        case exp.Insert():
            return build_insert(tree, sql)
        case exp.Update():
            return build_update(tree, sql)
        case exp.Delete():
            return build_delete(tree, sql)
        case exp.TruncateTable():
            return _combine_parts([build_truncate(tree, part, sql) for part in tree.expressions], sql)
        case exp.Query():
            if (into := tree.args.get("into")) is not None:
                raise unsupported_error("SELECT INTO is not offered", into, sql, "CREATE TABLE t AS SELECT …")
            return Select(tree, sql)
        case exp.Values():
            return Select(as_query(tree), sql)
        case exp.Describe() if tree.find(exp.Table) is not None:
            return Describe(resolve_table_name(tree.this, sql), sql)
    raise _find_query_error(readable, sql, dialect) or build_statement_error(sql)


def _combine_parts(parts: Sequence[Drop | DeleteFrom], sql: str) -> Statement:
    return parts[0] if len(parts) == 1 else Several(tuple(parts), sql)


def _mask_range(text: str, start: int, end: int) -> str:
    """Return the text with a part of it blank, so that everything else keeps its place."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _parse_tree(readable: str, sql: str, dialect: Dialect) -> exp.Expr:
    try:
        return parse_tree(readable, dialect)
    except TokenError as error:
        raise build_unclosed_error(sql) from error
    except ParseError as error:
        known = build_statement_error(sql)
        if known.hint != STATEMENTS:
            raise _find_query_error(readable, sql, dialect) or known from error
        raise build_syntax_error(error, readable, sql) from error


def _find_query_error(readable: str, sql: str, dialect: Dialect) -> SqlError | None:
    """Return what is wrong with the query of a CREATE … AS, or None if it can be read."""
    query = extract_query_text(readable, dialect)
    if not _TABLE_OR_VIEW.match(readable) or query == readable or find_clause_error(sql) is not None:
        return None
    alone = _mask_range(readable, 0, readable.rindex(query))
    try:
        tree = parse_tree(alone, dialect)
    except ParseError as error:
        return build_syntax_error(error, alone, sql)
    if isinstance(tree, exp.Query):
        return None
    word = query.split()[0].upper()
    return unsupported_error_at(f"AS {word} is not offered", sql, readable.rindex(query), "write AS SELECT …")


_CONSUMERS: Mapping[str, Literal["sink", "subscription"]] = {"sink": "sink", "subscription": "subscription"}
"""What takes changes out, by the word that a statement has for it."""


def _read_consumer(readable: str, sql: str, dialect: Dialect) -> Statement | None:
    pattern = rf"DROP\s+(SINK|SUBSCRIPTION)\s+(IF\s+EXISTS\s+)?({NAME})(\s+CASCADE)?"
    if found := re.fullmatch(pattern, readable.strip(), re.IGNORECASE):
        kind = _CONSUMERS[found[1].lower()]
        return Drop(kind, parse_name(found[3], dialect), bool(found[2]), bool(found[4]), sql)
    own = read_sink_statement(readable, sql, dialect)
    return own or read_subscription_statement(readable, sql, dialect)


def _read_explain(readable: str, sql: str, dialect: Dialect, values: Parameters | None) -> Explain | None:
    if re.match(r"\s*EXPLAIN\b", readable, re.IGNORECASE) is None:
        return None
    options = read_explain_options(readable, sql, dialect)
    explained = _mask_range(readable, 0, options.end)
    hint = "EXPLAIN [INCREMENTAL] SELECT …, or EXPLAIN [INCREMENTAL] CREATE MATERIALIZED VIEW …"
    start = len(explained) - len(explained.lstrip())
    wrong = unsupported_error_at("EXPLAIN takes a SELECT or a CREATE MATERIALIZED VIEW", sql, start, hint)
    if not re.match(r"\s*(SELECT|WITH|VALUES|FROM|TABLE|CREATE|INSERT|\()", explained, re.IGNORECASE):
        raise wrong
    inner = _parse_readable(explained, sql, dialect, values)
    match inner:
        case CreateMaterializedView():
            return Explain(inner, options.incremental, sql)
        case Select(query) | CreateView(query=query) | Insert(rows=exp.Query() as query):
            return Explain(query, options.incremental, sql)
        case CreateTable(as_query=exp.Query() as query) | CreateSink(query=exp.Query() as query):
            return Explain(query, options.incremental, sql)
    raise wrong
