"""Text -> one typed statement: sqlglot parses, a small layer of our own reads what it does not."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field

import sqlglot
import sqlglot.expressions as exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from engine.errors import SqlError, UnsupportedSql
from engine.sql.catalog import Column, check_name
from engine.sql.position import place
from engine.sql.types import parse_type

logging.getLogger("sqlglot").setLevel(logging.ERROR)

_OWN_OPTIONS = re.compile(r"\)\s*(APPEND\s+ONLY)\b", re.IGNORECASE)


@dataclass(frozen=True)
class CreateTable:
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    append_only: bool
    if_not_exists: bool
    options: dict[str, str]
    as_query: exp.Query | None
    sql: str


@dataclass(frozen=True)
class CreateMaterializedView:
    name: str
    query: exp.Query
    query_sql: str
    options: dict[str, str]
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class CreateView:
    name: str
    query: exp.Query
    query_sql: str
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class Drop:
    kind: str
    name: str
    if_exists: bool
    cascade: bool
    sql: str


@dataclass(frozen=True)
class Insert:
    table: str
    columns: tuple[str, ...] | None
    rows: exp.Values | exp.Query
    sql: str


@dataclass(frozen=True)
class Update:
    table: str
    assignments: tuple[tuple[str, exp.Expression], ...]
    where: exp.Expression | None
    sql: str


@dataclass(frozen=True)
class DeleteFrom:
    table: str
    where: exp.Expression | None
    sql: str


@dataclass(frozen=True)
class Flush:
    sql: str


@dataclass(frozen=True)
class Select:
    query: exp.Query
    sql: str


@dataclass(frozen=True)
class Explain:
    target: exp.Query | CreateMaterializedView
    incremental: bool
    sql: str


@dataclass(frozen=True)
class Show:
    what: str
    like: str | None
    sql: str


@dataclass(frozen=True)
class ShowCreate:
    name: str
    sql: str


@dataclass(frozen=True)
class Describe:
    name: str
    sql: str


@dataclass(frozen=True)
class Set:
    name: str
    value: str
    sql: str = field(default="")


Statement = (
    CreateTable
    | CreateMaterializedView
    | CreateView
    | Drop
    | Insert
    | Update
    | DeleteFrom
    | Flush
    | Select
    | Explain
    | Show
    | ShowCreate
    | Describe
    | Set
)


def split(text: str, dialect: str) -> list[str]:
    """Cut a script at its semicolons; comments and strings are left alone."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except TokenError as error:
        raise SqlError(f"the text cannot be read: {error}", sql=text) from error
    parts, start = [], 0
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            parts.append(text[start : token.start])
            start = token.end + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if _has_words(part, dialect)]


def _has_words(text: str, dialect: str) -> bool:
    return bool(sqlglot.tokenize(text, read=dialect))


def parse(text: str, dialect: str) -> Statement:
    """Parse exactly one statement; raises SqlError with line, column and remedy."""
    parts = split(text, dialect)
    if len(parts) != 1:
        raise SqlError(f"one statement is expected, {len(parts)} were given", hint="run them one by one")
    sql = parts[0]
    own = _own_statement(sql, dialect)
    if own is not None:
        return own
    append_only = _OWN_OPTIONS.search(sql) if re.match(r"\s*CREATE\s+TABLE\b", sql, re.IGNORECASE) else None
    readable = sql
    if append_only:
        span = append_only.span(1)
        readable = sql[: span[0]] + " " * (span[1] - span[0]) + sql[span[1] :]
    tree = _tree(readable, sql, dialect)
    match tree:
        case exp.Create():
            return _create(tree, sql, dialect, append_only is not None)
        case exp.Drop():
            return _drop(tree, sql)
        case exp.Insert():
            return _insert(tree, sql)
        case exp.Update():
            return _update(tree, sql)
        case exp.Delete():
            where = tree.args.get("where")
            return DeleteFrom(_table_name(tree.this, sql), where.this if where else None, sql)
        case exp.Query():
            return Select(tree, sql)
        case exp.Describe():
            return Describe(_table_name(tree.this, sql), sql)
        case exp.Set():
            return _set(tree, sql)
    word = sql.split()[0].upper()
    raise UnsupportedSql(
        f"{word} is not offered",
        sql=sql,
        line=1,
        column=1,
        hint="statements are CREATE TABLE, CREATE [MATERIALIZED] VIEW, DROP, INSERT, UPDATE, DELETE, FLUSH, SELECT, "
        "EXPLAIN [INCREMENTAL], SHOW, DESCRIBE and SET",
    )


