"""Scalar expressions and aggregate calls: checked, resolved to internal columns, made trees of Spark's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.bind.aggregate_calls import core
from engine.sql.bind.aggregates import POSTGRES_AGGREGATES
from engine.sql.bind.clock_conditions import ONE_SIDE, ClockConditions
from engine.sql.bind.operands import Operands
from engine.sql.bind.scope import Scope
from engine.sql.bind.subqueries import Subqueries, is_subquery
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.functions import translated
from engine.sql.dialects.postgres.patterns import NotSaid
from engine.sql.dialects.postgres.translate import UNKNOWN_FIELDS, as_spark
from engine.sql.expression.clock import CLOCK_CALLS, DATE_CALLS
from engine.sql.expression.nodes import Expr, known
from engine.sql.expression.read import read
from engine.sql.expression.tokens import Unreadable
from engine.sql.functions import (
    TIME_WINDOWS,
    function_name,
    is_aggregate,
    is_json_aggregate,
    is_non_deterministic,
    is_own,
    is_table_function,
    is_window_function,
    near_functions,
    unknown_function,
)
from engine.sql.parsing.lost_arguments import lost_argument
from engine.sql.parsing.position import copy_place, place
from engine.sql.typing.expression_types import exact_type, kind_of

Refuse = Callable[[str, exp.Expr | None, str], UnsupportedSql]


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a condition that AND joins."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.And):
        return conjuncts(node.this) + conjuncts(node.expression)
    return [node]


def own_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Walk through an expression, but not into its subqueries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query | exp.Values))


def bound_column(name: str) -> exp.Column:
    """Return a reference to an internal column, which needs no more resolving."""
    column = exp.Column(this=exp.Identifier(this=name, quoted=True))
    column.meta["bound"] = True
    return column


class Expressions:
    """Binds the expressions of one SELECT in its scope; `types` are the certain types of internal columns."""

    def __init__(
        self, scope: Scope, refuse: Refuse, types: dict[str, str], dialect: Dialect, subqueries: Subqueries
    ) -> None:
        self.scope, self.refuse, self.types, self.dialect = scope, refuse, types, dialect
        self.subqueries = subqueries
        self.operands = Operands(scope, types, dialect == "spark")
        subqueries.outer = lambda node: self.scalar(node, "IN")

    def has_aggregate(self, node: exp.Expr) -> bool:
        """Tell whether an aggregate call stands in the expression."""
        return any(is_aggregate(part) for part in own_parts(node))

    def has_subquery(self, node: exp.Expr) -> bool:
        """Tell whether a subquery stands in the expression."""
        return any(is_subquery(part) for part in own_parts(node))

    def is_call(self, node: exp.Expr) -> bool:
        """Tell whether the expression is an aggregate call, with FILTER or without."""
        return is_aggregate(core(node))

    def check(self, node: exp.Expr, clause: str = "", *, clock: bool = False) -> None:
        """Refuse what no maintained expression may hold; the moment of the epoch is allowed with `clock` only.

        Raises SqlError or UnsupportedSql with the place.
        """
        for part in own_parts(node):
            self._check_shape(part, clause)
            if not (clock and function_name(part) in CLOCK_CALLS | DATE_CALLS):
                self._check_function(part)

    def condition(self, node: exp.Expr, clause: str) -> Expr:
        """Bind a condition without aggregates, which may compare a row's time with now(); raises as `scalar` does."""
        clock = ClockConditions(lambda part: self._value(part, clause), self.refuse, self.types)
        bound = clock.bound(node)
        return self.scalar(node, clause) if bound is None else bound

    def scalar(self, node: exp.Expr, clause: str) -> Expr:
        """Bind an expression without aggregates; raises SqlError or UnsupportedSql with the place."""
        bound = self._value(node, clause)
        kind = kind_of(bound, self.types)
        if clause in ("WHERE", "ON", "FILTER") and kind not in (None, "boolean", "void"):
            message = f"{clause} takes a condition, not {kind}"
            raise self.scope.error(message, node, "compare it with a value")
        return bound

    def _value(self, node: exp.Expr, clause: str) -> Expr:
        self.check(node, clause)
        for part in own_parts(node):
            if is_aggregate(part):
                hint = "use HAVING" if clause == "WHERE" else "aggregate in a subquery in FROM"
                raise self.scope.error(f"aggregate {part.sql()} in {clause}", part, hint)
        return self.printed(node)

    def _check_shape(self, part: exp.Expr, clause: str) -> None:
        if isinstance(part, exp.Window):  # those of the SELECT list and of QUALIFY are taken out before
            hint = "filter by QUALIFY, or in a query around this one"
            hint = hint if clause == "WHERE" else "compute it in a subquery in FROM first"
            raise self.scope.error(f"a window function in {clause or 'this place'}", part, hint)
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise self.scope.error(f"{part.sql()} has no value", part, "write the value itself")
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
            if function_name(part) in CLOCK_CALLS | DATE_CALLS:
                hint = f"{ONE_SIDE}; anywhere else {hint}"
            raise self.refuse(f"{part.sql()}, which gives another value each time,", part, hint)
        if function_name(part) in TIME_WINDOWS and self.dialect == "spark":
            hint = "write it in SELECT or GROUP BY, or TUMBLE, HOP or SESSION in FROM"
            raise self.refuse(f"{function_name(part)} in this place", part, hint)
        if is_window_function(part):
            name = function_name(part)
            raise self.scope.error(f"{name} without a window", part, f"write {name}(…) OVER (ORDER BY …)")
        if is_json_aggregate(part) and self.dialect != "spark":
            return
        unknown = unknown_function(part)
        if unknown is not None and not self._translated(unknown):
            raise self.scope.error(f"there is no function {unknown}", part, near_functions(unknown))

    def _translated(self, name: str) -> bool:
        return self.dialect != "spark" and (translated(name) or name in POSTGRES_AGGREGATES)

    def printed(self, node: exp.Expr) -> Expr:
        """Return the expression over internal columns, with its type if that is certain."""

        def resolve(part: exp.Expr) -> exp.Expr:
            if is_subquery(part):
                part = self.subqueries.column(part)
                if not isinstance(part, exp.Column):
                    return part.transform(resolve)
            if not isinstance(part, exp.Column):
                return part
            name, fields = (part.this.name, ()) if part.meta.get("bound") else self.scope.resolve(part)
            found: exp.Expr = bound_column(name)
            for field in fields:
                found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
            return copy_place(found, part)

        tree = node.transform(resolve)
        if self.dialect != "spark":
            try:
                tree = as_spark(tree, lambda part: exact_type(part, self.types), self.dialect)
            except NotSaid as unsaid:
                raise self.refuse(unsaid.what, node, unsaid.hint) from unsaid
        left = next(
            (name for part in tree.walk() if (name := unknown_function(part)) and not is_own(name)), None
        )
        if left is not None and not isinstance(node, exp.Subquery):
            raise self.scope.error(f"this use of {left} has no like in Spark", node, "use another form")
        self.operands.check(tree, node)
        text = tree.sql(dialect="spark")
        if (lost := lost_argument(tree, text)) is not None:
            call = lost.find_ancestor(exp.Func) or lost
            hint = "leave it out, or write the call by other functions"
            raise self.refuse(
                f"{lost.sql(dialect='spark')} as an argument of {function_name(call)}", node, hint
            )
        try:
            found = read(text)
        except Unreadable as error:
            hint = "write it by functions of Spark SQL"
            raise self.refuse(f"{text[:60]}, which has no form in Spark SQL,", node, hint) from error
        return known(found, type=exact_type(tree, self.types), position=self.position(node))

    def position(self, node: exp.Expr) -> tuple[int, int]:
        """Return line and column of an expression."""
        return place(node, self.scope.sql)

    def written(self, node: exp.Expr) -> str:
        """Return a function's name as it stands in the text."""
        return (
            self.scope.sql[node.meta["start"] : node.meta["end"] + 1].lower() if "start" in node.meta else ""
        )
