"""PREPARE, EXECUTE and DEALLOCATE of PostgreSQL: statements that a session keeps under names."""

from __future__ import annotations

import re
from typing import TypeVar

import sqlglot.expressions as exp
from sqlglot import TokenType
from sqlglot.errors import ParseError

from engine.errors import UnsupportedSql
from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.parsing.tokens import tokenize
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.session.session_statements import Deallocate, Execute, Prepare
from engine.sql.typing.types import parse_type

Node = TypeVar("Node", bound=exp.Expr)
Types = tuple[exp.DataType | None, ...]
"""The types of the first parameters; None for one that what stands beside it types."""
_OUTSIDE = re.compile(r",(?![^()]*\))")
_NAME = r'("[^"]+"|[A-Za-z_]\w*)'
_PREPARE = re.compile(rf"PREPARE\s+{_NAME}\s*(\(|AS\b)", re.IGNORECASE)
_EXECUTE = re.compile(rf"EXECUTE\s+{_NAME}\s*(\(.*\))?", re.IGNORECASE | re.DOTALL)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+(?:PREPARE\s+)?{_NAME}", re.IGNORECASE)
_PREPARABLE = ("SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE")
_FORM = "PREPARE name [(types)] AS SELECT, INSERT, UPDATE, DELETE or VALUES …, then EXECUTE name (values)"


def read_prepared(readable: str, sql: str, dialect: Dialect) -> Prepare | Execute | Deallocate | None:
    """Return the statement if it is one of these, else None; raises SqlError with the place."""
    text, start = readable.strip(), len(readable) - len(readable.lstrip())
    if dialect == "spark":
        return None
    if found := _PREPARE.match(text):
        types, body = _read_prepare(text, found.start(2), start, sql, dialect)
        return Prepare(_read_name(found[1]), body, sql, types)
    if found := _EXECUTE.fullmatch(text):
        return Execute(
            _read_name(found[1]), _read_values(found[2], start + found.start(2), sql, dialect), sql
        )
    if found := _DEALLOCATE.fullmatch(text):
        name = _read_name(found[1])
        return Deallocate(None if name == "all" else name, sql)
    if re.match(r"(PREPARE|EXECUTE|DEALLOCATE)\b", text, re.IGNORECASE):
        raise unsupported_error_at(
            f"this form of {text.split()[0].upper()} is not offered", sql, start, _FORM
        )
    return None


def _read_name(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text.lower()


def _read_prepare(text: str, at: int, start: int, sql: str, dialect: Dialect) -> tuple[Types, str]:
    """Return the types of the parameters, and the statement behind AS."""
    depth = 0
    tokens = tokenize(text[at:], dialect)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.text.upper() == "AS" and following is not None:
            if following.text.upper() not in _PREPARABLE and following.token_type != TokenType.L_PAREN:
                message = f"{following.text.upper()} cannot be prepared"
                raise unsupported_error_at(message, sql, start + at + following.start, _FORM)
            types = _read_types(text[at : at + token.start].strip(), start + at, sql, dialect)
            return types, text[at + following.start :]
    raise unsupported_error_at("AS and the statement are missing", sql, start, _FORM)


def _read_types(text: str, at: int, sql: str, dialect: Dialect) -> Types:
    """Return the types of a list in parentheses."""
    if not text:
        return ()
    found = []
    for part in _OUTSIDE.split(text[1:-1]):
        try:
            tree = parse_tree(f"SELECT CAST(NULL AS {part})", dialect)
            cast = tree.expressions[0] if isinstance(tree, exp.Select) else None
            if (
                not isinstance(cast, exp.Cast)
                or not isinstance(cast.this, exp.Null)
                or len(tree.expressions) > 1
            ):
                raise unsupported_error_at(f"the type {part.strip()} cannot be read", sql, at, _FORM)
            is_known = cast.to.this != exp.DataType.Type.UNKNOWN
            if is_known:
                parse_type(cast.to, dialect)
        except (ParseError, UnsupportedSql) as error:
            raise unsupported_error_at(
                f"the type {part.strip()} of a parameter cannot be read", sql, at, _FORM
            ) from error
        found.append(_strip_location(cast.to) if is_known else None)
    return tuple(found)


def _read_values(text: str | None, at: int, sql: str, dialect: Dialect) -> tuple[exp.Expr, ...]:
    if text is None or not text[1:-1].strip():
        return ()
    hint = "write values: EXECUTE name (1, 'a', NULL)"
    try:
        tree = parse_tree(f"SELECT {text[1:-1]}", dialect)
    except ParseError as error:
        raise unsupported_error_at("the values cannot be read", sql, at, hint) from error
    items = tree.expressions if isinstance(tree, exp.Select) else []
    if not items or any(v for k, v in tree.args.items() if k != "expressions"):
        raise unsupported_error_at("the values cannot be read", sql, at, hint)
    for item in items:
        if item.find(exp.Column, exp.Query, exp.Alias, exp.Star, exp.Parameter, exp.Placeholder) is not None:
            raise unsupported_error_at(f"{item.sql(dialect)} is no value", sql, at, hint)
    return tuple(_wrap_value(item) for item in items)


def _wrap_value(value: exp.Expr) -> exp.Expr:
    value = _strip_location(value)
    return value if isinstance(value, exp.Literal | exp.Null | exp.Boolean) else exp.Paren(this=value)


def _strip_location(node: Node) -> Node:
    """Return a part that will stand in another text."""
    for part in node.walk():
        part.meta.pop("start", None)
        part.meta.pop("end", None)
    return node


def cast_values(values: tuple[exp.Expr, ...], types: Types) -> tuple[exp.Expr, ...]:
    """Return the values of an EXECUTE in the types of their parameters, as far as those are given.

    `3` for a numeric -> `CAST(3 AS DECIMAL)`: else `$1 / 2` would be a division of whole numbers.
    """
    kinds = (*types, *(None for _ in values[len(types) :]))
    return tuple(_cast_value(value, kind) for value, kind in zip(values, kinds, strict=False))


def _cast_value(value: exp.Expr, kind: exp.DataType | None) -> exp.Expr:
    if kind is None:
        return value
    whole = isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()
    if whole and kind.this == exp.DataType.Type.INT and int(value.name) < 1 << 31:
        return value
    if isinstance(value, exp.Boolean) and kind.this == exp.DataType.Type.BOOLEAN:
        return value
    if isinstance(value, exp.Literal) and value.is_string and kind.this == exp.DataType.Type.TEXT:
        return value
    return exp.Cast(this=value, to=kind.copy())