def _tree(readable: str, sql: str, dialect: str) -> exp.Expression:
    try:
        found = sqlglot.parse_one(readable, read=dialect)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise SqlError(
            f"the statement cannot be parsed: {first.get('description', error)}",
            sql=sql,
            line=int(first.get("line") or 1),
            column=max(1, int(first.get("col") or 1) - len(str(first.get("highlight") or "x")) + 1),
            hint=f'near "{first.get("highlight") or ""}"',
        ) from error
    return found


def _own_statement(sql: str, dialect: str) -> Statement | None:
    if re.fullmatch(r"FLUSH", sql, re.IGNORECASE):
        return Flush(sql)
    if found := re.fullmatch(
        r"SHOW\s+CREATE\s+(?:TABLE|(?:MATERIALIZED\s+)?VIEW)\s+(\S+)", sql, re.IGNORECASE
    ):
        return ShowCreate(found[1], sql)
    pattern = r"SHOW\s+(TABLES|MATERIALIZED\s+VIEWS|VIEWS|ALL)(?:\s+LIKE\s+'([^']*)')?"
    if found := re.fullmatch(pattern, sql, re.IGNORECASE):
        return Show(" ".join(found[1].lower().split()), found[2], sql)
    if found := re.match(r"EXPLAIN\s+(INCREMENTAL\s+)?", sql, re.IGNORECASE):
        inner = parse(sql[found.end() :], dialect)
        if isinstance(inner, CreateMaterializedView):
            return Explain(inner, bool(found[1]), sql)
        if isinstance(inner, Select):
            return Explain(inner.query, bool(found[1]), sql)
        raise UnsupportedSql(
            "EXPLAIN takes a SELECT or a CREATE MATERIALIZED VIEW", sql=sql, line=1, column=1
        )
    return None


def _table_name(node: exp.Expression, sql: str) -> str:
    table = node.find(exp.Table) if not isinstance(node, exp.Table) else node
    if table is None:
        raise SqlError("the statement names no table", sql=sql, line=1, column=1)
    if table.args.get("db") or table.args.get("catalog"):
        line, column = place(table, sql)
        raise SqlError(
            f"{table.sql()} has a schema",
            sql=sql,
            line=line,
            column=column,
            hint="a store has one flat list of names",
        )
    return identifier(table.this)


def identifier(node: exp.Expression) -> str:
    """Return an identifier's name: lower case unless quoted."""
    name = node.name
    return name if isinstance(node, exp.Identifier) and node.args.get("quoted") else name.lower()


def _create(tree: exp.Create, sql: str, dialect: str, append_only: bool) -> Statement:
    kind = str(tree.args.get("kind")).upper()
    if tree.args.get("replace"):
        raise UnsupportedSql(
            "CREATE OR REPLACE is not offered", sql=sql, line=1, column=1, hint="DROP it, then CREATE"
        )
    options, materialized = _properties(tree, sql)
    exists = bool(tree.args.get("exists"))
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    line, column = place(target, sql)
    if kind not in ("TABLE", "VIEW"):
        raise UnsupportedSql(
            f"CREATE {kind} is not offered",
            sql=sql,
            line=1,
            column=1,
            hint="CREATE TABLE, VIEW or MATERIALIZED VIEW",
        )
    name = check_name(_table_name(target, sql), kind.lower(), sql, line, column)
    if kind == "VIEW":
        query = tree.expression
        if isinstance(tree.this, exp.Schema):
            raise UnsupportedSql(
                "a column list after the view's name is not offered",
                sql=sql,
                line=line,
                column=column,
                hint="name the columns in the SELECT list with AS",
            )
        if not isinstance(query, exp.Query):
            raise SqlError("a view needs AS SELECT …", sql=sql, line=line, column=column)
        text = query_text(sql)
        if materialized:
            return CreateMaterializedView(name, query, text, options, exists, sql)
        return CreateView(name, query, text, exists, sql)
    if tree.expression is not None:
        return CreateTable(name, (), (), append_only, exists, options, tree.expression, sql)
    if not isinstance(tree.this, exp.Schema):
        raise SqlError(
            f"table {name} needs columns",
            sql=sql,
            line=line,
            column=column,
            hint="CREATE TABLE t (id BIGINT PRIMARY KEY, …)",
        )
    return _create_table(tree.this, name, options, append_only, exists, sql, dialect)


def query_text(sql: str) -> str:
    """Return the query of a CREATE … AS statement as it was written."""
    found = re.search(r"\bAS\b\s*(?=\(|SELECT\b|WITH\b)", sql, re.IGNORECASE)
    return sql[found.end() :] if found else sql


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
            line, column = place(item, sql)
            raise UnsupportedSql(
                f"{item.sql()} is not offered",
                sql=sql,
                line=line,
                column=column,
                hint="options go into WITH (name = 'value', …)",
            )
    return options, materialized


