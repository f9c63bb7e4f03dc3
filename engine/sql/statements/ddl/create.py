"""CREATE and DROP: sqlglot's trees -> typed statements."""

from __future__ import annotations

from dataclasses import replace

import sqlglot.expressions as exp
from sqlglot import TokenType

from engine.sql.catalog import RelationColumn, RelationKind, Watermark, check_name, check_relation_name
from engine.sql.dialect import Dialect
from engine.sql.parsing.location import locate
from engine.sql.parsing.names import normalize_identifier, resolve_table_name
from engine.sql.parsing.statement_errors import (
    build_statement_error,
    find_offset,
    sql_error,
    unsupported_error,
    unsupported_error_at,
)
from engine.sql.parsing.tokens import tokenize
from engine.sql.schemas import schema_of, strip_schema
from engine.sql.statements.ddl.column_list import find_lone_key, read_columns
from engine.sql.statements.ddl.create_clauses import Clauses
from engine.sql.statements.ddl.create_function import build_function
from engine.sql.statements.ddl.watermark_clause import build_watermark
from engine.sql.statements.options.delta_options import check_option_places, split_options
from engine.sql.statements.options.view_options import check_view_options, normalize_names
from engine.sql.statements.statement_types import (
    CreateFunction,
    CreateIndex,
    CreateMaterializedView,
    CreateTable,
    CreateView,
    Drop,
)

_DOCUMENTS = (exp.DataType.Type.JSON, exp.DataType.Type.JSONB, exp.DataType.Type.VARIANT)
_DROPPED: tuple[RelationKind, ...] = ("table", "view", "materialized view", "index", "function", "sink")

_APPEND_ONLY = frozenset(("appendonly", "append_only"))
"""The options by which RisingWave says APPEND ONLY."""


def build_create(
    tree: exp.Create, clauses: Clauses, sql: str, dialect: Dialect
) -> CreateTable | CreateMaterializedView | CreateView | CreateIndex | CreateFunction:
    """Return the statement that a CREATE is; raises SqlError or UnsupportedSql with the place.

    `clauses` hold the text that was parsed: that of `sql`, blank where something stood that sqlglot does not read.
    """
    kind = str(tree.args.get("kind")).upper()
    if tree.args.get("replace") and kind in ("TABLE", "INDEX"):
        raise unsupported_error("CREATE OR REPLACE is not offered", None, sql, "DROP it, then CREATE")
    if kind == "INDEX":
        return _build_index(tree, sql)
    if kind == "FUNCTION":
        return build_function(tree, sql, dialect)
    if kind not in ("TABLE", "VIEW"):
        raise build_statement_error(sql)
    more, places, materialized = _read_properties(tree, sql)
    if materialized and kind == "VIEW":
        check_option_places(more, places, sql)
    clauses = replace(clauses, options={**more, **clauses.options}, places={**places, **clauses.places})
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    name = check_relation_name(resolve_table_name(target, sql), kind.lower(), sql, *locate(target, sql))
    if kind == "VIEW":
        return _build_view(tree, name, clauses, materialized, sql, dialect)
    return _build_table(tree, name, clauses, sql, dialect)


