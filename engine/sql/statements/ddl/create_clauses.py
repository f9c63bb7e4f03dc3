"""Clauses of CREATE that are read from the tokens; the parser sees blanks instead.

They are APPEND ONLY, ON CONFLICT, WATERMARK FOR, WITH (…), STORED and EMIT ON WINDOW CLOSE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import Token, TokenType

from engine.sql.catalog import ConflictPolicy
from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.parsing.tokens import tokenize
from engine.sql.statements.ddl.watermark_clause import WatermarkClause, read_watermark_clause

_ACTIONS: dict[tuple[str, ...], ConflictPolicy] = {
    ("OVERWRITE",): "overwrite",
    ("IGNORE",): "ignore",
    ("DO", "NOTHING"): "ignore",
    ("DO", "UPDATE", "FULL"): "overwrite",
    ("DO", "UPDATE", "IF", "NOT", "NULL"): "update if not null",
}

_EMIT = ("EMIT", "ON", "WINDOW", "CLOSE")


@dataclass
class Clauses:
    """What a CREATE says outside of the parser's grammar; `places` are the characters at which options stand."""

    readable: str
    append_only: bool = False
    on_conflict: ConflictPolicy | Literal[""] = ""
    version_columns: tuple[str, ...] = ()
    version_places: tuple[int, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    watermark: WatermarkClause | None = None
    source_text: str = ""
    on_window_close: bool = False


def read_clauses(readable: str, sql: str, dialect: Dialect) -> Clauses:
    """Return the clauses of a CREATE TABLE or CREATE VIEW; raises UnsupportedSql with the place for a wrong one."""
    tokens = tokenize(readable, dialect)
    found = Clauses(readable, source_text=readable)
    depth = n = 0
    while n < len(tokens):
        token, word = tokens[n], tokens[n].text.upper()
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        length = 0
        if depth == 0 and token.token_type == TokenType.ALIAS:
            _strip_emit_on_close(tokens[n:], sql, found)
            break  # what follows is the query
        if depth == 1 and word == "STORED" and tokens[n - 1].token_type == TokenType.R_PAREN:
            length = 1
        elif depth == 1 and _list_words(tokens[n : n + 2]) == ("WATERMARK", "FOR"):
            length = _read_watermark(tokens, n, readable, sql, found)
        elif depth == 0 and _list_words(tokens[n : n + 2]) == ("APPEND", "ONLY"):
            found.append_only, length = True, 2
        elif depth == 0 and _list_words(tokens[n : n + 4]) == _EMIT:
            _read_emit_on_close(token, sql, found)
            length = 4
        elif depth == 0 and _list_words(tokens[n : n + 2]) == ("ON", "CONFLICT"):
            found.on_conflict, length = _read_on_conflict(tokens[n:], sql)
            names = _read_version_columns(tokens[n + length :], readable, sql)
            found.version_columns = tuple(name for name, _ in names)
            found.version_places = tuple(start for _, start in names)
            length += 3 + 2 * len(names) + 1 if names else 0
        elif depth == 0 and token.token_type == TokenType.WITH and _is_kind(tokens, n + 1, TokenType.L_PAREN):
            length = _read_options(tokens[n:], sql, found)
        if length:
            start, end = token.start, tokens[n + length - 1].end + 1
            found.readable = found.readable[:start] + make_blanks(readable[start:end]) + found.readable[end:]
        n += max(length, 1)
    return found


def check_source(clauses: Clauses, sql: str, start: int) -> None:
    """Raise UnsupportedSql for clauses that a CREATE SOURCE, whose rows are not kept, cannot have."""
    if "connector" not in clauses.options:
        hint = "WITH (connector = 'nexmark', …) or WITH (connector = 'delta', …); CREATE TABLE takes rows by INSERT"
        raise unsupported_error_at("a source needs a connector", sql, start, hint)
    said = {
        "ON CONFLICT": clauses.on_conflict,
        "WATERMARK FOR": clauses.watermark,
        "APPEND ONLY": clauses.append_only,
    }
    for clause in (name for name, stated in said.items() if stated):
        hint = "leave it out, or CREATE TABLE … WITH (connector = …), which keeps the rows"
        raise unsupported_error_at(
            f"{clause} is no clause of a source, whose rows are read where they are", sql, start, hint
        )


def _read_watermark(tokens: Sequence[Token], n: int, readable: str, sql: str, found: Clauses) -> int:
    """Note a WATERMARK FOR, take the comma before or behind it out, and return how many tokens it has."""
    if found.watermark is not None:
        hint = "a table has one watermark: that of the column by which its rows come in order"
        raise unsupported_error_at("WATERMARK FOR occurs twice", sql, tokens[n].start, hint)
    found.watermark, length = read_watermark_clause(tokens[n:], readable, sql)
    before, behind = tokens[n - 1], tokens[min(n + length, len(tokens) - 1)]
    comma = before if before.token_type == TokenType.COMMA else behind
    if comma.token_type == TokenType.COMMA:
        found.readable = found.readable[: comma.start] + " " + found.readable[comma.end + 1 :]
    return length


def _read_emit_on_close(token: Token, sql: str, found: Clauses) -> None:
    """Note EMIT ON WINDOW CLOSE, which stands before AS or ends the query."""
    if found.on_window_close:
        hint = "write it once: before AS, or behind the query"
        raise unsupported_error_at("EMIT ON WINDOW CLOSE occurs twice", sql, token.start, hint)
    found.on_window_close = True


def _strip_emit_on_close(tokens: Sequence[Token], sql: str, found: Clauses) -> None:
    """Take EMIT ON WINDOW CLOSE, which may end a query, out of the text."""
    last = tokens[-4:]
    if _list_words(last) == _EMIT:
        _read_emit_on_close(last[0], sql, found)
        start, end = last[0].start, last[-1].end + 1
        found.readable = (
            found.readable[:start] + make_blanks(found.readable[start:end]) + found.readable[end:]
        )


def make_blanks(text: str) -> str:
    """Return as many blanks as the text has characters; lines stay lines."""
    return re.sub(r"[^\n]", " ", text)


def _list_words(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.text.upper() for token in tokens)


def _is_kind(tokens: Sequence[Token], n: int, kind: TokenType) -> bool:
    return n < len(tokens) and tokens[n].token_type == kind


def _read_on_conflict(tokens: Sequence[Token], sql: str) -> tuple[ConflictPolicy, int]:
    for words, meaning in _ACTIONS.items():
        if _list_words(tokens[2 : 2 + len(words)]) == words:
            return meaning, 2 + len(words)
    hint = "ON CONFLICT OVERWRITE, IGNORE or DO UPDATE IF NOT NULL"
    raise unsupported_error_at("this ON CONFLICT of a table is not offered", sql, tokens[0].start, hint)


def _read_version_columns(tokens: Sequence[Token], readable: str, sql: str) -> list[tuple[str, int]]:
    """Read WITH VERSION COLUMN (a, b), and return the names with their places."""
    if _list_words(tokens[:3]) != ("WITH", "VERSION", "COLUMN"):
        return []
    hint = "ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (column, …)"
    names: list[tuple[str, int]] = []
    n = 3
    while n + 1 < len(tokens) and tokens[n].text == ("," if names else "("):
        token = tokens[n + 1]
        quoted = readable[token.start] in '"`'
        names.append((token.text if quoted else token.text.lower(), token.start))
        if not quoted and re.fullmatch(r"[^\W\d]\w*", token.text) is None:
            raise unsupported_error_at("the name of a column is missing", sql, token.start, hint)
        n += 2
    if not names or not _is_kind(tokens, n, TokenType.R_PAREN):
        raise unsupported_error_at(
            "WITH VERSION COLUMN needs columns in parentheses", sql, tokens[0].start, hint
        )
    return names


def _names_secret(tokens: Sequence[Token]) -> bool:
    """Tell whether a value is the word SECRET with a name, as a text or without quotes."""
    ends = (TokenType.COMMA, TokenType.R_PAREN)
    return (
        len(tokens) == 3
        and tokens[0].token_type == TokenType.VAR
        and tokens[0].text.upper() == "SECRET"
        and tokens[1].token_type in (TokenType.STRING, TokenType.VAR)
        and tokens[2].token_type in ends
    )


def _read_options(tokens: Sequence[Token], sql: str, found: Clauses) -> int:
    """Read WITH ( name = value, … ) and return how many tokens it has."""
    hint = "options are WITH (name = 'value', …)"
    n = 2
    while True:
        first = tokens[min(n, len(tokens) - 1)]
        name = ""
        while n < len(tokens) and tokens[n].token_type not in (
            TokenType.EQ,
            TokenType.COMMA,
            TokenType.R_PAREN,
        ):
            name += tokens[n].text
            n += 1
        if not _is_kind(tokens, n, TokenType.EQ) or not name:
            raise unsupported_error_at("an option needs a name and a value", sql, first.start, hint)
        value, depth = "", 0
        n += 1
        if _names_secret(tokens[n : n + 3]):  # password = secret 'NAME' is password_variable = 'NAME'
            name, n = f"{name}_variable", n + 1
        while n < len(tokens) and (depth or tokens[n].token_type not in (TokenType.COMMA, TokenType.R_PAREN)):
            depth += (tokens[n].token_type == TokenType.L_PAREN) - (tokens[n].token_type == TokenType.R_PAREN)
            value += tokens[n].text
            n += 1
        if n >= len(tokens):
            raise unsupported_error_at("the parenthesis of WITH is not closed", sql, tokens[1].start, hint)
        name = name.lower()
        if name in found.options:
            raise unsupported_error_at(f"option {name} occurs twice", sql, first.start, "write it once")
        found.options[name], found.places[name] = value, first.start
        n += 1
        if tokens[n - 1].token_type == TokenType.R_PAREN:
            return n
