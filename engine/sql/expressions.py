"""Scalar expressions and aggregate calls: checked, resolved to internal columns, printed as Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.functions import (
    AGGREGATES,
    function_name,
    is_aggregate,
    is_non_deterministic,
    unknown_function,
)
from engine.sql.plan import AggCall, Expr
from engine.sql.position import place
from engine.sql.scope import Scope

Refuse = Callable[[str, exp.Expression | None, str], UnsupportedSql]


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """Return the parts of a condition that AND joins."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.And):
        return conjuncts(node.this) + conjuncts(node.expression)
    return [node]


class Expressions:
    """Binds the expressions of one SELECT in its scope."""

    def __init__(self, scope: Scope, refuse: Refuse) -> None:
        self.scope, self.refuse = scope, refuse

    def has_aggregate(self, node: exp.Expression) -> bool:
        """Tell whether an aggregate call stands in the expression."""
        return any(is_aggregate(part) for part in node.walk())

    def is_call(self, node: exp.Expression) -> bool:
        """Tell whether the expression is an aggregate call, with FILTER or without."""
        if isinstance(node, exp.Filter):
            return is_aggregate(node.this)
        return is_aggregate(node)

    def scalar(self, node: exp.Expression, clause: str) -> Expr:
        """Bind an expression without aggregates; raises SqlError or UnsupportedSql with the place."""
        self.refuse_subqueries(node)
        for part in node.walk():
            self._check(part)
            if is_aggregate(part):
                raise self.scope.error(
                    f"aggregate {part.sql()} in {clause}", part, "use HAVING, or a subquery in FROM"
                )
        return self.printed(node)

    def refuse_subqueries(self, node: exp.Expression) -> None:
        """Raise UnsupportedSql if a subquery stands in the expression."""
        for part in node.walk():
            if isinstance(part, exp.Exists) or (isinstance(part, exp.In) and part.args.get("query")):
                raise self.refuse("EXISTS or IN (SELECT …)", part, "join the subquery in FROM")
            if isinstance(part, exp.Query):
                raise self.refuse("a subquery in an expression", part, "join the subquery in FROM")

    def _check(self, part: exp.Expression) -> None:
        if isinstance(part, exp.Window):
            raise self.refuse("a window function", part, "use an aggregate with GROUP BY")
        if isinstance(part, exp.Explode | exp.Unnest | exp.Lateral):
            raise self.refuse("a table function", part, "unnest before loading")
        if is_non_deterministic(part):
            raise self.refuse(
                f"{part.sql()}, which gives another value each time,",
                part,
                "store the value in a column when the row is written",
            )
        hint = unknown_function(part)
        if hint is not None:
            raise self.scope.error(f"there is no function {part.name}", part, hint)

    def printed(self, node: exp.Expression) -> Expr:
        """Return the expression as Spark SQL over internal columns."""
        columns: dict[str, None] = {}

        def resolve(part: exp.Expression) -> exp.Expression:
            if not isinstance(part, exp.Column):
                return part
            name = part.this.name if part.meta.get("bound") else self.scope.resolve(part)
            columns[name] = None
            column = exp.Column(this=exp.Identifier(this=name, quoted=True))
            column.meta["bound"] = True
            return column

        position = place(node, self.scope.sql)
        return Expr(node.transform(resolve).sql(dialect="spark"), tuple(columns), position)

    def call(self, node: exp.Expression) -> AggCall:
        """Bind one aggregate call."""
        where = None
        if isinstance(node, exp.Filter):
            where = self.scalar(node.expression.this, "FILTER")
            node = node.this
        inner = node
        name = function_name(node)
        if name not in AGGREGATES:
            raise self.refuse(
                f"aggregate {name}, whose result depends on the order of rows,",
                node,
                "use count, sum, avg, min, max or another one that does not",
            )
        arguments = self._arguments(inner)
        distinct = False
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            distinct, arguments = True, arguments[0].expressions
        for argument in arguments:
            if self.has_aggregate(argument):
                raise self.scope.error(
                    f"aggregate inside {name}", argument, "aggregate in a subquery in FROM first"
                )
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            arguments = []
        if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Literal):
            arguments = []
        return AggCall(
            "",
            name,
            tuple(self.scalar(a, name) for a in arguments),
            distinct and name not in ("min", "max"),
            where,
        )

    @staticmethod
    def _arguments(node: exp.Expression) -> list[exp.Expression]:
        found: list[exp.Expression] = []
        for key, value in node.args.items():
            if isinstance(node, exp.Anonymous) and key == "this":
                continue
            if isinstance(value, exp.Expression):
                found.append(value)
            elif isinstance(value, list):
                found += [v for v in value if isinstance(v, exp.Expression)]
        return found
