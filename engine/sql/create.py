"""CREATE and DROP: sqlglot's trees -> typed statements."""

from __future__ import annotations

import sqlglot
import sqlglot.expressions as exp
from sqlglot.tokens import TokenType

from engine.errors import UnsupportedSql
from engine.sql.catalog import Column, check_name
from engine.sql.names import identifier, table_name
from engine.sql.position import place
from engine.sql.refusals import mistake, not_offered, unsupported
from engine.sql.statement_types import CreateMaterializedView, CreateTable, CreateView, Drop
from engine.sql.types import parse_type


def create(
    tree: exp.Create, readable: str, sql: str, dialect: str, append_only: bool
) -> CreateTable | CreateMaterializedView | CreateView:
    """Return the statement that a CREATE is; raises SqlError or UnsupportedSql with the place.

    `readable` is the text that was parsed: that of `sql`, blank where something stood that sqlglot does not read.
    """
    kind = str(tree.args.get("kind")).upper()
    if kind not in ("TABLE", "VIEW"):
        raise not_offered(sql)
    if tree.args.get("replace"):
        raise unsupported("CREATE OR REPLACE is not offered", None, sql, "DROP it, then CREATE")
    options, materialized = _properties(tree, sql)
    exists = bool(tree.args.get("exists"))
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    name = check_name(table_name(target, sql), kind.lower(), sql, *place(target, sql))
    if kind == "VIEW":
        return _view(tree, name, options, exists, materialized, sql, query_text(readable, dialect))
    if tree.expression is not None:
        return CreateTable(name, (), (), append_only, exists, options, tree.expression, sql)
    if not isinstance(tree.this, exp.Schema):
        hint = "CREATE TABLE t (id BIGINT PRIMARY KEY, …)"
        raise mistake(f"table {name} needs columns", target, sql, hint)
    columns, key = _columns(tree.this, name, sql, dialect)
    if not key and not append_only:
        hint = "give it a PRIMARY KEY, or write APPEND ONLY after the column list"
        raise mistake(f"table {name} has no key", target, sql, hint)
    return CreateTable(name, columns, key, append_only, exists, options, None, sql)


def _view(
    tree: exp.Create,
    name: str,
    options: dict[str, str],
    exists: bool,
    materialized: bool,
    sql: str,
    text: str,
) -> CreateMaterializedView | CreateView:
    query = tree.expression
    if isinstance(tree.this, exp.Schema):
        hint = "name the columns in the SELECT list with AS"
        raise unsupported("a column list after the view's name is not offered", tree.this, sql, hint)
    if not isinstance(query, exp.Query):
        raise mistake("a view needs AS SELECT …", tree.this, sql, "CREATE VIEW v AS SELECT …")
    if materialized:
        return CreateMaterializedView(name, query, text, options, exists, sql)
    if options:
        hint = "leave it out, or CREATE MATERIALIZED VIEW"
        raise unsupported("WITH options of a plain view are not offered", tree.this, sql, hint)
    return CreateView(name, query, text, exists, sql)


def query_text(sql: str, dialect: str) -> str:
    """Return the query of a CREATE … AS statement as it was written."""
    depth = 0
    for token in sqlglot.tokenize(sql, read=dialect):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.ALIAS and depth == 0:
            return sql[token.end + 1 :].strip()
    return sql


def _properties(tree: exp.Create, sql: str) -> tuple[dict[str, str], bool]:
    options, materialized = {}, False
    for item in (tree.args.get("properties") or exp.Properties(expressions=[])).expressions:
        if isinstance(item, exp.MaterializedProperty):
            materialized = True
        elif isinstance(item, exp.Property) and type(item) is exp.Property:
            options[item.name.lower()] = item.args["value"].name
        elif isinstance(item, exp.FileFormatProperty):
            options["format"] = item.this.name
        elif isinstance(item, exp.LocationProperty):
            options["path"] = item.this.name
        else:
            hint = "options go into WITH (name = 'value', …)"
            raise unsupported(f"{item.sql()} is not offered", item, sql, hint)
    return options, materialized