def _build_table(tree: exp.Create, name: str, clauses: Clauses, sql: str, dialect: Dialect) -> CreateTable:
    exists, options = bool(tree.args.get("exists")), dict(clauses.options)
    append_only, on_conflict = clauses.append_only, clauses.on_conflict
    if clauses.on_window_close:
        hint = "CREATE MATERIALIZED VIEW: a table holds the rows that are written to it"
        raise unsupported_error("EMIT ON WINDOW CLOSE of a table is not offered", tree.this, sql, hint)
    for name_of_option in _APPEND_ONLY & {*options} if dialect != "spark" else ():
        append_only |= options.pop(name_of_option).lower() == "true"
    if append_only and on_conflict not in ("", "ignore"):
        hint = "leave APPEND ONLY out, or write ON CONFLICT IGNORE"
        raise sql_error(
            f"rows of an APPEND ONLY table are never changed, ON CONFLICT {on_conflict.upper()} would",
            None,
            sql,
            hint,
        )
    if isinstance(tree.expression, exp.Values):
        tree.set("expression", as_query(tree.expression))
    if tree.expression is not None and clauses.watermark is not None:
        hint = "CREATE TABLE with its columns and the watermark, then INSERT … SELECT"
        raise unsupported_error("WATERMARK FOR before AS SELECT is not offered", tree.this, sql, hint)
    if tree.expression is not None:
        key: tuple[str, ...] = ()
        if isinstance(tree.this, exp.Schema):
            found = find_lone_key(tree.this, sql)
            if found is None:
                hint = "the columns are those of the SELECT; only PRIMARY KEY (…) may stand in the list"
                raise unsupported_error("a column list before AS SELECT is not offered", tree.this, sql, hint)
            key = found
        query, places = tree.expression, clauses.places
        if clauses.version_columns:
            hint = "CREATE TABLE with its columns, then INSERT … SELECT"
            raise unsupported_error(
                "WITH VERSION COLUMN before AS SELECT is not offered", tree.this, sql, hint
            )
        return CreateTable(name, (), key, append_only, exists, options, query, sql, on_conflict, places)
    if not isinstance(tree.this, exp.Schema):
        hint = f"write them behind its name: (id BIGINT{'' if 'connector' in options else ' PRIMARY KEY'}, …)"
        raise sql_error(f"{name} needs columns", tree.this, sql, hint)
    only = find_lone_key(tree.this, sql)
    if only is not None and "connector" in options:  # whose source may tell the columns
        places = clauses.places
        return CreateTable(name, (), only, append_only, exists, options, None, sql, on_conflict, places)
    columns, key = read_columns(tree.this, name, sql, dialect)
    _check_versions(clauses, tree.this, columns, sql)
    if not key and on_conflict:
        raise sql_error(
            f"table {name} has no key, so that nothing can conflict",
            tree.this.this,
            sql,
            "leave ON CONFLICT out",
        )
    places, versions = clauses.places, clauses.version_columns
    made = CreateTable(
        name, columns, key, append_only, exists, options, None, sql, on_conflict, places, versions
    )
    return (
        made
        if clauses.watermark is None
        else replace(made, watermark=_build_watermark(clauses, made, dialect))
    )


def _build_watermark(clauses: Clauses, table: CreateTable, dialect: Dialect) -> Watermark:
    """Return the watermark of a table; raises SqlError with the place where it cannot have this one."""
    clause, sql = clauses.watermark, table.sql
    assert clause is not None
    found = build_watermark(clause, clauses.source_text, table.columns, sql, dialect)
    if not table.append_only and not found.ttl:
        hint = (
            "write APPEND ONLY behind the columns, or WITH TTL behind the watermark: rows below it leave the table then, "
            "and cannot be changed"
        )
        message = f"{table.name} has a watermark, so its rows can only be inserted"
        raise unsupported_error_at(message, sql, clause.start, hint)
    return found


def _check_versions(
    clauses: Clauses, schema: exp.Schema, columns: tuple[RelationColumn, ...], sql: str
) -> None:
    """Raise SqlError for a version column that there is not, or whose values have no order."""
    if clauses.version_columns and clauses.on_conflict == "ignore":
        hint = "ON CONFLICT DO UPDATE FULL, or DO UPDATE IF NOT NULL"
        raise sql_error("a row that is ignored needs no VERSION COLUMN", schema.this, sql, hint)
    kinds = {column.name: column.type for column in columns}
    texts = [part for part in schema.expressions if isinstance(part, exp.ColumnDef)]
    documents = {
        normalize_identifier(part.this)
        for part in texts
        if part.kind is not None and part.kind.this in _DOCUMENTS
    }
    for name, start in zip(clauses.version_columns, clauses.version_places, strict=True):
        node = exp.to_identifier(name)
        node.meta["start"] = start
        if name not in kinds:
            raise sql_error(f"there is no column {name}", node, sql, f"the columns are {', '.join(kinds)}")
        if name in documents or kinds[name].startswith(("boolean", "array", "map", "struct", "interval")):
            what = "a document" if name in documents else kinds[name]
            hint = "take a number, a text, a date or a time"
            raise sql_error(f"column {name} is {what}, which gives versions no order", node, sql, hint)


