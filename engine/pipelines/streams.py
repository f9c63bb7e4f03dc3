"""Streaming flows: which of them give the rows of a query, and where a text reads a table as a stream."""

from __future__ import annotations

from sqlglot import TokenType, exp

from engine.sql.functions import is_aggregate
from engine.sql.parsing.tokens import tokenize

_BEFORE = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)


def mask_streams(text: str) -> tuple[str, frozenset[int]]:
    """Return a query without the words STREAM before its tables, and at which characters these tables begin."""
    tokens = tokenize(text, "spark")
    gone: list[tuple[int, int]] = []
    places = set[int]()
    for n, token in enumerate(tokens[:-1]):
        if token.text.upper() != "STREAM" or n == 0 or tokens[n - 1].token_type not in _BEFORE:
            continue
        following = tokens[n + 1]
        if following.token_type == TokenType.L_PAREN:
            last = next((one for one in tokens[n:] if one.token_type == TokenType.R_PAREN), None)
            if last is None or n + 2 >= len(tokens):
                continue
            gone += [(token.start, following.end + 1), (last.start, last.end + 1)]
            places.add(tokens[n + 2].start)
        elif following.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            gone.append((token.start, token.end + 1))
            places.add(following.start)
    for begin, end in gone:
        text = text[:begin] + " " * (end - begin) + text[end:]
    return text, frozenset(places)


def find_stream_problem(tree: exp.Expr) -> str:
    """Return why a streaming query would not give the rows of the query over all rows; empty if it does.

    A query that makes rows of one row at a time does: a stream takes each row once.
    """
    for node in tree.walk():
        if isinstance(node, exp.Join):
            return "a join, whose rows in a stream depend on when those of each side came"
        if isinstance(node, exp.Group | exp.Having) or is_aggregate(node):
            return "an aggregate, which a stream gives only by a watermark"
        if isinstance(node, exp.Window):
            return "a window over rows, which a stream cannot give"
        if isinstance(node, exp.Distinct):
            return "DISTINCT, for which a stream keeps what it has seen"
        if isinstance(node, exp.Limit | exp.Offset | exp.Fetch | exp.Order):
            return "an order or a limit, which a stream cannot give"
        if isinstance(node, exp.SetOperation) and (
            not isinstance(node, exp.Union) or node.args.get("distinct")
        ):
            return "a set operation other than UNION ALL"
        if isinstance(node, exp.Exists | exp.In) and node.find(exp.Select) is not None:
            return "a subquery in a condition, whose answer changes"
        if isinstance(node, exp.Subquery) and not isinstance(
            node.parent, exp.From | exp.Subquery | exp.SetOperation
        ):
            return "a subquery as a value, whose answer changes"
    return ""
