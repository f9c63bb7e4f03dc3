"""`aggregate:f(x ORDER BY y)` of RisingWave: a function of an array, called with the values of a group."""

from __future__ import annotations

from sqlglot import Token, TokenType

_WORD = "aggregate"


def rewrite_wrapped_scalars(tokens: list[Token]) -> list[Token]:
    """Return the tokens in which `aggregate:f(x) FILTER (…)` is `f(array_agg(x) FILTER (…))`."""
    found: list[Token] = []
    ends: list[int] = []  # of the calls under way, the innermost last
    at = 0
    while at < len(tokens):
        if _is_wrapped(tokens, at):
            call, opens = tokens[at + 2], tokens[at + 3]
            inner = Token(TokenType.VAR, "array_agg", call.line, call.col, call.start, call.end)
            found += [call, opens, inner, opens]
            ends.append(_find_end(tokens, at + 3))
            at += 4
            continue
        found.append(tokens[at])
        while ends and ends[-1] == at:
            found.append(_make_closing(tokens[at]))
            ends.pop()
        at += 1
    return found


def _is_wrapped(tokens: list[Token], at: int) -> bool:
    if at + 3 >= len(tokens) or tokens[at].text.lower() != _WORD:
        return False
    return tokens[at + 1].token_type == TokenType.COLON and tokens[at + 3].token_type == TokenType.L_PAREN


def _find_end(tokens: list[Token], at: int) -> int:
    """Return where a call whose parenthesis opens at a token ends, with its FILTER."""
    end = _find_closing(tokens, at)
    filtered = end + 2 < len(tokens) and tokens[end + 1].text.lower() == "filter"
    return (
        _find_closing(tokens, end + 2)
        if filtered and tokens[end + 2].token_type == TokenType.L_PAREN
        else end
    )


def _find_closing(tokens: list[Token], at: int) -> int:
    depth = 0
    for place in range(at, len(tokens)):
        kind = tokens[place].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            return place
    return len(tokens) - 1


def _make_closing(token: Token) -> Token:
    return Token(TokenType.R_PAREN, ")", token.line, token.col, token.start, token.end)
