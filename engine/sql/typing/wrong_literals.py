"""Values that are certainly none of the type that they are meant as: texts in quotes, and types that a column does not take."""

from __future__ import annotations

import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.jsonb.kinds import to_storage_type
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.typing.conversions import find_refused_part, format_arrow_type, suggest_remedy
from engine.sql.typing.expression_types import is_number
from engine.sql.typing.types import to_arrow

MOMENTS = ("date", "timestamp", "timestamp_ntz")
_TRUTHS = ("t", "true", "y", "yes", "1", "f", "false", "n", "no", "0", "on", "off")


def is_text_literal(node: exp.Expr) -> bool:
    """Tell whether an expression is a text in quotes."""
    return isinstance(node, exp.Literal) and bool(node.is_string)


def is_wrong_literal(node: exp.Expr, kind: str) -> bool:
    """Tell whether an expression is a text in quotes that no engine reads as a value of a type."""
    if not is_text_literal(node):
        return False
    if is_number(kind):
        try:
            float(node.name)
        except ValueError:
            return True
    if kind in MOMENTS:
        return not any(character.isdigit() for character in node.name)
    return kind == "boolean" and node.name.strip().lower() not in _TRUTHS


def describe_wrong(node: exp.Expr, kind: str) -> tuple[str, str]:
    """Return what is wrong with such a text, and the remedy, where it stands beside something of a type."""
    return f"{node.sql()} is no {kind}", f"write a {kind}, or CAST what it stands beside to a text"


def refuse_wrong(node: exp.Expr, kind: str, column: str, sql: str) -> None:
    """Raise SqlError, with the place, for a text that is no value of a column's type."""
    if is_wrong_literal(node, kind):
        raise sql_error(f"{node.sql()} is no {kind}, which column {column} is", node, sql, f"write a {kind}")


def refuse_type(
    source: str | None, kind: str, column: str, node: exp.Expr, sql: str, table: str = ""
) -> None:
    """Raise SqlError, with the place, for a value of a type that a column of another does not take, whatever the value is.

    Fields of structs are matched by place. A `given` of None may be any type.
    """
    try:
        kinds = (
            None if source is None else (to_arrow(to_storage_type(source)), to_arrow(to_storage_type(kind)))
        )
    except UnsupportedSql:  # Spark tells whether it can be cast
        return
    refused = None if kinds is None else find_refused_part(*kinds, by_name=False)
    if refused is None:
        return
    path, found, target = refused
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(target):
        return  # a statement is run in one zone, UTC
    of = f" of {table}" if table else ""
    message = (
        f"column {column}{path}{of} is {format_arrow_type(target)}, which takes no {format_arrow_type(found)}"
    )
    raise sql_error(
        message, node, sql, suggest_remedy(found, target) or f"CAST it to {format_arrow_type(target)}"
    )
