"""DEFAULT and GENERATED expressions of columns, printed as Spark SQL when the table is made."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import sqlglot.expressions as exp

from engine.sql.catalog import Relation, RelationColumn
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.functions import has_translation
from engine.sql.dialects.postgres.translate import translate_expression
from engine.sql.expression.spark_sql import quote
from engine.sql.functions import (
    find_unknown_function,
    is_aggregate,
    is_non_deterministic,
    is_table_function,
    suggest_functions,
)
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.null_indexes import guard_null_indexes
from engine.sql.parsing.statement_errors import sql_error, unsupported_error
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.dml.literal_rows import NotLiteral, read_literal
from engine.sql.typing.expression_types import infer_exact_type

_CLOCK = (exp.CurrentTimestamp, exp.CurrentDate)
_CLOCK_CALLS = ("NOW()", "LOCALTIMESTAMP()", "CURDATE()")


def render_default(node: exp.Expr, column: str, dialect: Dialect, sql: str) -> str:
    """Return a DEFAULT as Spark SQL; raises SqlError for one that reads a column or a table."""
    _check_expression(node, f"the DEFAULT of {column}", dialect, sql)
    for part in node.find_all(exp.Column):
        hint = "a DEFAULT reads no columns: write GENERATED ALWAYS AS (…) instead"
        raise sql_error(f"the DEFAULT of {column} reads {part.sql()}", part, sql, hint)
    return _print_expression(node, {}, dialect)


def render_generated(
    node: exp.Expr, column: str, kinds: Mapping[str, str], dialect: Dialect, sql: str
) -> str:
    """Return a GENERATED expression as Spark SQL; `kinds` are the types of the columns that it may read.

    Raises SqlError for an unknown column, and UnsupportedSql for one whose value changes.
    """
    _check_expression(node, f"the generated column {column}", dialect, sql)
    for part in node.walk():
        if is_non_deterministic(part):
            hint = "write it as DEFAULT"
            raise unsupported_error(f"{part.sql()} gives another value each time", part, sql, hint)
        if isinstance(part, exp.Column) and normalize_identifier(part.this) not in kinds:
            hint = f"a generated column reads columns that are not generated: {', '.join(kinds)}"
            raise sql_error(f"the generated column {column} reads {part.sql()}", part, sql, hint)
    return _print_expression(node, {quote(name): kind for name, kind in kinds.items()}, dialect)


def _check_expression(node: exp.Expr, what: str, dialect: Dialect, sql: str) -> None:
    for part in node.walk():
        if isinstance(part, exp.Query | exp.Window) or is_aggregate(part) or is_table_function(part):
            raise unsupported_error(
                f"{what} is more than an expression of one row", part, sql, "compute it in a view"
            )
        name = find_unknown_function(part)
        if name is not None and (dialect == "spark" or not has_translation(name)):
            hint = f"{suggest_functions(name)}; functions of the store are called in queries: compute it in a view"
            raise sql_error(f"there is no built-in function {name}", part, sql, hint)


def _print_expression(node: exp.Expr, types: Mapping[str, str], dialect: Dialect) -> str:
    tree = node.copy()
    for part in tree.find_all(exp.Column):
        part.replace(exp.Column(this=exp.to_identifier(normalize_identifier(part.this), quoted=True)))
    if isinstance(tree, exp.Column):
        tree = exp.Column(this=exp.to_identifier(normalize_identifier(tree.this), quoted=True))
    if dialect != "spark":
        tree = translate_expression(tree, lambda part: infer_exact_type(part, types), dialect)
    return guard_null_indexes(tree).sql(dialect="spark")


def compute_local_default(column: RelationColumn, now: datetime.datetime) -> Any:
    """Return the value of a DEFAULT that needs no engine: a literal, or the clock; raises NotLiteral for another one."""
    assert column.default is not None
    node = parse_tree(column.default, "spark")
    if isinstance(node, _CLOCK) or node.sql().upper() in _CLOCK_CALLS:
        if column.type == "timestamp":
            return now
        if column.type == "timestamp_ntz":
            return now.replace(tzinfo=None)
        if column.type == "date":
            return now.date()
        raise NotLiteral
    return read_literal(node, column.type, "spark")


def has_local_default(column: RelationColumn) -> bool:
    """Tell whether the column's DEFAULT can be computed without an engine."""
    try:
        compute_local_default(column, datetime.datetime.now(datetime.UTC))
    except NotLiteral:
        return False
    return True


def explain_not_fed(relation: Relation) -> str | None:
    """Return why files cannot feed a table, with the remedy, or None: a source fills in what needs no engine."""
    for column in relation.columns:
        if column.generated is not None:
            return f"column {column.name} is generated, which files do not get: compute it in a view over the table"
        if column.default is not None and not has_local_default(column):
            return f"the DEFAULT of column {column.name} is neither a literal nor the clock: write a literal"
    if relation.on_conflict not in ("error", "overwrite") or relation.version_columns:
        return "rows of files overwrite those of the same key: leave ON CONFLICT out, or write OVERWRITE"
    return None
