"""Calls that sqlglot reads, but does not print again as they were: those stay calls by name, with the arguments in the text.

sqlglot translates the patterns of dates between dialects, and leaves arguments out: Spark's `to_char(n, '99')` comes out as
a cast, `parse_json(text)` as the text, and in all dialects `date_trunc(unit, d)` as if the column's name were the unit. Of
Spark's `datediff(SECOND, a, b)` in another dialect it takes b for the unit. Spark's
`log10(x)` is no quotient of logarithms, which is not 3 for 1000, `max(a, b)` is not the greater of two, and `any(x)` is an
aggregate. Of `corr(DISTINCT x, y)` it misses the second argument.
"""

from __future__ import annotations

import re

import sqlglot
import sqlglot.expressions as exp
from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from engine.sql.dialect import Dialect
from engine.sql.parsing.changelogs import rewrite_changelogs
from engine.sql.parsing.dialect_readers import (
    ADAPTED_PARSERS,
    attach_places,
    mark_lambdas,
    mark_names,
    mark_windows,
    resolve_dialect,
    rewrite_asof_joins,
    rewrite_moments,
    rewrite_session_frames,
)
from engine.sql.parsing.proctime import strip_broadcast
from engine.sql.parsing.wrapped_scalars import rewrite_wrapped_scalars

_NAMES = (
    "date_format",
    "date_trunc",
    "from_unixtime",
    "gap_fill",
    "log10",
    "log2",
    "max",
    "min",
    "parse_json",
    "percentile",
    "time_diff",
    "time_trunc",
    "to_char",
    "to_date",
    "to_timestamp",
    "to_unix_timestamp",
    "trunc",
    "try_to_timestamp",
    "unix_timestamp",
)
_OF_PAIRS = ("corr", "covar_", "regr_")
_NAMES_OF_POSTGRES = ("date_bin", "gap_fill", "make_time", "time_diff", "time_trunc", "to_char")
_UNIT_FIRST = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")
_UNITS = (
    *("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second"),
    *("millisecond", "microsecond"),
)
"""Spark's words for the first argument of calls that begin with a unit."""
_OF_UNITS = ("date_trunc", "date_part", "datepart")
_ONE_UNIT = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*[a-z]+\s*", re.IGNORECASE)
_UNIT_WORDS = ("year", "month", "day", "hour", "minute", "second")
_BEFORE_QUANTIFIER = ("like", "ilike", "rlike", "=", "<>", "!=", "<", "<=", ">", ">=")
_MARK = "exact:"


def parse_exactly(text: str, dialect: Dialect) -> exp.Expr:
    """Return sqlglot's tree of a text in which every call means what is written; raises what sqlglot raises."""
    reader = sqlglot.Dialect.get_or_raise(resolve_dialect(dialect))
    tokens = rewrite_asof_joins(
        mark_windows(rewrite_changelogs(attach_places(reader.tokenize(text))), dialect)
    )
    tokens = rewrite_session_frames(strip_broadcast(tokens, text))
    if dialect == "spark":
        tokens = mark_names(tokens)
    else:
        tokens = mark_lambdas(_rewrite_intervals(rewrite_moments(rewrite_wrapped_scalars(tokens))))
    calls = {n for n in range(len(tokens) - 2) if _is_inexact(tokens, n, dialect)}
    marked = [_mark_token(t) if n in calls else t for n, t in enumerate(tokens)]
    with ADAPTED_PARSERS.apply():
        trees = reader.parser().parse(marked, text)
        if not trees or trees[0] is None or len(trees) > 1:
            return sqlglot.parse_one(text, read=reader)  # which says what is wrong
    found = trees[0]
    for node in reversed(list(found.find_all(exp.Anonymous, bfs=False))):  # what stands in another first
        if node.name.startswith(_MARK):
            node.set("this", node.name.removeprefix(_MARK))
            sparks_own = dialect == "spark" or node.name.lower() in _UNIT_FIRST
            if sparks_own and (known := _convert_to_known(node)) is not None:
                found = known if node is found else found
                node.replace(known)
    return found


