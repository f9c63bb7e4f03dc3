"""Errors for statements that cannot be read, or are read but not offered: what, where, and what to write instead."""

from __future__ import annotations

import difflib
import re

import sqlglot.expressions as exp
from sqlglot.errors import ParseError

from engine.errors import SqlError, UnsupportedSql
from engine.sql.parsing.location import locate

_NOT_OFFERED = (
    (
        r"\bWATERMARK\s+FOR\b",
        "this WATERMARK FOR",
        "it belongs to the column list: CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 minutes') APPEND ONLY",
    ),
    (
        r"\bEMIT\s+ON\s+WINDOW\s+CLOSE\b",
        "this EMIT ON WINDOW CLOSE",
        "it ends the query of a view: CREATE MATERIALIZED VIEW v AS SELECT … EMIT ON WINDOW CLOSE",
    ),
    (r"\bMERGE\b", "MERGE", 'Session.write(…, mode="upsert") merges rows by their key'),
)
_FORMS = (
    (r"\s*(CREATE)\s+MATERIALIZED\b", "CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [WITH (…)] AS SELECT …"),
    (
        r"\s*(CREATE)\s+TABLE\b",
        "CREATE TABLE [IF NOT EXISTS] name (column TYPE …) [APPEND ONLY] [ON CONFLICT …] [WITH (…)]",
    ),
    (r"\s*(CREATE)\s+VIEW\b", "CREATE VIEW [IF NOT EXISTS] name AS SELECT …"),
    (r"\s*(CREATE)\s+INDEX\b", "CREATE INDEX [IF NOT EXISTS] name ON table (column, …)"),
    (
        r"\s*(CREATE)\s+(?:OR\s+REPLACE\s+)?FUNCTION\b",
        "CREATE FUNCTION name(a INT, …) RETURNS TYPE LANGUAGE SQL AS 'SELECT …', or LANGUAGE python [DETERMINISTIC] AS $$ … $$",
    ),
    (
        r"\s*(CREATE)\s+(?:OR\s+REPLACE\s+)?AGGREGATE\b",
        "CREATE AGGREGATE name(a INT, …) RETURNS TYPE LANGUAGE python [DETERMINISTIC] AS $$ … $$",
    ),
    (r"\s*(SET)\b", "SET name = value"),
)
STATEMENTS = (
    "statements are CREATE TABLE, CREATE [MATERIALIZED] VIEW, CREATE INDEX, CREATE FUNCTION, CREATE SINK, "
    "CREATE SUBSCRIPTION, ALTER, COMMENT ON, DROP, INSERT, UPDATE, DELETE, TRUNCATE, FLUSH, SELECT, EXPLAIN [INCREMENTAL], SHOW, "
    "DESCRIBE, DECLARE, FETCH, CLOSE and SET"
)
_FIRST_WORDS = (
    *(
        "CREATE",
        "DROP",
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "FLUSH",
        "SELECT",
        "WITH",
        "EXPLAIN",
        "SHOW",
        "DESCRIBE",
        "DESC",
    ),
    *("SET", "VALUES", "FROM", "TABLE", "ALTER", "COMMENT"),
)

_CLAUSE_WORDS = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "VALUES", "USING")


def build_statement_error(sql: str) -> UnsupportedSql:
    """Return the error for a statement, or a clause in it, that is known but not offered."""
    clause = find_clause_error(sql)
    if clause is not None:
        return clause
    plain = mask_literals(sql)
    for pattern, form in _FORMS:
        if found := re.match(pattern, plain, re.IGNORECASE):
            return unsupported_error_at(
                f"this form of {form.split(' [')[0].split(' name')[0]} is not offered",
                sql,
                found.start(1),
                form,
            )
    first = re.search(r"\w+|\S", plain)
    word, start = (first[0].upper(), first.start()) if first else ("", 0)
    if word == "CREATE":
        word = " ".join(plain[start:].split()[:2]).upper()
    return unsupported_error_at(f"{word} is not offered", sql, start, STATEMENTS)


def find_clause_error(sql: str) -> UnsupportedSql | None:
    """Return the error for a clause that is known but not offered, or None if there is none."""
    for pattern, name, hint in _NOT_OFFERED:
        if found := re.search(pattern, mask_literals(sql), re.IGNORECASE):
            return unsupported_error_at(f"{name} is not offered", sql, found.start(), hint)
    return None


def mask_literals(sql: str) -> str:
    """Return a text with blanks for its comments and strings, so that what is left keeps its place."""
    return re.sub(
        r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", lambda found: " " * len(found[0]), sql, flags=re.DOTALL
    )


def unsupported_error_at(message: str, sql: str, start: int, hint: str) -> UnsupportedSql:
    """Return the error for something not offered that starts at the character `start`."""
    line, column = locate_character(sql, start)
    return UnsupportedSql(message, sql=sql, line=line, column=column, hint=hint)


