"""Trees written as Spark SQL with holes: what a rule builds is read once, and filled with trees, never with texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from engine.jsonb.kinds import to_storage_type
from engine.sql.expression.nodes import (
    NULL,
    And,
    Call,
    Cast,
    Column,
    Expr,
    IsNull,
    Literal,
    Not,
    Variable,
    annotate,
    map_children,
)
from engine.sql.expression.parser import parse_expression

_HOLE = ":"


def fill_template(text: str, **parts: Expr) -> Expr:
    """Return the expression that `text` says, with the tree `parts[name]` in the place of each `:name`.

    `template("coalesce(:x, 0L)", x=Column("n"))` -> the tree of coalesce(`n`, 0L). A name that is not quoted is a column, too.
    """
    return _fill_holes(_parse_template(text), parts)


@lru_cache(maxsize=4096)
def _parse_template(text: str) -> Expr:
    return parse_expression(text, lambda name: Variable(_HOLE + name))


def _fill_holes(expr: Expr, parts: Mapping[str, Expr]) -> Expr:
    if isinstance(expr, Variable) and expr.name.startswith(_HOLE):
        return parts[expr.name.removeprefix(_HOLE)]
    return map_children(expr, lambda part: _fill_holes(part, parts))


def call(function: str, *arguments: Expr) -> Call:
    """Return a call of a function of Spark's."""
    return Call(function, arguments)


def cast(value: Expr, kind: str) -> Expr:
    """Return the value as one of a Spark type."""
    return annotate(Cast(value, to_storage_type(kind)), type=kind)


def build_null(kind: str | None) -> Expr:
    """Return a null of a Spark type, or one of any type."""
    return NULL if kind is None else cast(NULL, kind)


def build_not_null(value: Expr) -> Expr:
    """Return the condition that a value is not null."""
    return Not(IsNull(value))


def join_conditions(parts: Sequence[Expr]) -> Expr | None:
    """Return the expression that holds if all parts hold, or None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    flat = tuple(each for part in parts for each in (part.parts if isinstance(part, And) else (part,)))
    return annotate(And(flat), type="boolean", position=parts[0].position)


def combine_conditions(first: Expr, *others: Expr | None) -> Expr:
    """Return the expression that holds if all that are given hold."""
    found = join_conditions([first, *(part for part in others if part is not None)])
    assert found is not None
    return found


def build_struct(fields: Sequence[tuple[str, Expr]]) -> Call:
    """Return a struct of named values."""
    return Call(
        "named_struct", tuple(part for name, value in fields for part in (Literal(name, "string"), value))
    )


def as_columns(names: Iterable[str]) -> tuple[tuple[str, Column], ...]:
    """Return each column under its own name."""
    return tuple((name, Column(name)) for name in names)
