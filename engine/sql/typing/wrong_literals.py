"""Texts in quotes that are certainly no value of the type that they are meant as."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.refusals import mistake
from engine.sql.typing.expression_types import is_number

MOMENTS = ("date", "timestamp", "timestamp_ntz")
_TRUTHS = ("t", "true", "y", "yes", "1", "f", "false", "n", "no", "0", "on", "off")


def is_text(node: exp.Expr) -> bool:
    """Tell whether an expression is a text in quotes."""
    return isinstance(node, exp.Literal) and bool(node.is_string)


def is_wrong(node: exp.Expr, kind: str) -> bool:
    """Tell whether an expression is a text in quotes that no engine reads as a value of a type."""
    if not is_text(node):
        return False
    if is_number(kind):
        try:
            float(node.name)
        except ValueError:
            return True
    if kind in MOMENTS:
        return not any(character.isdigit() for character in node.name)
    return kind == "boolean" and node.name.strip().lower() not in _TRUTHS


def no_value(node: exp.Expr, kind: str) -> tuple[str, str]:
    """Return what is wrong with such a text, and the remedy, where it stands beside something of a type."""
    return f"{node.sql()} is no {kind}", f"write a {kind}, or CAST what it stands beside to a text"


def refuse_wrong(node: exp.Expr, kind: str, column: str, sql: str) -> None:
    """Raise SqlError, with the place, for a text that is no value of a column's type."""
    if is_wrong(node, kind):
        raise mistake(f"{node.sql()} is no {kind}, which column {column} is", node, sql, f"write a {kind}")
