"""WITH options in the text of a CREATE MATERIALIZED VIEW: written, replaced or taken out; all else stays as it was typed."""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlglot import Token, TokenType

from engine.sql.dialect import Dialect
from engine.sql.parsing.tokens import tokenize


def render_literal(text: str, dialect: Dialect) -> str:
    """Return a text as a literal of a dialect: in Spark's a backslash is one, elsewhere it stands for itself."""
    text = text.replace("\\", "\\\\") if dialect == "spark" else text
    return "'" + text.replace("'", "''") + "'"


def parse_list(text: str) -> tuple[str, ...]:
    """Return the names of a list that is an option of a Delta table.

    >>> parse_list("a, `b, c`")
    ('a', 'b, c')
    """
    found = re.findall(r"`((?:[^`]|``)+)`|([^,`]+)", text)
    return tuple(
        quoted.replace("``", "`") or plain.strip() for quoted, plain in found if quoted or plain.strip()
    )


def strip_replace(sql: str) -> str:
    """Return a CREATE OR REPLACE as the CREATE that it is where nothing of the name is there.

    >>> strip_replace("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1")
    'CREATE MATERIALIZED VIEW v AS SELECT 1'
    """
    return re.sub(r"^(\s*CREATE)\s+OR\s+REPLACE\b", r"\1", sql, count=1, flags=re.IGNORECASE)


def with_option(sql: str, dialect: Dialect, name: str, value: str | None) -> str:
    """Return a statement with an option in its WITH clause, None: without it.

    >>> with_option("CREATE MATERIALIZED VIEW v WITH (a = '1', b = '2') AS SELECT 1", "postgres", "a", None)
    "CREATE MATERIALIZED VIEW v WITH (b = '2') AS SELECT 1"
    """
    return _replace_options(
        sql, dialect, {name}, f"{name} = {render_literal(value, dialect)}" if value is not None else ""
    )


def strip_options(sql: str, dialect: Dialect, names: Collection[str]) -> str:
    """Return a statement without some options in its WITH clause.

    >>> strip_options("CREATE MATERIALIZED VIEW v WITH (a.x = '1', b = '2') AS SELECT 1", "spark", ["a.x", "c"])
    "CREATE MATERIALIZED VIEW v WITH (b = '2') AS SELECT 1"
    """
    return _replace_options(sql, dialect, names, "")


def _replace_options(sql: str, dialect: Dialect, gone: Collection[str], said: str) -> str:
    """Return a statement without some options, and with what is `said` before the others."""
    tokens = tokenize(sql, dialect)
    begin, body = _find_clause(tokens)
    if begin is None:
        at = tokens[body].start
        return f"{sql[:at]}WITH ({said}) {sql[at:]}" if said else sql
    items = _list_items(tokens, begin + 2)
    remaining = [
        sql[tokens[a].start : tokens[b].end + 1] for a, b in items if _read_name(tokens, a) not in gone
    ]
    end = tokens[items[-1][1] + 1]
    options = ", ".join([said, *remaining] if said else remaining)
    if not options:
        return sql[: tokens[begin].start] + sql[end.end + 1 :].lstrip()
    return f"{sql[: tokens[begin + 1].end + 1]}{options}{sql[end.start :]}"


def _find_clause(tokens: tuple[Token, ...]) -> tuple[int | None, int]:
    """Return which token is the WITH of the options, None if there is none, and which the AS before the query."""
    depth, begin = 0, None
    for at, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.text.upper() == "WITH" and tokens[at + 1].token_type == TokenType.L_PAREN:
            begin = at
        if depth == 0 and token.token_type == TokenType.ALIAS:
            return begin, at
    raise AssertionError(tokens)


def _read_name(tokens: tuple[Token, ...], at: int) -> str:
    """Return the name of the option that begins at a token; names may have dots."""
    end = at
    while tokens[end].token_type not in (TokenType.EQ, TokenType.COMMA, TokenType.R_PAREN):
        end += 1
    return "".join(token.text for token in tokens[at:end]).lower()


def _list_items(tokens: tuple[Token, ...], at: int) -> list[tuple[int, int]]:
    """Return the first and the last token of each option, from the first on to the parenthesis that ends them."""
    found, depth, begin = [], 1, at
    while depth:
        token = tokens[at]
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 or (depth == 1 and token.token_type == TokenType.COMMA):
            found.append((begin, at - 1))
            begin = at + 1
        at += 1
    return found
