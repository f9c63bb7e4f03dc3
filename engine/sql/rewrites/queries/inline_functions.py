"""A call of a user's SQL function is replaced by the function's body, its parameters by what is given.

Applies to every call of a function of the catalog, also inside of other bodies; one in Python is called by the name of its
content. First of all rules, since a body may hold whatever the others rewrite.
"""

from __future__ import annotations

from functools import reduce

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.catalog import Relation
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error, unsupported_error
from engine.sql.rewrites.contract import ParsedExample, QueryText
from engine.sql.statements.ddl.macros import (
    decode_macro,
    decode_python,
    find_called_function,
    parse_body,
    read_signature,
)
from engine.sql.statements.ddl.python_calls import build_python_call, is_python_call
from engine.sql.typing.types import cast_type

EXAMPLE = ParsedExample(
    before="SELECT id, twice(price) AS p FROM bid",
    after="SELECT id, CAST((CAST(price AS BIGINT) * 2) AS BIGINT) AS p FROM bid",
)
_DEEPEST = 64


def inline_functions(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with every call of a user's function replaced by its body; raises SqlError for a wrong call."""
    if not any(relation.kind == "function" for relation in text.catalog.relations.values()):
        return tree
    found = _Inliner(text).inline(tree, 0)
    return found.transform(_replace_values, copy=False)


def _replace_values(node: exp.Expr) -> exp.Expr:
    """Write rows of VALUES in which a function in Python is called as queries: Spark computes no such call there."""
    if not isinstance(node, exp.Values) or not any(map(is_python_call, node.find_all(exp.Anonymous))):
        return node
    rows: list[exp.Query] = [
        exp.Select(expressions=[exp.alias_(value, f"col{n}") for n, value in enumerate(_list_cells(row), 1)])
        for row in node.expressions
    ]
    query = reduce(_append_rows, rows)
    return exp.Subquery(this=query, alias=node.args.get("alias"))


def _append_rows(first: exp.Query, second: exp.Query) -> exp.Query:
    return exp.Union(this=first, expression=second, distinct=False)


def _list_cells(row: exp.Expr) -> list[exp.Expr]:
    return row.expressions if isinstance(row, exp.Tuple) else [row]


class _Inliner:
    def __init__(self, text: QueryText) -> None:
        self.catalog, self.dialect, self.sql = text.catalog, text.dialect, text.sql

    def inline(self, tree: exp.Expr, depth: int) -> exp.Expr:
        return tree.transform(lambda node: self._replace_call(node, depth), copy=False)

    def _replace_call(self, node: exp.Expr, depth: int) -> exp.Expr:
        if isinstance(node, exp.Filter | exp.Window):
            return self._replace_aggregate(node, depth)
        relation = find_called_function(node, self.catalog)
        return node if relation is None else self._build_call(node, relation, depth)

    def _replace_aggregate(self, node: exp.Filter | exp.Window, depth: int) -> exp.Expr:
        """Replace the call before FILTER, or refuse that before OVER."""
        call = node.this.this if isinstance(node.this, exp.Filter) else node.this
        relation = find_called_function(call, self.catalog)
        if relation is None:
            return node
        function = decode_python(relation)
        what = "OVER" if isinstance(node, exp.Window) else "FILTER"
        if what == "OVER" or function is None or not function.aggregate:
            hint = (
                "call it without; aggregates in Python take FILTER"
                if what == "FILTER"
                else "call it without a window"
            )
            raise unsupported_error(
                f"{what} of function {relation.name} is not offered", node, self.sql, hint
            )
        where = self.inline(node.expression.this.copy(), depth)
        return self._build_call(call, relation, depth, where)

    def _build_call(
        self, node: exp.Expr, relation: Relation, depth: int, where: exp.Expr | None = None
    ) -> exp.Expr:
        for part in node.expressions:
            if isinstance(part, exp.Distinct | exp.Order | exp.Star | exp.Kwarg | exp.PropertyEQ):
                hint = f"write {relation.name}(a, b) with one value for each parameter"
                message = f"{part.sql()} as an argument of function {relation.name} is not offered"
                raise unsupported_error(message, node, self.sql, hint)
        parameters, _ = read_signature(relation)
        values = [self.inline(argument.copy(), depth) for argument in node.expressions]
        if len(values) != len(parameters):
            expected = ", ".join(f"{name} {kind}" for name, kind in parameters)
            message = f"function {relation.name} takes {len(parameters)} values, {len(values)} are given"
            raise sql_error(message, node, self.sql, f"write {relation.name}({expected})")
        if (function := decode_python(relation)) is not None:
            given = [_cast(value, kind) for value, (_, kind) in zip(values, parameters, strict=True)]
            return copy_location(build_python_call(function, given, where), node)
        macro = decode_macro(relation)
        if relation.dialect != self.dialect and {relation.dialect, self.dialect} & {"spark"}:
            message = f"function {relation.name} was created in dialect {relation.dialect}"
            raise sql_error(
                message,
                node,
                self.sql,
                f"SET dialect = {relation.dialect}, or make it again in {self.dialect}",
            )
        if depth > _DEEPEST:
            raise SqlError(f"function {relation.name} calls itself")
        arguments = {
            name: _cast(argument, kind)
            for (name, kind), argument in zip(macro.parameters, values, strict=True)
        }
        body = _bind_body(parse_body(macro, relation.dialect), arguments)
        body = self.inline(body, depth + 1)
        found = _cast(exp.Paren(this=body), macro.returns)
        for part in body.walk():  # the body stands in another text
            if part.meta.pop("written", None) is None:
                part.meta.pop("start", None)
                part.meta.pop("end", None)
        return copy_location(found, node)


def _bind_body(body: exp.Expr, arguments: dict[str, exp.Expr]) -> exp.Expr:
    def bind_node(node: exp.Expr) -> exp.Expr:
        name = None
        if isinstance(node, exp.Column) and not node.args.get("table"):
            name = normalize_identifier(node.this)
        elif isinstance(node, exp.Parameter | exp.Placeholder) and isinstance(node.this, exp.Literal):
            name = f"${node.this.name}"
        if name not in arguments:
            return node
        argument = arguments[name].copy()
        for part in argument.walk():
            part.meta["written"] = True
        return argument

    return body.transform(bind_node)


def _cast(node: exp.Expr, kind: str) -> exp.Expr:
    inner = (
        node if isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Cast) else exp.Paren(this=node)
    )
    return exp.Cast(this=inner, to=cast_type(kind))
