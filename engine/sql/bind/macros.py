"""SQL functions of users: a call is replaced by the function's body before the query is bound."""

from __future__ import annotations

import msgspec
import sqlglot.expressions as exp
from sqlglot.errors import ParseError, TokenError

from engine.errors import SqlError
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.functions import is_aggregate
from engine.sql.parsing.names import identifier
from engine.sql.parsing.parsed import parsed
from engine.sql.parsing.position import copy_place
from engine.sql.parsing.refusals import mistake
from engine.sql.statements.statement_types import CreateFunction
from engine.sql.typing.types import cast_type

_DEEPEST = 64


class Macro(msgspec.Struct, frozen=True):
    """A function: parameter names with their types (Spark type strings), the type of its value, its body as it was written."""

    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str


def macro_of(relation: Relation) -> Macro:
    """Return the macro that a catalog's function holds."""
    return msgspec.json.decode(relation.options["macro"], type=Macro)


def body_of(macro: Macro, dialect: Dialect) -> exp.Expr:
    """Return the expression of a function's body."""
    body: exp.Expr = parsed(f"SELECT {macro.body}", dialect).expressions[0]
    return body


def function_body(statement: CreateFunction, dialect: Dialect) -> str:
    """Return the expression that a function's body is, without the SELECT before it; raises SqlError for anything else."""
    hint = "a function's body is one expression of its parameters: SELECT a + b"
    try:
        tree = parsed(statement.body, dialect)
    except (ParseError, TokenError) as error:
        message = f"the body of function {statement.name} cannot be parsed: {statement.body}"
        raise mistake(message, None, statement.sql, hint) from error
    if isinstance(tree, exp.Select):
        if len(tree.expressions) != 1 or any(v for k, v in tree.args.items() if k != "expressions"):
            raise mistake(f"the body of function {statement.name} is a query", None, statement.sql, hint)
        tree = tree.expressions[0].unalias()
    if tree.find(exp.Query) is not None or any(is_aggregate(part) for part in tree.walk()):
        raise mistake(
            f"the body of function {statement.name} is more than one row's expression",
            None,
            statement.sql,
            hint,
        )
    known = {name for name, _ in statement.parameters}
    for column in tree.find_all(exp.Column):
        if identifier(column.this) not in known or column.args.get("table"):
            message = f"the body of function {statement.name} reads {column.sql()}, which is no parameter"
            raise mistake(message, column, statement.sql, f"parameters are {', '.join(known) or 'none'}")
    return tree.sql(dialect)


def functions_called(tree: exp.Expr, catalog: Catalog) -> tuple[str, ...]:
    """Return the functions of users that an expression or query calls, each once."""
    found = (_called(node, catalog) for node in tree.walk())
    return tuple(dict.fromkeys(relation.name for relation in found if relation is not None))


def inline_functions(tree: exp.Expr, catalog: Catalog, dialect: Dialect, sql: str) -> exp.Expr:
    """Return the tree with every call of a user's function replaced by its body; raises SqlError for a wrong call."""
    if not any(relation.kind == "function" for relation in catalog.relations.values()):
        return tree
    return _Inliner(catalog, dialect, sql).inlined(tree, 0)


class _Inliner:
    def __init__(self, catalog: Catalog, dialect: Dialect, sql: str) -> None:
        self.catalog, self.dialect, self.sql = catalog, dialect, sql

    def inlined(self, tree: exp.Expr, depth: int) -> exp.Expr:
        return tree.transform(lambda node: self._replaced(node, depth), copy=False)

    def _replaced(self, node: exp.Expr, depth: int) -> exp.Expr:
        relation = _called(node, self.catalog)
        if relation is None:
            return node
        macro = macro_of(relation)
        given = [self.inlined(argument.copy(), depth) for argument in node.expressions]
        if len(given) != len(macro.parameters):
            wanted = ", ".join(f"{name} {kind}" for name, kind in macro.parameters)
            message = f"function {relation.name} takes {len(macro.parameters)} values, {len(given)} are given"
            raise mistake(message, node, self.sql, f"write {relation.name}({wanted})")
        if relation.dialect != self.dialect and {relation.dialect, self.dialect} & {"spark"}:
            message = f"function {relation.name} was made in dialect {relation.dialect}"
            raise mistake(
                message,
                node,
                self.sql,
                f"SET dialect = {relation.dialect}, or make it again in {self.dialect}",
            )
        if depth > _DEEPEST:
            raise SqlError(f"function {relation.name} calls itself")
        arguments = {
            name: _cast(argument, kind)
            for (name, kind), argument in zip(macro.parameters, given, strict=True)
        }
        body = _bound_body(body_of(macro, relation.dialect), arguments)
        body = self.inlined(body, depth + 1)
        found = _cast(exp.Paren(this=body), macro.returns)
        for part in body.walk():  # the body stands in another text
            if part.meta.pop("written", None) is None:
                part.meta.pop("start", None)
                part.meta.pop("end", None)
        return copy_place(found, node)


def _bound_body(body: exp.Expr, arguments: dict[str, exp.Expr]) -> exp.Expr:
    def bind(node: exp.Expr) -> exp.Expr:
        name = None
        if isinstance(node, exp.Column) and not node.args.get("table"):
            name = identifier(node.this)
        elif isinstance(node, exp.Parameter | exp.Placeholder) and isinstance(node.this, exp.Literal):
            name = f"${node.this.name}"
        if name not in arguments:
            return node
        argument = arguments[name].copy()
        for part in argument.walk():
            part.meta["written"] = True
        return argument

    return body.transform(bind)


def _cast(node: exp.Expr, kind: str) -> exp.Expr:
    inner = (
        node if isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Cast) else exp.Paren(this=node)
    )
    return exp.Cast(this=inner, to=cast_type(kind))


def _called(node: exp.Expr, catalog: Catalog) -> Relation | None:
    if not isinstance(node, exp.Anonymous):
        return None
    relation = catalog.relations.get(str(node.name).lower())
    return relation if relation is not None and relation.kind == "function" else None
