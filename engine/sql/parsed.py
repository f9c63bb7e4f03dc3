"""sqlglot's trees as everything here reads them: without comments, and with Spark's rule for the case of table names."""

from __future__ import annotations

import re

import sqlglot
import sqlglot.expressions as exp
from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError

from engine.sql.schemas import qualify

_ANY_CASE = "any_case"
_PLACE = "place "


def parsed(text: str, dialect: str) -> exp.Expr:
    """Return the tree of a text; raises sqlglot's ParseError and TokenError, and RecursionError for one that is too deep.

    Comments go: expressions are printed as texts and put into each other, where a comment would take what follows with it.
    """
    try:
        tree = _with_places(text, dialect) if "?" in text else sqlglot.parse_one(text, read=dialect)
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # its own, on what is no SQL
        raise ParseError("it cannot be read") from error
    found = tree.transform(_plain_text, copy=False) if dialect != "spark" else tree
    for node in found.walk():
        if isinstance(node, exp.Placeholder) and node.comments:
            node.meta["start"] = int(node.comments[0].removeprefix(_PLACE))
        node.comments = None
        if dialect == "spark" and isinstance(node, exp.Table | exp.CTE):
            node.meta[_ANY_CASE] = True
    qualify(found, dialect)
    return found


def _with_places(text: str, dialect: str) -> exp.Expr:
    """Return the tree of a text that has `?` in it: each of them knows its place, by a comment that the parser carries over.

    The trees of a LIMIT and of a WHERE are no guide to which of them stands first.
    """
    tokens: list[Token] = []
    for token in sqlglot.tokenize(text, read=dialect):
        if token.text == "?::":  # read as one operator
            mark, start = TokenType.PLACEHOLDER, token.start
            tokens.append(Token(mark, "?", line=token.line, col=token.col - 2, start=start, end=start))
            token = Token(
                TokenType.DCOLON, "::", line=token.line, col=token.col, start=start + 1, end=token.end
            )
        tokens.append(token)
    for token in tokens:
        if token.token_type == TokenType.PLACEHOLDER:
            token.comments.insert(0, f"{_PLACE}{token.start}")
    trees = Dialect.get_or_raise(dialect).parser().parse(tokens, text)
    if len(trees) != 1 or trees[0] is None:
        raise ParseError("one statement is expected")
    return trees[0]


def any_case(node: exp.Table | exp.CTE) -> bool:
    """Tell whether a table or a WITH item was named in Spark's dialect, where quotes do not make a name case-sensitive."""
    return bool(node.meta.get(_ANY_CASE))


def _plain_text(node: exp.Expr) -> exp.Expr:
    """Write U&'d\\0061t' as the text that it means: Spark has no such form."""
    if not isinstance(node, exp.UnicodeString):
        return node
    escape = node.args.get("escape")
    mark = re.escape(escape.name if isinstance(escape, exp.Expr) else "\\")
    text = re.sub(rf"{mark}(?:{mark}|\+([0-9A-Fa-f]{{6}})|([0-9A-Fa-f]{{4}}))", _character, node.name)
    return exp.Literal.string(text)


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else found[0][0]