def _rewrite_intervals(tokens: list[Token]) -> list[Token]:
    """Return the tokens with `INTERVAL 'text'` as `'text'::INTERVAL` where sqlglot would read the text's first unit alone.

    It takes '1 month ago' for a month to come, and 'P1M' for a minute.
    """
    found: list[Token] = []
    for n, token in enumerate(tokens):
        if n and _is_whole_interval(tokens, n - 1):
            word = tokens[n - 1]
            cast = Token(TokenType.DCOLON, "::", token.line, token.col, token.start, token.end)
            found[-1:] = [token, cast, word]
        else:
            found.append(token)
    return found


def _is_whole_interval(tokens: list[Token], at: int) -> bool:
    """Whether an interval begins here whose text is more than a number and a unit, and whose unit does not follow."""
    word, text = tokens[at], tokens[at + 1]
    if word.token_type != TokenType.INTERVAL or text.token_type != TokenType.STRING:
        return False
    after = tokens[at + 2].text.lower() if at + 2 < len(tokens) else ""
    said = re.search(r"[a-z]|\d-\d", text.text, re.IGNORECASE) is not None
    return said and _ONE_UNIT.fullmatch(text.text) is None and after not in _UNIT_WORDS


def _is_inexact(tokens: list[Token], at: int, dialect: Dialect) -> bool:
    """Whether a call begins here that is to be read by its name."""
    word, kind = tokens[at].text.lower(), tokens[at].token_type
    if tokens[at + 1].token_type != TokenType.L_PAREN or kind in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    if word in _OF_UNITS and tokens[at + 2].token_type != TokenType.STRING:
        return True
    if dialect != "spark" and word in _UNIT_FIRST:
        return tokens[at + 2].text.lower() in _UNITS and tokens[at + 3].token_type == TokenType.COMMA
    if word.startswith(_OF_PAIRS) and tokens[at + 2].token_type == TokenType.DISTINCT:
        return True
    if word == "any":
        return dialect == "spark" and (at == 0 or tokens[at - 1].text.lower() not in _BEFORE_QUANTIFIER)
    return word in (_NAMES if dialect == "spark" else _NAMES_OF_POSTGRES)


def _mark_token(token: Token) -> Token:
    return Token(
        TokenType.VAR, _MARK + token.text, token.line, token.col, token.start, token.end, token.comments
    )


def _convert_to_known(call: exp.Anonymous) -> exp.Expr | None:
    """Return sqlglot's own node for a call if it is printed with all that the call says, else None."""
    parts = [
        arg.sql(dialect="spark") if isinstance(arg, exp.Literal) else f"_part_{n}"
        for n, arg in enumerate(call.expressions)
    ]
    name = call.name.lower()
    if name in _UNIT_FIRST and len(parts) == 3:
        parts[0] = call.expressions[0].name
    if name in ("any", "gap_fill", "parse_json") or (name in ("max", "min") and len(call.expressions) > 1):
        return None
    try:
        known = sqlglot.parse_one(f"{call.name}({', '.join(parts)})", read="spark")
    except ParseError:
        return None  # Spark says what is wrong with it
    if _collect_literals(known.sql(dialect="spark")) != _collect_literals(", ".join(parts)):
        return None
    for column in list(known.find_all(exp.Column)):
        if column.name in parts:
            column.replace(call.expressions[parts.index(column.name)])
    known.meta.update(call.meta)
    return known


def _collect_literals(text: str) -> list[str]:
    """Return the literals and the names of parts in a text, in any order."""
    tokens = sqlglot.tokenize(text, read="spark")
    kinds = (TokenType.STRING, TokenType.NUMBER)
    found = (t for t in tokens if t.token_type in kinds or t.text.startswith("_part_"))
    return sorted(f"{t.token_type == TokenType.STRING} {t.text.lower()}" for t in found)
