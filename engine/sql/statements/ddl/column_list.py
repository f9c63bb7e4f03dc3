"""The column list of CREATE TABLE: names, types, keys, defaults and generated columns."""

from __future__ import annotations

import msgspec
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.jsonb.text import NotJson, normalize_json
from engine.sql.catalog import RelationColumn, check_name
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.strings.bytea import convert_for_column
from engine.sql.parsing.location import copy_location, locate
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error, unsupported_error
from engine.sql.statements.ddl.defaults import render_default, render_generated
from engine.sql.statements.dml.literal_rows import NotLiteral, find_misfit, read_literal
from engine.sql.typing.expression_types import infer_exact_type
from engine.sql.typing.text_lengths import parse_length
from engine.sql.typing.types import TYPE_NAMES, parse_sql_type, parse_type
from engine.sql.typing.wrong_literals import refuse_type, refuse_wrong

_COUNTED = (exp.DataType.Type.SERIAL, exp.DataType.Type.BIGSERIAL, exp.DataType.Type.SMALLSERIAL)
_NUMBERED = "write each row's number, as BIGINT; rows of a table without a PRIMARY KEY need none"


def _strip_name(item: exp.Expr) -> exp.Expr:
    """Return a key that has a name as one without: `CONSTRAINT t_key PRIMARY KEY (id)`."""
    inner = item.expressions if isinstance(item, exp.Constraint) else []
    return inner[0] if len(inner) == 1 and isinstance(inner[0], exp.PrimaryKey) else item


def read_columns(
    schema: exp.Schema, table: str, sql: str, dialect: Dialect
) -> tuple[tuple[RelationColumn, ...], tuple[str, ...]]:
    """Return columns and primary key of a column list; raises SqlError or UnsupportedSql with the place."""
    columns: dict[str, RelationColumn] = {}
    keys: list[tuple[tuple[str, ...], exp.Expr]] = []
    generated: dict[str, exp.Expr] = {}
    for item in map(_strip_name, schema.expressions):
        if isinstance(item, exp.PrimaryKey):
            keys.append((_read_key(item), item))
            continue
        if not isinstance(item, exp.ColumnDef) or item.args.get("kind") is None:
            hint = "write: name TYPE [NOT NULL] [DEFAULT …] [GENERATED ALWAYS AS (…)] [PRIMARY KEY]"
            raise unsupported_error(f"{item.sql()} is not offered in a column list", item, sql, hint)
        column, is_key, computed = read_column(item, sql, dialect)
        if column.name.lower() in (name.lower() for name in columns):
            raise sql_error(f"column {column.name} occurs twice", item, sql, "give one of them another name")
        columns[column.name] = column
        if computed is not None:
            generated[column.name] = computed
        if is_key:
            keys.append(((column.name,), item))
    if len(keys) > 1:
        hint = "write one PRIMARY KEY (a, b) after the columns"
        raise sql_error(f"table {table} has two primary keys", keys[1][1], sql, hint)
    for key, node in keys:
        _check_key(key, tuple(columns), tuple(generated), table, node, sql)
    plain = {name: column.type for name, column in columns.items() if name not in generated}
    for name, node in generated.items():
        text = render_generated(node, name, plain, dialect, sql)
        columns[name] = msgspec.structs.replace(columns[name], generated=text)
    chosen = keys[0][0] if keys else ()
    listed = (
        msgspec.structs.replace(
            column, nullable=column.nullable and not _needs_value(column.name in chosen, dialect)
        )
        for column in columns.values()
    )
    return tuple(listed), chosen


def find_lone_key(schema: exp.Schema, sql: str) -> tuple[str, ...] | None:
    """Return the key of a list that holds nothing but PRIMARY KEY (…), as CREATE TABLE AS takes it; else None."""
    items = schema.expressions
    return _read_key(items[0]) if len(items) == 1 and isinstance(items[0], exp.PrimaryKey) else None


def _check_key(
    key: tuple[str, ...],
    columns: tuple[str, ...],
    generated: tuple[str, ...],
    table: str,
    node: exp.Expr,
    sql: str,
) -> None:
    for n, part in enumerate(key):
        if part not in columns:
            message = f"PRIMARY KEY names {part}, which is no column of {table}"
            raise sql_error(message, node, sql, f"columns are {', '.join(columns)}")
        if part in key[:n]:
            raise sql_error(f"PRIMARY KEY names {part} twice", node, sql, "name each column once")
        if part in generated:
            raise sql_error(
                f"PRIMARY KEY names the generated column {part}", node, sql, "take another column"
            )


def _read_key(item: exp.PrimaryKey) -> tuple[str, ...]:
    parts = [part.this if isinstance(part, exp.Ordered) else part for part in item.expressions]
    return tuple(normalize_identifier(part.this if isinstance(part, exp.Column) else part) for part in parts)


