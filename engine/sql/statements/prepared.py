"""PREPARE, EXECUTE and DEALLOCATE of PostgreSQL: statements that a session keeps under names."""

from __future__ import annotations

import re

import sqlglot.expressions as exp
from sqlglot import TokenType
from sqlglot.errors import ParseError

from engine.sql.dialect import Dialect
from engine.sql.parsing.parsed import parsed
from engine.sql.parsing.refusals import refusal
from engine.sql.parsing.tokens import tokens_of
from engine.sql.statements.session_statements import Deallocate, Execute, Prepare

_NAME = r'("[^"]+"|[A-Za-z_]\w*)'
_PREPARE = re.compile(rf"PREPARE\s+{_NAME}\s*(\(|AS\b)", re.IGNORECASE)
_EXECUTE = re.compile(rf"EXECUTE\s+{_NAME}\s*(\(.*\))?", re.IGNORECASE | re.DOTALL)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+(?:PREPARE\s+)?{_NAME}", re.IGNORECASE)
_KEPT = ("SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE")
_FORM = "PREPARE name [(types)] AS SELECT, INSERT, UPDATE, DELETE or VALUES …, then EXECUTE name (values)"


def prepared_statement(readable: str, sql: str, dialect: Dialect) -> Prepare | Execute | Deallocate | None:
    """Return the statement if it is one of these, else None; raises SqlError with the place."""
    text, start = readable.strip(), len(readable) - len(readable.lstrip())
    if dialect == "spark":
        return None
    if found := _PREPARE.match(text):
        return Prepare(_name(found[1]), _kept(text, found.start(2), start, sql, dialect), sql)
    if found := _EXECUTE.fullmatch(text):
        return Execute(_name(found[1]), _values(found[2], start + found.start(2), sql, dialect), sql)
    if found := _DEALLOCATE.fullmatch(text):
        name = _name(found[1])
        return Deallocate(None if name == "all" else name, sql)
    if re.match(r"(PREPARE|EXECUTE|DEALLOCATE)\b", text, re.IGNORECASE):
        raise refusal(f"this form of {text.split()[0].upper()} is not offered", sql, start, _FORM)
    return None


def _name(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text.lower()


def _kept(text: str, at: int, start: int, sql: str, dialect: Dialect) -> str:
    """Return the statement behind AS; the types of parameters say nothing, as what stands beside a value types it."""
    depth = 0
    tokens = tokens_of(text[at:], dialect)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.text.upper() == "AS" and following is not None:
            if following.text.upper() not in _KEPT and following.token_type != TokenType.L_PAREN:
                message = f"{following.text.upper()} cannot be prepared"
                raise refusal(message, sql, start + at + following.start, _FORM)
            return text[at + following.start :]
    raise refusal("AS and the statement are missing", sql, start, _FORM)


def _values(text: str | None, at: int, sql: str, dialect: Dialect) -> tuple[exp.Expr, ...]:
    if text is None or not text[1:-1].strip():
        return ()
    hint = "write values: EXECUTE name (1, 'a', NULL)"
    try:
        tree = parsed(f"SELECT {text[1:-1]}", dialect)
    except ParseError as error:
        raise refusal("the values cannot be read", sql, at, hint) from error
    items = tree.expressions if isinstance(tree, exp.Select) else []
    if not items or any(v for k, v in tree.args.items() if k != "expressions"):
        raise refusal("the values cannot be read", sql, at, hint)
    for item in items:
        if item.find(exp.Column, exp.Query, exp.Alias, exp.Star, exp.Parameter, exp.Placeholder) is not None:
            raise refusal(f"{item.sql(dialect)} is no value", sql, at, hint)
    return tuple(_plain(item) for item in items)


def _plain(value: exp.Expr) -> exp.Expr:
    for part in value.walk():  # it will stand in another text
        part.meta.pop("start", None)
        part.meta.pop("end", None)
    return value if isinstance(value, exp.Literal | exp.Null | exp.Boolean) else exp.Paren(this=value)
