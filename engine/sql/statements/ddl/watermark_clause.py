"""WATERMARK FOR in the column list of CREATE TABLE: a column of time, and what late rows may lack beside the greatest.

`WATERMARK FOR ts AS ts - INTERVAL '5 minutes'` -> column ts, 300,000,000 microseconds. sqlglot reads the clause in one dialect
only, so it is taken out of the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot.expressions as exp
from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from engine.errors import SqlError
from engine.sql.catalog import RelationColumn, Watermark
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error, unsupported_error_at
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.typing.intervals import evaluate_interval, has_months
from engine.sql.typing.whole_numbers import INTEGRAL

FORM = "write WATERMARK FOR ts AS ts - INTERVAL '5 minutes', ts being a column of the table"
_DAY = 86_400_000_000
_TIMES = ("timestamp", "timestamp_ntz", "date", *INTEGRAL)


@dataclass(frozen=True)
class WatermarkClause:
    """The clause as it stands in a text: its column, where that and its expression (start, end) stand, and if it is WITH TTL."""

    column: str
    start: int
    named: int
    expression: tuple[int, int]
    ttl: bool


def read_watermark_clause(tokens: Sequence[Token], readable: str, sql: str) -> tuple[WatermarkClause, int]:
    """Return the clause that the tokens begin with, and how many of them it has; raises UnsupportedSql with the place."""
    words = [token.text.upper() for token in tokens[:4]]
    if len(words) < 4 or words[3] != "AS":
        raise unsupported_error_at(
            "WATERMARK FOR needs a column and an expression", sql, tokens[0].start, FORM
        )
    depth, n = 0, 4
    while n < len(tokens):
        kind = tokens[n].token_type
        if depth == 0 and kind in (TokenType.COMMA, TokenType.R_PAREN):
            break
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        n += 1
    ttl = [token.text.upper() for token in tokens[4:n]][-2:] == ["WITH", "TTL"]
    behind = n - 2 if ttl else n
    if behind == 4:
        raise unsupported_error_at("WATERMARK FOR needs an expression", sql, tokens[0].start, FORM)
    quoted = readable[tokens[2].start] in '"`'
    name = tokens[2].text if quoted else tokens[2].text.lower()
    expression = (tokens[4].start, tokens[behind - 1].end + 1)
    return WatermarkClause(name, tokens[0].start, tokens[2].start, expression, ttl), n


def build_watermark(
    clause: WatermarkClause, readable: str, columns: Sequence[RelationColumn], sql: str, dialect: Dialect
) -> Watermark:
    """Return what a clause means; raises SqlError with the place for what gives no watermark of its column."""
    known = ", ".join(column.name for column in columns)
    column = next((one for one in columns if one.name.lower() == clause.column.lower()), None)
    if column is None:
        message = f"WATERMARK FOR names {clause.column}, which is no column"
        raise unsupported_error_at(message, sql, clause.named, f"columns are {known}")
    node = _parse_expression(clause, readable, sql, dialect)
    if column.visible_type not in _TIMES:
        hint = "take a column of TIMESTAMP, TIMESTAMPTZ, DATE or a whole number"
        raise sql_error(
            f"{column.name} is {column.visible_type}, which carries no watermark", node, sql, hint
        )
    return Watermark(column.storage_name, _compute_delay(node, column, sql), clause.ttl)


def _parse_expression(clause: WatermarkClause, readable: str, sql: str, dialect: Dialect) -> exp.Expr:
    start, end = clause.expression
    head = "SELECT".rjust(start - 1)
    try:
        tree = parse_tree(f"{head} {readable[start:end]}", dialect)
    except (ParseError, SqlError):
        raise unsupported_error_at(
            "the expression of WATERMARK FOR cannot be read", sql, start, FORM
        ) from None
    found: exp.Expr = tree.expressions[0].unnest()
    return found


def _compute_delay(node: exp.Expr, column: RelationColumn, sql: str) -> int:
    """Return how far a watermark stays behind its column, in its unit: microseconds, days, or ones."""
    if _is_column(node, column):
        return 0
    if not isinstance(node, exp.Sub | exp.Add) or not _is_column(node.this, column):
        other = _find_other_type(node, column)
        if other is not None:
            message = f"the watermark of {column.name} is {other}, the column is {column.visible_type}"
            raise sql_error(message, node, sql, FORM)
        message = f"{node.sql()} is not the column {column.name} less a constant"
        raise sql_error(message, node, sql, FORM)
    amount = _read_amount(node.expression.unnest(), column, sql)
    return amount if isinstance(node, exp.Sub) else -amount


def _is_column(node: exp.Expr, column: RelationColumn) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Column) and normalize_identifier(node.this).lower() == column.name.lower()


def _find_other_type(node: exp.Expr, column: RelationColumn) -> str | None:
    """Return in words the type of an expression that is certainly another than the column's."""
    inner = node
    while isinstance(inner, exp.Sub | exp.Add):
        inner = inner.this.unnest()
    makes_time = isinstance(inner, exp.UnixToTime | exp.StrToTime) or (
        isinstance(inner, exp.Anonymous | exp.Func) and "timestamp" in inner.sql().lower()[:24]
    )
    if makes_time and column.visible_type in INTEGRAL:
        return "a timestamp"
    if isinstance(inner, exp.Cast):
        return str(inner.to.sql()).lower()
    return None


def _read_amount(node: exp.Expr, column: RelationColumn, sql: str) -> int:
    sign = 1
    if isinstance(node, exp.Neg):
        node, sign = node.this.unnest(), -1
    if column.visible_type in INTEGRAL or column.visible_type == "date":
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return sign * int(node.name)
        if column.visible_type in INTEGRAL:
            hint = f"write WATERMARK FOR {column.name} AS {column.name} - 10"
            raise sql_error(f"{node.sql()} is no whole number", node, sql, hint)
    if has_months(node):
        hint = "write it in days"
        raise sql_error("the watermark's delay has months, which have no fixed length", node, sql, hint)
    text = node.name if isinstance(node, exp.Literal) and node.is_string else None
    span = evaluate_interval(node)
    if span is None and text is not None:
        span = evaluate_interval(exp.Interval(this=node.copy()))
    if span is None:
        raise sql_error(f"{node.sql()} is no constant interval", node, sql, FORM)
    micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    if column.visible_type != "date":
        return sign * micros
    if micros % _DAY:
        raise sql_error(
            f"{node.sql()} is no whole number of days", node, sql, "write whole days beside a DATE"
        )
    return sign * (micros // _DAY)
