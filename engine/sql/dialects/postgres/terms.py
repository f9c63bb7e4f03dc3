"""Parts of which the rules for Postgres' functions are made: calls of Spark's functions, and what literals say."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable

TypeOf = Callable[[exp.Expr], str | None]
Rules = dict[type[exp.Expr], Callable[[exp.Expr, TypeOf], exp.Expr | None]]


def build_call(name: str, *arguments: exp.Expr | str | int) -> exp.Anonymous:
    """Return a call of a function of Spark's; texts and numbers stand for literals."""
    return exp.Anonymous(this=name, expressions=[_convert_argument(argument) for argument in arguments])


def _convert_argument(argument: exp.Expr | str | int) -> exp.Expr:
    if isinstance(argument, exp.Expr):
        return argument.copy()
    if isinstance(argument, int):
        sized = exp.Literal.number(abs(argument))
        return exp.Neg(this=sized) if argument < 0 else sized
    return exp.Literal.string(argument)


def read_number(node: exp.Expr | None) -> int | None:
    """Return a literal's whole number, with its sign."""
    if isinstance(node, exp.Neg):
        inner = read_number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    return None


def read_text(node: exp.Expr | None, what: str) -> str:
    """Return what a text in quotes says; raises NotSaid of `what` for anything else."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.name)
    raise Untranslatable(f"{what} that is no literal", "write it in quotes")