def read_column(
    item: exp.ColumnDef, sql: str, dialect: Dialect
) -> tuple[RelationColumn, bool, exp.Expr | None]:
    """Return a column, whether it is the primary key, and the expression that it is generated from."""
    nullable, is_key = True, False
    default: exp.Expr | None = None
    computed: exp.Expr | None = None
    comment = None
    for constraint in item.args.get("constraints") or ():
        kind = constraint.args.get(
            "kind"
        )  # the property of that name fails on what the parser should not have taken
        match kind:
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case exp.NotNullColumnConstraint():
                nullable = bool(kind.args.get("allow_null"))
            case exp.DefaultColumnConstraint():
                default = kind.this
            case exp.ComputedColumnConstraint():
                computed = kind.this
            case exp.GeneratedAsIdentityColumnConstraint() if kind.expression is not None:
                computed = kind.expression
            case exp.CommentColumnConstraint():
                comment = kind.name
            case exp.GeneratedAsIdentityColumnConstraint():
                raise unsupported_error(
                    f"column {item.name}: an identity column is not offered", item, sql, _NUMBERED
                )
            case _:
                hint = "take it out: NOT NULL, DEFAULT, GENERATED ALWAYS AS (…), COMMENT and PRIMARY KEY are offered"
                raise unsupported_error(f"{constraint.sql()} is not offered", item, sql, hint)
    name = check_name(normalize_identifier(item.this), "column", sql, *locate(item, sql))
    kind_text, sql_type = _resolve_types(item, name, sql, dialect)
    if default is not None and computed is not None:
        raise sql_error(f"column {name} is generated and has a DEFAULT", item, sql, "leave one of them out")
    if default is not None:
        default = _read_default(default, kind_text, sql_type, sql) if dialect != "spark" else default
        refuse_wrong(default, kind_text, name, sql)
        refuse_type(infer_exact_type(default, {}), kind_text, name, default, sql)
    text = None if default is None else render_default(default, name, dialect, sql)
    column = _apply_length(
        RelationColumn(
            name,
            kind_text,
            nullable and not _needs_value(is_key, dialect),
            text,
            comment=comment,
            sql_type=None if sql_type == kind_text else sql_type,
        ),
        item,
        sql,
        dialect,
    )
    wrong = _find_misfit(default, column, dialect) if default is not None else None
    if wrong is not None:
        raise sql_error(f"the DEFAULT does not fit: {wrong[0]}", default, sql, wrong[1])
    return column, is_key, computed


def _resolve_types(item: exp.ColumnDef, name: str, sql: str, dialect: Dialect) -> tuple[str, str]:
    """Return a column's type as it is stored and as SQL sees it; raises UnsupportedSql for one that no column can have."""
    kind = item.args["kind"]
    try:
        stored = parse_type(kind, dialect)
        return stored, stored if dialect == "spark" else parse_sql_type(kind, dialect)
    except UnsupportedSql as error:
        hint = _NUMBERED if kind.this in _COUNTED else TYPE_NAMES
        raise unsupported_error(f"column {name}: {error.message}", item, sql, hint) from error


def _read_default(node: exp.Expr, kind: str, sql_type: str, sql: str) -> exp.Expr:
    """Return a DEFAULT whose text in quotes is read as its column's type: bytes, or jsonb in its normal form."""
    node = convert_for_column(node, kind, sql)
    if sql_type == "jsonb" and isinstance(node, exp.Literal) and node.is_string:
        try:
            return copy_location(exp.Literal.string(normalize_json(node.name)), node)
        except NotJson as error:
            raise sql_error(f"the DEFAULT does not fit: {error}", node, sql, "write JSON") from error
    return node


def _needs_value(is_key: bool, dialect: Dialect) -> bool:
    """Tell whether a column needs a value because of the key: in RisingWave a null is one of its values."""
    return is_key and dialect != "risingwave"


def _find_misfit(default: exp.Expr, column: RelationColumn, dialect: Dialect) -> tuple[str, str] | None:
    """Return what is wrong with a literal that a column cannot hold, and the remedy."""
    try:
        return find_misfit(read_literal(default, column.type, dialect), column)
    except NotLiteral:
        return None


def _apply_length(column: RelationColumn, item: exp.ColumnDef, sql: str, dialect: Dialect) -> RelationColumn:
    """Return a column with the length that its type gives its texts; raises SqlError for a length that there is not."""
    kind = item.args["kind"]
    for part in kind.find_all(exp.DataType):
        if part is not kind and parse_length(part, "spark")[0] is not None:
            hint = "write TEXT or STRING there"
            raise unsupported_error(
                f"column {column.name}: the length of a text inside {kind.sql()} is not kept", item, sql, hint
            )
    length, fixed = parse_length(kind, dialect)
    if length == 0:
        raise sql_error(
            f"column {column.name}: a text needs a length of at least 1",
            item,
            sql,
            "write VARCHAR(1) or more",
        )
    return msgspec.structs.replace(column, length=length, fixed=fixed)
