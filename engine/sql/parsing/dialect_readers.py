"""The dialects as sqlglot is to read them: Spark's with the quotes in a text that Spark itself knows since version 4, and with
words as names that begin a clause elsewhere.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.dialects.spark import Spark

from engine.process_change import ProcessChange
from engine.sql.dialect import Dialect

PLACE = "place "
_LAMBDA = TokenType.DOTCARET  # which means nothing in PostgreSQL
_LAMBDAS = "LAMBDAS"
_OF_LAMBDAS = frozenset(
    (
        "aggregate", "any_match", "array_sort", "exists", "filter", "forall", "map_filter", "map_zip_with", "reduce",
        "transform", "transform_keys", "transform_values", "zip_with",
    )
)  # fmt: skip
"""Functions of Spark's that take lambdas, whatever the dialect."""
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CLAUSES = ("fetch", "format", "glob", "limit", "lock", "offset", "values")
_AFTER_NAMES = (
    *(",", ")", ".", "=", "<>", "!=", "<", "<=", ">", ">=", "+", "*", "/", "%", "||", ";"),
    *("as", "from", "where", "group", "order", "having", "union", "is", "in", "not", "like", "between"),
    *("asc", "desc", "nulls", "and", "or", "then", "else", "end", "when", "join", "left", "on", "set"),
    *("group by", "order by"),
)
_TYPES = (
    *("tinyint", "smallint", "int", "integer", "bigint", "float", "double", "decimal", "numeric"),
    *("boolean", "string", "varchar", "char", "binary", "date", "timestamp", "timestamp_ntz"),
)


SESSION_FRAME = "SESSION"
"""The kind of the frame that SESSION WITH GAP is read as; its start is the gap."""
PARTITIONED = "session partitioned"
"""The name of a call of SESSION whose PARTITION BY is a part of its arguments: those between the relation and the time column."""


class SparkTexts(Spark):
    """Spark's dialect, in which a quote that occurs twice in a text is one: 'it''s' is it's.

    sqlglot takes it for two texts side by side, which it puts together without the quote.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012  # as sqlglot declares it
        RAW_STRINGS = [*Spark.Tokenizer.RAW_STRINGS, ("$$", "$$")]  # noqa: RUF012  # the body of a function, as on Databricks


_NUMBERED = "\ufdd0"
"""What stands for the sign of `$1` while a text is cut: a character that Unicode leaves out of all texts."""
_NUMBERED_SIGN = re.compile(r"(?<![\w$])\$(?=\d)")


class _NumberedParameters(sqlglot.Dialect):
    """A dialect of PostgreSQL's family in which `$` before a digit always begins a parameter.

    sqlglot takes `$1,$` of `($1,$2)` for the mark of a text in dollars, which cannot begin with a digit. INDEX_OFFSET is set
    to 0 in each: else it takes 1 from a number in brackets, but not from a column or a parameter, and from keys of maps, too.
    """

    def tokenize(
        self, sql: str, dialect: str | sqlglot.Dialect | type[sqlglot.Dialect] | None = None
    ) -> list[Token]:
        """Return the tokens of a text, with the places and the texts that they have in it."""
        marked = _NUMBERED_SIGN.sub(_NUMBERED, sql) if _NUMBERED not in sql else sql
        tokens = super().tokenize(marked, dialect)
        for token in tokens if marked is not sql else ():
            if _NUMBERED in token.text:
                token.text = token.text.replace(_NUMBERED, "$")
        return tokens


class PostgresTexts(Postgres, _NumberedParameters):
    """PostgreSQL's dialect as it is read here; sqlglot takes the parser of the first base."""

    INDEX_OFFSET = 0

    class Tokenizer(Postgres.Tokenizer):
        SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, _NUMBERED: TokenType.PARAMETER}  # noqa: RUF012