def _columns(
    schema: exp.Schema, table: str, sql: str, dialect: str
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return columns and primary key of a column list."""
    columns: dict[str, Column] = {}
    keys: list[tuple[tuple[str, ...], exp.Expression]] = []
    for item in schema.expressions:
        if isinstance(item, exp.PrimaryKey):
            keys.append((_key(item), item))
            continue
        if isinstance(item, exp.WatermarkColumnConstraint):
            raise not_offered(sql)
        if not isinstance(item, exp.ColumnDef) or item.args.get("kind") is None:
            hint = "write: name TYPE [NOT NULL] [DEFAULT …] [PRIMARY KEY]"
            raise unsupported(f"{item.sql()} is not offered in a column list", item, sql, hint)
        column, is_key = _column(item, sql, dialect)
        if column.name.lower() in (name.lower() for name in columns):
            raise mistake(f"column {column.name} stands twice", item, sql, "give one of them another name")
        columns[column.name] = column
        if is_key:
            keys.append(((column.name,), item))
    if len(keys) > 1:
        hint = "write one PRIMARY KEY (a, b) after the columns"
        raise mistake(f"table {table} has two primary keys", keys[1][1], sql, hint)
    for key, node in keys:
        for n, part in enumerate(key):
            if part not in columns:
                message = f"PRIMARY KEY names {part}, which is no column of {table}"
                raise mistake(message, node, sql, f"columns are {', '.join(columns)}")
            if part in key[:n]:
                raise mistake(f"PRIMARY KEY names {part} twice", node, sql, "name each column once")
    chosen = keys[0][0] if keys else ()
    listed = (
        Column(c.name, c.type, False, c.default, False, c.comment) if c.name in chosen else c
        for c in columns.values()
    )
    return tuple(listed), chosen


def _key(item: exp.PrimaryKey) -> tuple[str, ...]:
    parts = [part.this if isinstance(part, exp.Ordered) else part for part in item.expressions]
    return tuple(identifier(part.this if isinstance(part, exp.Column) else part) for part in parts)


def _column(item: exp.ColumnDef, sql: str, dialect: str) -> tuple[Column, bool]:
    nullable, default, comment, is_key = True, None, None, False
    for constraint in item.args.get("constraints") or ():
        kind = constraint.kind
        match kind:
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case exp.NotNullColumnConstraint():
                nullable = bool(kind.args.get("allow_null"))
            case exp.DefaultColumnConstraint():
                default = kind.this.sql("spark")
            case exp.CommentColumnConstraint():
                comment = kind.name
            case _:
                hint = "take it out: NOT NULL, DEFAULT, COMMENT and PRIMARY KEY are offered"
                raise unsupported(f"{constraint.sql()} is not offered", item, sql, hint)
    name = check_name(identifier(item.this), "column", sql, *place(item, sql))
    try:
        kind_text = parse_type(item.args["kind"], dialect)
    except UnsupportedSql as error:
        hint = "types are BOOLEAN, INT and its sizes, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, ARRAY, MAP, STRUCT"
        raise unsupported(f"column {name}: {error.message}", item, sql, hint) from error
    return Column(name, kind_text, nullable and not is_key, default, False, comment), is_key


def drop(tree: exp.Drop, sql: str) -> Drop:
    """Return the statement that a DROP is; raises UnsupportedSql for what cannot be dropped."""
    kind = str(tree.args.get("kind")).lower()
    if kind == "view" and tree.args.get("materialized"):
        kind = "materialized view"
    if kind not in ("table", "view", "materialized view"):
        hint = "DROP TABLE, VIEW or MATERIALIZED VIEW"
        raise unsupported(f"DROP {kind.upper()} is not offered", None, sql, hint)
    tables = tree.args.get("tables") or [tree.this]
    if len(tables) != 1:
        raise unsupported("DROP takes one name", tables[1], sql, "drop them one by one")
    exists, cascade = bool(tree.args.get("exists")), bool(tree.args.get("cascade"))
    return Drop(kind, table_name(tables[0], sql), exists, cascade, sql)