def _create_table(
    schema: exp.Schema,
    name: str,
    options: dict[str, str],
    append_only: bool,
    exists: bool,
    sql: str,
    dialect: str,
) -> CreateTable:
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    for item in schema.expressions:
        line, at = place(item, sql)
        if isinstance(item, exp.PrimaryKey):
            key = tuple(
                identifier(part.this if isinstance(part, exp.Ordered | exp.Column) else part)
                for part in item.expressions
            )
            continue
        if not isinstance(item, exp.ColumnDef) or item.args.get("kind") is None:
            raise UnsupportedSql(
                f"{item.sql()} is not offered in a column list",
                sql=sql,
                line=line,
                column=at,
                hint="write: name TYPE [NOT NULL] [DEFAULT …] [PRIMARY KEY]",
            )
        column, is_key = _column(item, sql, dialect)
        if any(column.name == other.name for other in columns):
            raise SqlError(f"column {column.name} stands twice", sql=sql, line=line, column=at)
        columns.append(column)
        if is_key:
            key = (column.name,)
    unknown = [part for part in key if part not in {c.name for c in columns}]
    if unknown:
        raise SqlError(
            f"PRIMARY KEY names {unknown[0]}, which is no column of {name}", sql=sql, line=1, column=1
        )
    if not key and not append_only:
        raise SqlError(
            f"table {name} has no key",
            sql=sql,
            line=1,
            column=1,
            hint="give it a PRIMARY KEY, or write APPEND ONLY after the column list",
        )
    return CreateTable(name, tuple(columns), key, append_only, exists, options, None, sql)


def _column(item: exp.ColumnDef, sql: str, dialect: str) -> tuple[Column, bool]:
    line, at = place(item, sql)
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
                raise UnsupportedSql(f"{constraint.sql()} is not offered", sql=sql, line=line, column=at)
    name = check_name(identifier(item.this), "column", sql, line, at)
    try:
        kind_text = parse_type(item.args["kind"], dialect)
    except UnsupportedSql as error:
        raise UnsupportedSql(f"column {name}: {error.message}", sql=sql, line=line, column=at) from error
    return Column(name, kind_text, nullable and not is_key, default, False, comment), is_key


def _drop(tree: exp.Drop, sql: str) -> Drop:
    kind = str(tree.args.get("kind")).lower()
    if kind == "view" and tree.args.get("materialized"):
        kind = "materialized view"
    if kind not in ("table", "view", "materialized view"):
        raise UnsupportedSql(f"DROP {kind.upper()} is not offered", sql=sql, line=1, column=1)
    tables = tree.args.get("tables") or [tree.this]
    if len(tables) != 1:
        raise UnsupportedSql("DROP takes one name", sql=sql, line=1, column=1, hint="drop them one by one")
    return Drop(
        kind, _table_name(tables[0], sql), bool(tree.args.get("exists")), bool(tree.args.get("cascade")), sql
    )


def _insert(tree: exp.Insert, sql: str) -> Insert:
    columns = (
        tuple(identifier(c) for c in tree.this.expressions) if isinstance(tree.this, exp.Schema) else None
    )
    rows = tree.expression
    if tree.args.get("overwrite") or tree.args.get("returning") or tree.args.get("conflict"):
        raise UnsupportedSql(
            "INSERT with OVERWRITE, RETURNING or ON CONFLICT is not offered", sql=sql, line=1, column=1
        )
    if not isinstance(rows, exp.Values | exp.Query):
        raise SqlError("INSERT needs VALUES or a SELECT", sql=sql, line=1, column=1)
    return Insert(_table_name(tree.this, sql), columns, rows, sql)


def _update(tree: exp.Update, sql: str) -> Update:
    assignments = []
    for item in tree.expressions:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
            raise UnsupportedSql(
                f"{item.sql()} is no assignment",
                sql=sql,
                line=1,
                column=1,
                hint="UPDATE t SET column = expression",
            )
        assignments.append((identifier(item.this.this), item.expression))
    where = tree.args.get("where")
    if tree.args.get("from_"):
        raise UnsupportedSql(
            "UPDATE … FROM is not offered",
            sql=sql,
            line=1,
            column=1,
            hint="write the new values into a table by Session.write",
        )
    return Update(_table_name(tree.this, sql), tuple(assignments), where.this if where else None, sql)


def _set(tree: exp.Set, sql: str) -> Set:
    item = tree.expressions[0].this if tree.expressions else None
    if not isinstance(item, exp.EQ):
        raise SqlError("SET needs name = value", sql=sql, line=1, column=1)
    return Set(item.this.name.lower(), item.expression.name.lower(), sql)
