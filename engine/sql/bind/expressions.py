"""Scalar expressions and aggregate calls: checked, resolved to internal columns, made trees of Spark's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.python_functions.definition import DECLARE, NOT_DECLARED, find_known
from engine.sql.bind.aggregate_calls import unwrap_call
from engine.sql.bind.aggregates import POSTGRES_AGGREGATES
from engine.sql.bind.clock_conditions import ONE_SIDE, ClockConditionBinder
from engine.sql.bind.operand_checks import OperandChecker
from engine.sql.bind.scope import Scope
from engine.sql.bind.subqueries import ExpressionSubqueries, is_subquery
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.functions import has_translation
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.translate import UNKNOWN_FIELDS, translate_expression
from engine.sql.expression.clock import CLOCK_CALLS, DATE_CALLS
from engine.sql.expression.nodes import Expr, annotate
from engine.sql.expression.parser import parse_expression
from engine.sql.expression.tokens import Unreadable
from engine.sql.functions import (
    TIME_WINDOWS,
    find_function_name,
    find_unknown_function,
    is_aggregate,
    is_json_aggregate,
    is_non_deterministic,
    is_own,
    is_table_function,
    is_window_function,
    suggest_functions,
)
from engine.sql.parsing.location import copy_location, locate
from engine.sql.parsing.lost_arguments import find_lost_argument
from engine.sql.typing.expression_types import get_expr_type, infer_exact_type

Refuse = Callable[[str, exp.Expr | None, str], UnsupportedSql]


def split_conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a condition that AND joins."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.And):
        return split_conjuncts(node.this) + split_conjuncts(node.expression)
    return [node]


def walk_own_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Walk through an expression, but not into its subqueries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query | exp.Values))


def bound_column(name: str) -> exp.Column:
    """Return a reference to an internal column, which needs no more resolving."""
    column = exp.Column(this=exp.Identifier(this=name, quoted=True))
    column.meta["bound"] = True
    return column


class ExpressionBinder:
    """Binds the expressions of one SELECT in its scope; `types` are the certain types of internal columns."""

    def __init__(
        self,
        scope: Scope,
        refuse: Refuse,
        types: dict[str, str],
        dialect: Dialect,
        subqueries: ExpressionSubqueries,
    ) -> None:
        self.scope, self.refuse, self.types, self.dialect = scope, refuse, types, dialect
        self.subqueries = subqueries
        self.operands = OperandChecker(scope, types, dialect == "spark")
        subqueries.outer = lambda node: self.bind_scalar(node, "IN")

    def record_type(self, column: str, kind: str | None) -> None:
        """Remember the type of an internal column, where it is certain."""
        if kind is not None:
            self.types[column] = kind

    def has_aggregate(self, node: exp.Expr) -> bool:
        """Tell whether an aggregate call stands in the expression."""
        return any(is_aggregate(part) for part in walk_own_parts(node))

    def has_subquery(self, node: exp.Expr) -> bool:
        """Tell whether a subquery stands in the expression."""
        return any(is_subquery(part) for part in walk_own_parts(node))

    def is_call(self, node: exp.Expr) -> bool:
        """Tell whether the expression is an aggregate call, with FILTER or without."""
        return is_aggregate(unwrap_call(node))

    def check(self, node: exp.Expr, clause: str = "", *, clock: bool = False) -> None:
        """Refuse what no maintained expression may hold; the moment of the epoch is allowed with `clock` only.

        Raises SqlError or UnsupportedSql with the place.
        """
        for part in walk_own_parts(node):
            self._check_shape(part, clause)
            if not (clock and find_function_name(part) in CLOCK_CALLS | DATE_CALLS):
                self._check_function(part)

    def bind_condition(self, node: exp.Expr, clause: str) -> Expr:
        """Bind a condition without aggregates, which may compare a row's time with now(); raises as `scalar` does."""
        clock = ClockConditionBinder(lambda part: self._bind_value(part, clause), self.refuse, self.types)
        bound = clock.bind_condition(node)
        return self.bind_scalar(node, clause) if bound is None else bound

    def bind_scalar(self, node: exp.Expr, clause: str) -> Expr:
        """Bind an expression without aggregates; raises SqlError or UnsupportedSql with the place."""
        bound = self._bind_value(node, clause)
        kind = get_expr_type(bound, self.types)
        if clause in ("WHERE", "ON", "FILTER") and kind not in (None, "boolean", "void"):
            message = f"{clause} takes a condition, not {kind}"
            raise self.scope.build_error(message, node, "compare it with a value")
        return bound

    def _bind_value(self, node: exp.Expr, clause: str) -> Expr:
        self.check(node, clause)
        for part in walk_own_parts(node):
            if is_aggregate(part):
                hint = "use HAVING" if clause == "WHERE" else "aggregate in a subquery in FROM"
                raise self.scope.build_error(f"aggregate {part.sql()} in {clause}", part, hint)
        return self.build_tree(node)

    def _check_shape(self, part: exp.Expr, clause: str) -> None:
        if isinstance(part, exp.Window):  # those of the SELECT list and of QUALIFY are taken out before
            hint = "filter by QUALIFY, or in a query around this one"
            hint = hint if clause == "WHERE" else "compute it in a subquery in FROM first"
            raise self.scope.build_error(f"a window function in {clause or 'this place'}", part, hint)
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise self.scope.build_error(f"{part.sql()} has no value", part, "write the value itself")
        if self.dialect == "spark":
            return
        if isinstance(part, exp.Extract) and part.name.upper() in UNKNOWN_FIELDS:
            raise self.refuse(
                f"EXTRACT ({part.name.upper()})", part, "compute it from YEAR, EPOCH and the like"
            )

    def _check_function(self, part: exp.Expr) -> None:
        if is_table_function(part):
            raise self.refuse("a table function", part, "unnest before the rows are written")
        if is_non_deterministic(part):
            hint = "store the value in a column when the row is written"
            if find_function_name(part) in CLOCK_CALLS | DATE_CALLS:
                hint = f"{ONE_SIDE}; anywhere else {hint}"
            raise self.refuse(f"{part.sql()}, which gives another value each time,", part, hint)
        if find_function_name(part) in TIME_WINDOWS and self.dialect == "spark":
            hint = "write it in SELECT or GROUP BY, or TUMBLE, HOP or SESSION in FROM"
            raise self.refuse(f"{find_function_name(part)} in this place", part, hint)
        if is_window_function(part):
            name = find_function_name(part)
            raise self.scope.build_error(
                f"{name} without a window", part, f"write {name}(…) OVER (ORDER BY …)"
            )
        if is_json_aggregate(part) and self.dialect != "spark":
            return
        unknown = find_unknown_function(part)
        if unknown is not None and (function := find_known(unknown)) is not None:
            if not function.deterministic:
                raise self.refuse(f"function {function.name}, {NOT_DECLARED},", part, DECLARE)
            return
        if unknown is not None and not self._is_translated(unknown):
            raise self.scope.build_error(f"there is no function {unknown}", part, suggest_functions(unknown))

    def _is_translated(self, name: str) -> bool:
        return self.dialect != "spark" and (has_translation(name) or name in POSTGRES_AGGREGATES)

    def build_tree(self, node: exp.Expr) -> Expr:
        """Return the expression over internal columns, with its type if that is certain."""

        def resolve(part: exp.Expr) -> exp.Expr:
            if is_subquery(part):
                part = self.subqueries.add_value_column(part)
                if not isinstance(part, exp.Column):
                    return part.transform(resolve)
            if not isinstance(part, exp.Column):
                return part
            name, fields = (part.this.name, ()) if part.meta.get("bound") else self.scope.resolve(part)
            found: exp.Expr = bound_column(name)
            for field in fields:
                found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
            return copy_location(found, part)

        tree = node.transform(resolve)
        if self.dialect != "spark":
            try:
                tree = translate_expression(
                    tree, lambda part: infer_exact_type(part, self.types), self.dialect
                )
            except Untranslatable as unsaid:
                raise self.refuse(unsaid.what, node, unsaid.hint) from unsaid
        left = next(
            (name for part in tree.walk() if (name := find_unknown_function(part)) and not is_own(name)), None
        )
        if left is not None and not isinstance(node, exp.Subquery):
            raise self.scope.build_error(f"this use of {left} has no like in Spark", node, "use another form")
        self.operands.check(tree, node)
        text = tree.sql(dialect="spark")
        if (lost := find_lost_argument(tree, text)) is not None:
            call = lost.find_ancestor(exp.Func) or lost
            hint = "leave it out, or write the call by other functions"
            raise self.refuse(
                f"{lost.sql(dialect='spark')} as an argument of {find_function_name(call)}", node, hint
            )
        try:
            found = parse_expression(text)
        except Unreadable as error:
            hint = "write it by functions of Spark SQL"
            raise self.refuse(f"{text[:60]}, which has no form in Spark SQL,", node, hint) from error
        return annotate(found, type=infer_exact_type(tree, self.types), position=self.locate(node))

    def locate(self, node: exp.Expr) -> tuple[int, int]:
        """Return line and column of an expression."""
        return locate(node, self.scope.sql)

    def get_source_name(self, node: exp.Expr) -> str:
        """Return a function's name as it stands in the text."""
        return (
            self.scope.sql[node.meta["start"] : node.meta["end"] + 1].lower() if "start" in node.meta else ""
        )