def _build_view(
    tree: exp.Create, name: str, clauses: Clauses, materialized: bool, sql: str, dialect: Dialect
) -> CreateMaterializedView | CreateView:
    exists, options = bool(tree.args.get("exists")), clauses.options
    query, text = tree.expression, extract_query_text(clauses.readable, dialect)
    query = as_query(query) if isinstance(query, exp.Values) else query
    if clauses.on_window_close and not materialized:
        hint = "CREATE MATERIALIZED VIEW: rows that are computed where they are read are never final"
        raise unsupported_error("EMIT ON WINDOW CLOSE of a plain view is not offered", tree.this, sql, hint)
    for stated, clause in ((clauses.append_only, "APPEND ONLY"), (clauses.on_conflict, "ON CONFLICT")):
        if stated:
            raise unsupported_error(
                f"{clause} of a view is not offered", tree.this, sql, "it is a clause of CREATE TABLE"
            )
    columns: tuple[str, ...] = ()
    if isinstance(tree.this, exp.Schema):
        columns = _read_view_columns(tree.this, materialized, sql)
    if not isinstance(query, exp.Query):
        raise sql_error("a view needs AS SELECT …", tree.this, sql, "CREATE VIEW v AS SELECT …")
    if materialized:
        options = normalize_names(options, clauses.places, sql)
        options, copy = split_options(options, clauses.places, sql)
        check_view_options(options, clauses.places, sql)
        closed, places, replaces = clauses.on_window_close, clauses.places, bool(tree.args.get("replace"))
        return CreateMaterializedView(
            name, query, text, options, exists, sql, columns, closed, copy, places, replaces
        )
    if options:
        hint = "leave it out, or CREATE MATERIALIZED VIEW"
        raise unsupported_error("WITH options of a plain view are not offered", tree.this, sql, hint)
    return CreateView(name, query, text, exists, sql, columns, bool(tree.args.get("replace")))


def _is_materialized(tree: exp.Create) -> bool:
    properties = tree.args.get("properties")
    return properties is not None and properties.find(exp.MaterializedProperty) is not None


def _read_view_columns(schema: exp.Schema, materialized: bool, sql: str) -> tuple[str, ...]:
    names: list[str] = []
    for part in schema.expressions:
        if not isinstance(part, exp.Identifier | exp.Column):
            hint = (
                "the list after a view's name has the names of its columns: CREATE VIEW v (a, b) AS SELECT …"
            )
            raise sql_error(f"{part.sql()} is no name for a column", part, sql, hint)
        name = normalize_identifier(part if isinstance(part, exp.Identifier) else part.this)
        if materialized:
            check_name(name, "column", sql, *locate(part, sql))
        if name.lower() in (known.lower() for known in names):
            raise sql_error(f"column {name} occurs twice", part, sql, "give one of them another name")
        names.append(name)
    return tuple(names)