class RisingWaveTexts(RisingWave, _NumberedParameters):
    """RisingWave's dialect as it is read here."""

    INDEX_OFFSET = 0

    class Tokenizer(RisingWave.Tokenizer):
        SINGLE_TOKENS = {**RisingWave.Tokenizer.SINGLE_TOKENS, _NUMBERED: TokenType.PARAMETER}  # noqa: RUF012


_READERS: dict[Dialect, type[sqlglot.Dialect]] = {
    "spark": SparkTexts,
    "postgres": PostgresTexts,
    "risingwave": RisingWaveTexts,
}


def _adapt_parsers() -> Callable[[], None]:
    """Let sqlglot's parsers read what it has no settings for, and its log be quiet; return what undoes that.

    In PostgreSQL `f(j -> 'a')` is a call of f with a part of j, and no lambda. Classes of sqlglot's parsers are compiled: none
    can be derived. Of statements that it does not know it warns, which are read here, or refused with line and column.
    """
    log, parsers = logging.getLogger("sqlglot"), (Postgres.Parser, RisingWave.Parser)
    level, own = log.level, [vars(parser).get(_LAMBDAS) for parser in parsers]
    for parser in parsers:
        changed = {_LAMBDA if kind == TokenType.ARROW else kind: one for kind, one in parser.LAMBDAS.items()}
        setattr(parser, _LAMBDAS, changed)
    log.setLevel(logging.ERROR)

    def undo() -> None:
        log.setLevel(level)
        for parser, before in zip(parsers, own, strict=True):
            if before is None:  # it has those of its base
                delattr(parser, _LAMBDAS)
            else:
                setattr(parser, _LAMBDAS, before)

    return undo


ADAPTED_PARSERS = ProcessChange(_adapt_parsers)
"""What a call that parses a statement applies meanwhile."""


def resolve_dialect(dialect: Dialect) -> type[sqlglot.Dialect]:
    """Return what sqlglot reads a dialect by."""
    return _READERS[dialect]


def attach_places(tokens: list[Token]) -> list[Token]:
    """Return the tokens of a text in which each `?` knows its place, by a comment that the parser carries over.

    The trees of a LIMIT and of a WHERE are no guide to which of them stands first.
    """
    found: list[Token] = []
    for token in tokens:
        if token.text == "?::":  # read as one operator
            start = token.start
            mark = Token(TokenType.PLACEHOLDER, "?", token.line, token.col - 2, start, start)
            token = Token(TokenType.DCOLON, "::", token.line, token.col, start + 1, token.end)
            found.append(mark)
        found.append(token)
    for token in found:
        if token.token_type == TokenType.PLACEHOLDER:
            token.comments.insert(0, f"{PLACE}{token.start}")
    return found


def mark_lambdas(tokens: list[Token]) -> list[Token]:
    """Return the tokens of a text of PostgreSQL's in which `->` begins a lambda where Spark's functions take one."""
    found: list[Token] = []
    calls: list[str] = []
    for n, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            before = tokens[n - 1] if n else token
            inner = before.token_type in (TokenType.COMMA, TokenType.L_PAREN)  # (a, b) -> …
            calls.append(calls[-1] if inner and calls else before.text.lower())
        elif token.token_type == TokenType.R_PAREN and calls:
            calls.pop()
        elif token.token_type == TokenType.ARROW and calls and calls[-1] in _OF_LAMBDAS:
            token = Token(_LAMBDA, token.text, token.line, token.col, token.start, token.end, token.comments)
        found.append(token)
    return found


def mark_names(tokens: list[Token]) -> list[Token]:
    """Return the tokens of a text of Spark's in which a word that begins a clause is a name where no clause can follow it."""
    return [_make_name(token) if _is_name(tokens, at) else token for at, token in enumerate(tokens)]