def locate_character(text: str, start: int) -> tuple[int, int]:
    """Return line and column, both from 1, of a character of a text."""
    before = text[:start]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def find_offset(text: str, line: int, column: int) -> int:
    """Return the character of a text at a line and column."""
    return sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column - 1


def build_syntax_error(error: ParseError, readable: str, sql: str) -> SqlError:
    """Return the error for a text that does not parse; `readable` is `sql` as the parser was given it."""
    first = error.errors[0] if error.errors else {}
    near = str(first.get("highlight") or "")
    line, column = int(first.get("line") or 1), max(1, int(first.get("col") or 1) - max(len(near), 1) + 1)
    word = next(iter(readable.split()), "")
    if word.upper() not in _FIRST_WORDS and re.fullmatch(r"\w+", word):
        guess = difflib.get_close_matches(word.upper(), _FIRST_WORDS, 1)
        hint = f"did you mean {guess[0]}?" if guess else STATEMENTS
        at = locate_character(readable, len(readable) - len(readable.lstrip()))
        return SqlError(f"{word} is no statement", sql=sql, line=at[0], column=at[1], hint=hint)
    said, _, got = str(first.get("description") or error).partition(" but got ")
    start = find_offset(readable, line, column)
    if "Unexpected token" in said:
        said = "this is not expected here"
    else:
        said = "an expression is missing" if "Required keyword" in said else said[:1].lower() + said[1:]
        if "SENTINEL" in got or not readable[start + len(near) :].strip():
            said = f"it ends too early: {said}"
    guess_at = _find_misplaced(readable[:start], readable[start:]) or _suggest_word(readable[:start])
    hint = guess_at or (f'look before and after "{near}"' if near else "finish it")
    return SqlError(f"the statement cannot be parsed: {said}", sql=sql, line=line, column=column, hint=hint)


_MISPLACED = (
    (
        r"\bEMIT\s*$",
        "ON",
        "a view's query may end with EMIT ON WINDOW CLOSE; without it the view shows every change",
    ),
    (
        "$",
        "FOR SYSTEM_TIME",
        "it follows a table's name: JOIN t FOR SYSTEM_TIME AS OF PROCTIME() AS a ON …",
    ),
    (
        r"\(\s*GROUPS\s*$",
        "",
        "GROUPS counts groups of rows that are level in an order: write ORDER BY before it",
    ),
)
"""What stands before the place at which the parser stops, how the rest begins, and what to write."""


def _find_misplaced(before: str, rest: str) -> str | None:
    """Return how a clause is written that the parser knows in other places only."""
    begins = " ".join(rest.split()).upper()
    found = (
        hint for first, then, hint in _MISPLACED if re.search(first, before, re.I) and begins.startswith(then)
    )
    return next(found, None)


def _suggest_word(before: str) -> str | None:
    """Return a guess at what the last word of a text, after which the parser stopped, should have been."""
    words = re.findall(r"\w+", before)
    last = words[-1].upper() if words else ""
    if last in ("GROUP", "ORDER", "PARTITION"):
        return f"write {last} BY"
    guess = difflib.get_close_matches(last, _CLAUSE_WORDS, 1, 0.7) if last not in _CLAUSE_WORDS else []
    return f"did you mean {guess[0]} instead of {words[-1]}?" if guess else None


def build_unclosed_error(text: str) -> SqlError:
    """Return the error for a text that ends inside a string, a quoted name or a comment."""
    rest = re.sub(
        r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`",
        lambda m: " " * len(m[0]),
        text,
        flags=re.DOTALL,
    )
    found = re.search(r"['\"`]|/\*", rest)
    start = found.start() if found else 0
    what = {"'": "a string", '"': "a string or name", "`": "a name", "/*": "a comment"}[
        found[0] if found else "'"
    ]
    line, column = locate_character(text, start)
    return SqlError(f"{what} is not closed", sql=text, line=line, column=column, hint="close it")


def unsupported_error(message: str, node: exp.Expr | None, sql: str, hint: str) -> UnsupportedSql:
    """Return the error for something that is understood but not offered, at `node` or at the statement's first word."""
    line, column = _locate(node, sql)
    return UnsupportedSql(message, sql=sql, line=line, column=column, hint=hint)


def sql_error(message: str, node: exp.Expr | None, sql: str, hint: str) -> SqlError:
    """Return the error for something that is wrong, at `node` or at the statement's first word."""
    line, column = _locate(node, sql)
    return SqlError(message, sql=sql, line=line, column=column, hint=hint)


def find_first_word(sql: str) -> int:
    """Return where the statement starts, behind spaces and comments."""
    found = re.match(r"(\s|--[^\n]*|/\*.*?\*/)*", sql, re.DOTALL)
    return found.end() if found else 0


def _locate(node: exp.Expr | None, sql: str) -> tuple[int, int]:
    return locate(node, sql) if node is not None else locate_character(sql, find_first_word(sql))
