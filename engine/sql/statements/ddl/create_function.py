"""CREATE FUNCTION and CREATE AGGREGATE: sqlglot's trees -> typed statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import sqlglot.expressions as exp
from sqlglot.errors import ParseError, TokenError

from engine.errors import SqlError
from engine.python_functions.definition import PythonFunction
from engine.python_functions.source import WrongSource, check_source, tidy_source
from engine.sql.catalog import check_relation_name
from engine.sql.dialect import DIALECTS, Dialect
from engine.sql.functions import load_spark_functions
from engine.sql.parsing.dialect_readers import resolve_dialect
from engine.sql.parsing.location import locate
from engine.sql.parsing.names import normalize_identifier, resolve_table_name
from engine.sql.parsing.statement_errors import sql_error, unsupported_error
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.schemas import strip_schema
from engine.sql.statements.statement_types import CreateFunction
from engine.sql.typing.types import parse_sql_type, parse_type

_FORM = "CREATE FUNCTION f(a INT, b INT) RETURNS INT LANGUAGE SQL AS 'SELECT a + b'"
_PYTHON_FORM = (
    "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python DETERMINISTIC AS $$ def f(a): return a + 1 $$"
)
_MOST_CHARACTERS = 1 << 17
"""Of a function's text: it is in the catalog, and goes to each task that calls it."""


@dataclass(frozen=True)
class _Said:
    """What is said of a function between its parameters and its body."""

    language: Literal["sql", "python"] = "sql"
    returns: exp.DataType | None = None
    deterministic: bool = False
    strict: bool = False


def build_function(tree: exp.Create, sql: str, dialect: Dialect) -> CreateFunction:
    """Return the statement that a CREATE FUNCTION is; raises SqlError or UnsupportedSql with the place."""
    if not isinstance(tree.this, exp.UserDefinedFunction):
        raise sql_error("a function needs parameters", tree.this, sql, _FORM)
    name = check_relation_name(resolve_table_name(tree.this, sql), "function", sql, *locate(tree.this, sql))
    if name in load_spark_functions():
        raise sql_error(f"there is a built-in function {name}", tree.this, sql, "choose another name")
    said = _read_properties(tree, sql)
    if said.returns is None:
        raise sql_error(f"function {name} needs RETURNS and a type", tree.this, sql, _FORM)
    callers = DIALECTS if said.language == "python" else (dialect,)
    own = _find_other_reading(strip_schema(name), len(tree.this.expressions), callers)
    if own is not None:
        message = (
            f"{name}(…) means something else in dialect {own}, so that nothing could call function {name}"
        )
        raise sql_error(message, tree.this, sql, "choose another name")
    text = _read_body(tree, sql, name, dialect, said.language)
    _refuse_modifiers(tree.this.expressions, sql)
    if said.language == "python":
        _refuse_documents([*tree.this.expressions, said.returns], sql, dialect)
    elif said.strict:
        raise unsupported_error("STRICT of a function in SQL is not offered", tree.this, sql, _FORM)
    return CreateFunction(
        name,
        tuple(_read_parameter_types(tree.this.expressions, dialect)),
        parse_type(said.returns, dialect),
        text,
        bool(tree.args.get("exists")),
        sql,
        said.language,
        said.strict,
        said.deterministic,
        replaces=bool(tree.args.get("replace")),
    )


def mark_aggregate(function: CreateFunction) -> CreateFunction:
    """Return the statement of CREATE AGGREGATE that was read as a CREATE FUNCTION."""
    if function.language != "python":
        hint = "write LANGUAGE python, with create_state, accumulate and finish in the body"
        raise unsupported_error("CREATE AGGREGATE in SQL is not offered", None, function.sql, hint)
    if not function.parameters:
        raise sql_error(
            f"aggregate {function.name} needs a parameter", None, function.sql, f"{function.name}(a INT)"
        )
    return replace(function, aggregate=True)


def build_definition(statement: CreateFunction) -> PythonFunction:
    """Return the function in Python that a statement creates; raises SqlError for a text that is none. Nothing of it runs."""
    function = PythonFunction(
        statement.name,
        statement.parameters,
        statement.returns,
        tidy_source(statement.body),
        statement.strict,
        statement.deterministic,
        statement.aggregate,
    )
    if len(function.body) > _MOST_CHARACTERS:
        message = f"the body of function {statement.name} has more than {_MOST_CHARACTERS} characters"
        raise sql_error(message, None, statement.sql, "import what is large from a package")
    try:
        check_source(function)
    except WrongSource as error:
        message = f"the body of function {statement.name} cannot be called: {error}"
        hint = f"{error.hint} (line {error.line} of the body)" if error.line else error.hint
        raise sql_error(message, None, statement.sql, hint) from error
    return function