def mark_windows(tokens: list[Token], dialect: Dialect) -> list[Token]:
    """Return the tokens in which `SESSION (` and, in Spark's dialect, `window (` begin calls.

    `SESSION(bid PARTITION BY a, b, ts, gap)` is a call of PARTITIONED with the columns among its arguments.
    """
    found = list(tokens)
    for at, token in enumerate(tokens[:-1]):
        word = token.text.lower()
        if tokens[at + 1].token_type != TokenType.L_PAREN or token.token_type in _QUOTED:
            continue
        if word == "window" and dialect == "spark":
            found[at] = _make_name(token)
        elif word == "session":
            by = _find_partition(tokens, at + 1)
            found[at] = _make_name(token) if by is None else _make_name(token, PARTITIONED)
            if by is not None:
                found[by] = _make_comma(tokens[by])
    return found


def rewrite_session_frames(tokens: list[Token]) -> list[Token]:
    """Return the tokens in which `SESSION WITH GAP x` of a window is `SESSION x`, the word a kind of frame as ROWS is."""
    found: list[Token] = []
    for token in tokens:
        found.append(token)
        last = found[-3:]
        if token.text.upper() != "GAP" or any(part.token_type in _QUOTED for part in last):
            continue
        if [part.text.upper() for part in last[:2]] == [SESSION_FRAME, "WITH"]:
            word = last[0]
            found[-3:] = [
                Token(TokenType.ROWS, SESSION_FRAME, word.line, word.col, word.start, word.end, word.comments)
            ]
    return found


def rewrite_moments(tokens: list[Token]) -> list[Token]:
    """Return the tokens in which `AS OF now() - '5' second` says INTERVAL before its text, as RisingWave need not."""
    found: list[Token] = []
    for at, token in enumerate(tokens):
        before = tuple(part.text.lower() for part in tokens[max(at - 5, 0) : at])
        if token.token_type == TokenType.STRING and before == ("of", "now", "(", ")", "-"):
            found.append(
                Token(TokenType.INTERVAL, "INTERVAL", token.line, token.col, token.start, token.start)
            )
        found.append(token)
    return found


def rewrite_asof_joins(tokens: list[Token]) -> list[Token]:
    """Return the tokens of as-of joins as sqlglot reads them: LEFT ASOF JOIN as ASOF LEFT JOIN, MATCH_CONDITION as a word
    that no table is called by.
    """
    found: list[Token] = []
    for at, token in enumerate(tokens):
        word = token.text.upper() if token.token_type not in _QUOTED else ""
        if word == "ASOF" and found and at + 1 < len(tokens) and tokens[at + 1].text.upper() == "JOIN":
            side = len(found)
            while side and found[side - 1].token_type in (TokenType.LEFT, TokenType.INNER, TokenType.OUTER):
                side -= 1
            found.insert(side, token)
        elif word == "MATCH_CONDITION" and at + 1 < len(tokens) and tokens[at + 1].text == "(":
            kind = TokenType.MATCH_CONDITION
            found.append(Token(kind, token.text, token.line, token.col, token.start, token.end))
        else:
            found.append(token)
    return found


def _find_partition(tokens: list[Token], at: int) -> int | None:
    """Return where PARTITION BY stands in the parentheses that open at a token, and in none inside them."""
    depth = 0
    for place in range(at, len(tokens)):
        kind = tokens[place].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            return None
        if depth == 1 and kind == TokenType.PARTITION_BY:
            return place
    return None


def _is_name(tokens: list[Token], at: int) -> bool:
    if tokens[at].text.lower() not in _CLAUSES or tokens[at].token_type in _QUOTED:
        return False
    word = tokens[at].text.lower()
    if at + 1 == len(tokens) or word == "glob":  # which is another system's operator
        return True
    after = tokens[at + 1].text.lower()
    return after in _AFTER_NAMES or (after in _TYPES and word != "values")


def _make_name(token: Token, name: str | None = None) -> Token:
    text = name or token.text
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end, token.comments)


def _make_comma(token: Token) -> Token:
    return Token(TokenType.COMMA, ",", token.line, token.col, token.start, token.end)
