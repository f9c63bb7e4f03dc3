"""The tokens of a text: a statement is looked at several times before it is parsed, and cut into tokens once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import sqlglot
from sqlglot import Token, TokenType

from engine.sql.dialect import Dialect
from engine.sql.parsing.dialect_readers import resolve_dialect

CACHED_CHARACTERS = 1 << 18
"""The tokens of longer texts are not kept: they would hold more memory than cutting them again costs time."""


def tokenize(text: str, dialect: Dialect) -> tuple[Token, ...]:
    """Return the tokens of a text, which nobody changes; raises sqlglot's TokenError."""
    return _tokenize_cached(text, dialect) if len(text) <= CACHED_CHARACTERS else _tokenize(text, dialect)


def _tokenize(text: str, dialect: Dialect) -> tuple[Token, ...]:
    return tuple(sqlglot.tokenize(text, read=resolve_dialect(dialect)))


_tokenize_cached = lru_cache(maxsize=2)(_tokenize)


def find_name_end(tokens: Sequence[Token], at: int) -> int:
    """Return the token that ends the name of a relation which begins at one: that after the dot, if there is one."""
    dotted = at + 2 < len(tokens) and tokens[at + 1].token_type == TokenType.DOT
    return at + 2 if dotted else at