def _find_other_reading(name: str, count: int, dialects: Iterable[Dialect]) -> Dialect | None:
    """Return a dialect that has a form of its own for a call by a name; None where all read the call of a user's function."""
    if not name.isidentifier() or name != name.lower():
        return None  # it is called in quotes
    text = f"SELECT {name}({', '.join(f'a{n}' for n in range(count))})"
    for dialect in dialects:
        try:
            found = parse_tree(text, dialect).expressions[0]
        except (ParseError, TokenError, SqlError):
            return dialect
        if not isinstance(found, exp.Anonymous) or found.name.lower() != name:
            return dialect
    return None


def _read_properties(tree: exp.Create, sql: str) -> _Said:
    said = _Said()
    for item in (tree.args.get("properties") or exp.Properties(expressions=[])).expressions:
        match item:
            case exp.LanguageProperty():
                language = item.this.name.lower()
                if language not in ("sql", "python"):
                    message, hint = (
                        f"functions in {language.upper()} are not offered",
                        "write LANGUAGE SQL or LANGUAGE python",
                    )
                    raise unsupported_error(message, tree.this, sql, hint)
                said = replace(said, language="python" if language == "python" else "sql")
            case exp.ReturnsProperty() if item.args.get("null"):
                said = replace(said, strict=True)
            case exp.ReturnsProperty() if not item.args.get("is_table") and isinstance(
                item.this, exp.DataType
            ):
                said = replace(said, returns=item.this)
            case exp.StrictProperty():
                said = replace(said, strict=True)
            case exp.StabilityProperty():
                said = replace(said, deterministic=item.this.name.upper() == "IMMUTABLE")
            case exp.CalledOnNullInputProperty():
                said = replace(said, strict=False)
            case _:
                hint = _PYTHON_FORM if said.language == "python" else _FORM
                raise unsupported_error(f"{item.sql()} of a function is not offered", tree.this, sql, hint)
    return said


def _read_body(tree: exp.Create, sql: str, name: str, dialect: Dialect, language: str) -> str:
    body = tree.expression
    if isinstance(body, exp.Heredoc | exp.RawString) or (isinstance(body, exp.Literal) and body.is_string):
        written = str(body.name)
        return written if language == "python" else written.strip().rstrip(";")
    if language == "python":
        raise sql_error(f"function {name} has no body in quotes or dollars", tree.this, sql, _PYTHON_FORM)
    if isinstance(body, exp.Return):
        body = body.this
    elif not isinstance(body, exp.Query):
        raise sql_error(f"function {name} has no body", tree.this, sql, _FORM)
    text: str = body.sql(resolve_dialect(dialect))
    return text.strip().rstrip(";")


def _refuse_documents(parts: list[exp.Expr], sql: str, dialect: Dialect) -> None:
    """Raise UnsupportedSql for json and jsonb, which Spark has as texts."""
    for part in parts:
        kind = part.args.get("kind") if isinstance(part, exp.ColumnDef) else part
        kind = (
            kind if isinstance(kind, exp.DataType) else exp.DataType.build(part.sql(dialect), dialect=dialect)
        )
        if "json" in parse_sql_type(kind, dialect):
            hint = "take TEXT, and read it by json.loads"
            raise unsupported_error("json and jsonb of a function in Python are not offered", part, sql, hint)


def _refuse_modifiers(parameters: list[exp.Expr], sql: str) -> None:
    """Raise UnsupportedSql, with the place, for what is said of a parameter beside its name and type."""
    for part in parameters:
        for said in part.args.get("constraints") or ():
            kind = said.args.get("kind") or said if isinstance(said, exp.ColumnConstraint) else said
            plain = isinstance(kind, exp.InOutColumnConstraint) and not (
                kind.args.get("output") or kind.args.get("variadic")
            )
            if not plain and not isinstance(kind, exp.CommentColumnConstraint):
                hint = "leave it out, and pass each value"
                raise unsupported_error(f"{said.sql()} of a parameter is not offered", part, sql, hint)


def _read_parameter_types(parts: list[exp.Expr], dialect: Dialect) -> list[tuple[str, str]]:
    """Return name and type of each parameter of CREATE FUNCTION; a parameter without a name is $1, $2 and so on."""
    found = []
    for n, part in enumerate(parts, 1):
        if isinstance(part, exp.ColumnDef) and part.args.get("kind") is not None:
            found.append((normalize_identifier(part.this), parse_type(part.args["kind"], dialect)))
        else:
            kind = exp.DataType.build(part.sql(dialect), dialect=dialect)
            found.append((f"${n}", parse_type(kind, dialect)))
    return found
