"""WITH x AS CHANGELOG FROM t: the changes of a table as rows, written as a query over a call that stands for them."""

from __future__ import annotations

import sqlglot.expressions as exp
from sqlglot import Token, TokenType

_CALL = "changelog"
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def rewrite_changelogs(tokens: list[Token]) -> list[Token]:
    """Return the tokens with `AS CHANGELOG FROM t` as `AS (SELECT * FROM changelog(t))`, each where the word stood."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        end = _find_end(tokens, at)
        if end is None:
            found.append(tokens[at])
            at += 1
            continue
        word, name = tokens[at], tokens[at + 2 : end]
        before = [
            (TokenType.L_PAREN, "("),
            (TokenType.SELECT, "SELECT"),
            (TokenType.STAR, "*"),
            (TokenType.FROM, "FROM"),
            (TokenType.VAR, _CALL),
            (TokenType.L_PAREN, "("),
        ]
        found += [_make_token(word, *token) for token in before]
        found += name
        found += [_make_token(name[-1], TokenType.R_PAREN, ")") for _ in range(2)]
        at = end
    return found


def find_changelog(query: exp.Expr | None) -> exp.Table | None:
    """Return the table whose changes a WITH item is, or None if it is another query."""
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    item = source.this if source is not None else None
    call = item.this if isinstance(item, exp.Table) else None
    if not isinstance(call, exp.Anonymous) or not is_changelog(call):
        return None
    named = call.expressions[0] if call.expressions else None
    return named if isinstance(named, exp.Table) else None


def is_changelog(node: exp.Expr | None) -> bool:
    """Tell whether an item of FROM stands for the changes of a table."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == _CALL


def _find_end(tokens: list[Token], at: int) -> int | None:
    """Return where the name ends in `AS CHANGELOG FROM name`, of which CHANGELOG stands at a token, or None."""
    words = [token.text.upper() for token in tokens[at - 1 : at + 2]] if at else []
    if words != ["AS", "CHANGELOG", "FROM"] or tokens[at].token_type == TokenType.IDENTIFIER:
        return None
    end = at + 2
    while end < len(tokens) and tokens[end].token_type not in (TokenType.SELECT, TokenType.COMMA):
        if (
            tokens[end].token_type != TokenType.DOT
            and end > at + 2
            and tokens[end - 1].token_type != TokenType.DOT
        ):
            break
        end += 1
    return end if end > at + 2 else None


def _make_token(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)
