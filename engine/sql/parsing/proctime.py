"""FOR SYSTEM_TIME AS OF PROCTIME(): the right side of a join as it stood when a row of the left side came."""

from __future__ import annotations

from itertools import pairwise

import sqlglot.expressions as exp
from sqlglot import Token, TokenType

from engine.sql.parsing.statement_errors import unsupported_error_at

_HINT = "BROADCAST"
_OF_JOINS = (TokenType.LEFT, TokenType.INNER, TokenType.RIGHT, TokenType.FULL, TokenType.OUTER)
_MOMENT = ("FOR", "SYSTEM_TIME", "AS", "OF", "PROCTIME")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def strip_broadcast(tokens: list[Token], sql: str) -> list[Token]:
    """Return the tokens without the hint of `BROADCAST [LEFT] JOIN t FOR SYSTEM_TIME AS OF PROCTIME()`.

    How a right side is found is chosen by its size. Where a name `broadcast` is meant, it stays. Raises UnsupportedSql, with the
    place, for the hint before another join.
    """
    named = _is_relation_name(tokens)
    found: list[Token] = []
    for at, token in enumerate(tokens):
        join = _find_join(tokens, at) if not named else None
        if join is None:
            found.append(token)
        elif not _is_temporal(tokens, join):
            hint = "leave it out, or join a table as it is: BROADCAST JOIN t FOR SYSTEM_TIME AS OF PROCTIME() ON …"
            raise unsupported_error_at("BROADCAST before a join that is not temporal", sql, token.start, hint)
    return found


def _is_relation_name(tokens: list[Token]) -> bool:
    """Tell whether a relation of the text goes by the name that the hint has."""
    words = [token.text.upper() for token in tokens]
    return any(pair in (("AS", _HINT), (_HINT, ".")) for pair in pairwise(words))


def _find_join(tokens: list[Token], at: int) -> int | None:
    """Return where the JOIN stands before which a token is the hint, or None."""
    before = tokens[at - 1].token_type if at else TokenType.COMMA
    if tokens[at].token_type != TokenType.VAR or tokens[at].text.upper() != _HINT:
        return None
    if before not in (*_NAMES, TokenType.R_PAREN):
        return None
    at += 1
    while at < len(tokens) and tokens[at].token_type in _OF_JOINS:
        at += 1
    return at if at < len(tokens) and tokens[at].token_type == TokenType.JOIN else None


def _is_temporal(tokens: list[Token], join: int) -> bool:
    """Tell whether what is joined is a name and the time of processing."""
    at = join + 1
    while at < len(tokens) and tokens[at].token_type in (*_NAMES, TokenType.DOT):
        at += 1
    words = [word for token in tokens[at : at + len(_MOMENT)] for word in token.text.upper().split()]
    return tuple(words[: len(_MOMENT)]) == _MOMENT


def is_at_proctime(item: exp.Expr) -> bool:
    """Tell whether an item of FROM is read as of the time of processing."""
    version = item.args.get("version") if isinstance(item, exp.Table) else None
    if not isinstance(version, exp.Version) or str(version.args.get("kind")).upper() != "AS OF":
        return False
    return is_proctime(version.expression)


def is_proctime(node: exp.Expr | None) -> bool:
    """Tell whether an expression is PROCTIME()."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME" and not node.expressions


def strip_moment(item: exp.Expr) -> exp.Expr:
    """Return an item of FROM without the moment at which it is read."""
    plain = item.copy()
    plain.set("version", None)
    return plain


def resolve_proctime(query: exp.Expr) -> exp.Expr:
    """Return a query that is answered once: for it what is read as of the time of processing is read as it is now."""
    now = query.copy()
    for table in now.find_all(exp.Table):
        if is_at_proctime(table):
            table.set("version", None)
    return now
