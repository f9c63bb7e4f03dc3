"""SQL functions of users: what CREATE FUNCTION says, and which calls are of them."""

from __future__ import annotations

import msgspec
import sqlglot.expressions as exp
from sqlglot import TokenType
from sqlglot.errors import ParseError, TokenError

from engine.python_functions.definition import PythonFunction, remember
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.functions import is_aggregate
from engine.sql.parsing.dialect_readers import resolve_dialect
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tokens import tokenize
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.statement_types import CreateFunction

PYTHON, REPLACED = "python", "python_before"
"""The options of a function in Python: what it is, and what it was in plans that are not made anew yet."""


class Macro(msgspec.Struct, frozen=True):
    """A function: parameter names with their types (Spark type strings), the type of its value, its body as it was written."""

    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str


def decode_macro(relation: Relation) -> Macro:
    """Return the macro that a catalog's function holds."""
    return msgspec.json.decode(relation.options["macro"], type=Macro)


def decode_python(relation: Relation) -> PythonFunction | None:
    """Return the function in Python that a catalog's function is, None for one in SQL."""
    text = relation.options.get(PYTHON)
    return None if text is None else remember(msgspec.json.decode(text, type=PythonFunction))


def decode_replaced(relation: Relation) -> tuple[PythonFunction, ...]:
    """Return what a function in Python was before, as far as plans may still call it."""
    text = relation.options.get(REPLACED, "[]")
    return tuple(map(remember, msgspec.json.decode(text, type=tuple[PythonFunction, ...])))


def read_signature(relation: Relation) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return names and types of a function's parameters, and the type of its value."""
    function = decode_python(relation) or decode_macro(relation)
    return function.parameters, function.returns


def parse_body(macro: Macro, dialect: Dialect) -> exp.Expr:
    """Return the expression of a function's body."""
    body: exp.Expr = parse_tree(f"SELECT {macro.body}", dialect).expressions[0]
    return body


def extract_body(statement: CreateFunction, dialect: Dialect) -> str:
    """Return the expression that a function's body is, without the SELECT before it; raises SqlError for anything else."""
    hint = "a function's body is one expression of its parameters: SELECT a + b"
    try:
        tree = parse_tree(statement.body, dialect)
    except (ParseError, TokenError) as error:
        message = f"the body of function {statement.name} cannot be parsed: {statement.body}"
        raise sql_error(message, None, statement.sql, hint) from error
    if isinstance(tree, exp.Select):
        if len(tree.expressions) != 1 or any(v for k, v in tree.args.items() if k != "expressions"):
            raise sql_error(f"the body of function {statement.name} is a query", None, statement.sql, hint)
        tree = tree.expressions[0].unalias()
    if tree.find(exp.Query) is not None or any(is_aggregate(part) for part in tree.walk()):
        raise sql_error(
            f"the body of function {statement.name} is more than one row's expression",
            None,
            statement.sql,
            hint,
        )
    known = {name for name, _ in statement.parameters}
    for column in tree.find_all(exp.Column):
        if normalize_identifier(column.this) not in known or column.args.get("table"):
            message = f"the body of function {statement.name} reads {column.sql()}, which is no parameter"
            raise sql_error(message, column, statement.sql, f"parameters are {', '.join(known) or 'none'}")
    return tree.sql(resolve_dialect(dialect))


def add_parameter_names(text: str, dialect: Dialect) -> str:
    """Return the text of CREATE FUNCTION in which an array without a name has one, which sqlglot asks for: `f("$1" text[])`."""
    tokens = tokenize(text, dialect)
    opens = next((n for n, token in enumerate(tokens) if token.token_type == TokenType.L_PAREN), len(tokens))
    found, depth, number = list[tuple[int, int]](), 0, 0
    for n in range(opens, len(tokens) - 1):
        kind = tokens[n].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            break
        if depth == 1 and kind in (TokenType.L_PAREN, TokenType.COMMA):
            number += 1
            if n + 2 < len(tokens) and tokens[n + 2].token_type == TokenType.L_BRACKET:
                found.append((tokens[n + 1].start, number))
    for start, number in reversed(found):
        text = f'{text[:start]}"${number}" {text[start:]}'
    return text


def list_called_functions(tree: exp.Expr, catalog: Catalog) -> tuple[str, ...]:
    """Return the functions of users that an expression or query calls, each once."""
    found = (find_called_function(node, catalog) for node in tree.walk())
    return tuple(dict.fromkeys(relation.name for relation in found if relation is not None))


def find_called_function(node: exp.Expr, catalog: Catalog) -> Relation | None:
    """Return the function of a user that a node calls, if it is such a call."""
    if not isinstance(node, exp.Anonymous):
        return None
    if isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
        return None  # what stands before it is no schema of the store
    name = str(node.name)
    quoted = isinstance(node.this, exp.Identifier) and bool(node.this.args.get("quoted"))
    relation = catalog.relations.get(name if quoted and name in catalog.relations else name.lower())
    return relation if relation is not None and relation.kind == "function" else None