def _build_index(tree: exp.Create, sql: str) -> CreateIndex:
    index = tree.this
    params = index.args.get("params") or exp.IndexParameters()
    if index.args.get("table") is None:
        raise sql_error("an index needs a table", tree, sql, "CREATE INDEX i ON t (column)")
    if tree.args.get("unique"):
        raise unsupported_error(
            "CREATE UNIQUE INDEX is not offered", index, sql, "keys are unique by PRIMARY KEY"
        )
    for part, value in params.args.items():
        plain = part == "using" and str(getattr(value, "name", value)).lower() in ("btree", "hash")
        if value and not plain and part not in ("columns", "include"):
            name = {"with_storage": "WITH", "partition_by": "PARTITION BY"}.get(part, part.upper())
            hint = "CREATE INDEX i ON t (a, b); every column of the table is in it"
            raise unsupported_error(f"{name} of an index is not offered", index, sql, hint)
    columns = []
    for item in params.args.get("columns") or ():
        column = item.this if isinstance(item, exp.Ordered) else item
        if not isinstance(column, exp.Column):
            raise unsupported_error(
                f"an index on {column.sql()} is not offered", column, sql, "name columns of the table"
            )
        if normalize_identifier(column.this) in columns:
            raise sql_error(f"column {column.name} occurs twice", column, sql, "name each column once")
        columns.append(normalize_identifier(column.this))
    if not columns:
        raise sql_error("an index needs columns", index, sql, "CREATE INDEX i ON t (column)")
    table = resolve_table_name(index.args["table"], sql)
    if isinstance(index.this, exp.Identifier):
        name = check_name(normalize_identifier(index.this), "index", sql, *locate(index.this, sql))
    else:  # named as PostgreSQL would
        name = "_".join((strip_schema(table), *columns, "idx"))
    schema = schema_of(table)  # an index is where its table is
    name = f"{schema}.{name}" if schema else name
    found = params.args.get("include")
    include = tuple(_read_included(part, sql) for part in found) if found else None
    return CreateIndex(name, table, tuple(columns), bool(tree.args.get("exists")), sql, include)


def _read_included(node: exp.Expr, sql: str) -> str:
    column = node.this if isinstance(node, exp.Column) else node
    if not isinstance(column, exp.Identifier):
        raise unsupported_error(
            f"INCLUDE of {node.sql()} is not offered", node, sql, "name columns of the table"
        )
    return normalize_identifier(column)


def as_query(values: exp.Values) -> exp.Select:
    """Return VALUES as the query that it is."""
    return exp.Select(expressions=[exp.Star()]).from_(values, copy=False)


def extract_query_text(sql: str, dialect: Dialect) -> str:
    """Return the query of a CREATE … AS statement as it was written."""
    depth = 0
    for token in tokenize(sql, dialect):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.ALIAS and depth == 0:
            return sql[token.end + 1 :].strip()
    return sql


def _read_properties(tree: exp.Create, sql: str) -> tuple[dict[str, str], dict[str, int], bool]:
    """Return the options that the parser has read, where they stand, and whether MATERIALIZED is said."""
    options: dict[str, str] = {}
    places: dict[str, int] = {}
    materialized = False
    for item in (tree.args.get("properties") or exp.Properties(expressions=[])).expressions:
        known = len(options)
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
            raise unsupported_error(f"{item.sql()} is not offered", item, sql, hint)
        if len(options) > known:
            places[next(reversed(options))] = find_offset(sql, *locate(item, sql))
    return options, places, materialized


def list_dropped(tree: exp.Drop) -> list[exp.Expr]:
    """Return what a DROP names."""
    return tree.args.get("tables") or [tree.this]


def build_drop(tree: exp.Drop, target: exp.Expr, sql: str) -> Drop:
    """Return the statement that a DROP is for one of its names; raises UnsupportedSql for what cannot be dropped."""
    word = str(tree.args.get("kind")).lower()
    if word == "view" and tree.args.get("materialized"):
        word = "materialized view"
    kind = next((kind for kind in _DROPPED if kind == word), None)
    if kind is None:
        hint = "DROP TABLE, VIEW, MATERIALIZED VIEW, INDEX or FUNCTION"
        raise unsupported_error(f"DROP {word.upper()} is not offered", None, sql, hint)
    exists, cascade = bool(tree.args.get("exists")), bool(tree.args.get("cascade"))
    return Drop(kind, resolve_table_name(target, sql), exists, cascade, sql)
