"""The statement that made a relation as RisingWave shows it: on one line, words of SQL in capitals, types by their long names.

>>> render_statement("create table t (k int primary key,\\n  v varchar, watermark for ts as ts - 10 with ttl);", "risingwave")
'CREATE TABLE t (k INT PRIMARY KEY, v CHARACTER VARYING, WATERMARK FOR ts AS ts - 10 WITH TTL)'
"""

from __future__ import annotations

from sqlglot import Token, TokenType

from engine.sql.dialect import Dialect
from engine.sql.parsing.tokens import tokenize

_TYPES = {
    "VARCHAR": "CHARACTER VARYING",
    "INTEGER": "INT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "BOOL": "BOOLEAN",
}
_NO_WORDS = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
_PAIRS = {
    ("CREATE", "SINK"),
    ("CREATE", "SUBSCRIPTION"),
    ("CREATE", "SOURCE"),
    ("MATERIALIZED", "VIEW"),
    ("WATERMARK", "FOR"),
    ("WITH", "TTL"),
    ("APPEND", "ONLY"),
    ("EMIT", "ON"),
    ("WINDOW", "CLOSE"),
    ("ON", "CONFLICT"),
}
"""Words of SQL that may be names as well: they are none beside each other."""


def render_statement(sql: str, dialect: Dialect) -> str:
    """Return a statement as RisingWave shows it; names and literals stay as they were written."""
    tokens = [token for token in tokenize(sql, dialect) if token.token_type != TokenType.SEMICOLON]
    text = ""
    for n, token in enumerate(tokens):
        before = tokens[n - 1] if n else None
        after = tokens[n + 1] if n + 1 < len(tokens) else None
        text += _render_gap(sql, before, token) + _render_word(sql, before, token, after)
    return text


def _render_gap(sql: str, before: Token | None, token: Token) -> str:
    if before is None or before.text == "(" or token.text in (")", ","):
        return ""
    return " " if before.text == "," or token.start > before.end + 1 else ""


def _render_word(sql: str, before: Token | None, token: Token, after: Token | None) -> str:
    text = sql[token.start : token.end + 1]
    word = token.text.upper()
    paired = (before is not None and (before.text.upper(), word) in _PAIRS) or (
        after is not None and (word, after.text.upper()) in _PAIRS
    )
    if token.token_type in _NO_WORDS and not (paired and token.token_type == TokenType.VAR):
        return text
    return _TYPES.get(word, word) if text.upper() == word else text
