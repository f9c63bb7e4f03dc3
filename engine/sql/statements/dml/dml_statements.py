"""INSERT, UPDATE, DELETE and TRUNCATE: sqlglot's trees -> typed statements."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier, resolve_table_name
from engine.sql.parsing.statement_errors import sql_error, unsupported_error
from engine.sql.statements.statement_types import DeleteFrom, Insert, OnConflict, Update

Assignments = tuple[tuple[str, exp.Expr], ...]

_INSERT = {"this", "expression", "conflict", "returning", "default", "by_name", "with_", "source"}
_UPDATE = {"this", "expressions", "from_", "where", "returning", "with_"}
_DELETE = {"this", "using", "where", "returning", "with_"}
_TARGET = {"this", "alias", "only"}
_PARTS = {  # what says a part of a statement, and what to write instead
    "order": ("ORDER BY", "say which rows by WHERE"),
    "limit": ("LIMIT", "say which rows by WHERE"),
    "joins": ("JOIN", "UPDATE t SET … FROM u WHERE t.id = u.id, or DELETE FROM t USING u WHERE t.id = u.id"),
    "tables": ("a list of tables", "DELETE FROM t WHERE …, for each table"),
    "sample": ("TABLESAMPLE", "say which rows by WHERE"),
    "version": ("FOR SYSTEM_TIME AS OF", "leave it out: the newest rows are written to"),
    "when": ("FOR SYSTEM_TIME AS OF", "leave it out: the newest rows are written to"),
    "where": ("REPLACE WHERE", "DELETE FROM the table WHERE …, then INSERT"),
    "partition": ("PARTITION", "write the column's value into each row"),
    "alternative": (
        "OR …",
        "INSERT … ON CONFLICT (key) DO NOTHING, or DO UPDATE SET column = excluded.column",
    ),
    "ignore": ("IGNORE", "INSERT … ON CONFLICT (key) DO NOTHING"),
    "exists": ("IF EXISTS", "leave it out: an INSERT into a table that there is not is an error"),
    "into": ("RETURNING … INTO", "leave INTO out: the rows come back as a table"),
}


def build_insert(tree: exp.Insert, sql: str) -> Insert:
    """Return the statement that an INSERT is; raises SqlError or UnsupportedSql with the place."""
    if tree.args.get("overwrite"):
        hint = "DELETE FROM the table, then INSERT"
        raise unsupported_error("INSERT OVERWRITE is not offered", tree.this, sql, hint)
    _refuse_others(tree, _INSERT, "INSERT", sql)
    columns = None
    if isinstance(tree.this, exp.Schema):
        columns = tuple(normalize_identifier(column) for column in tree.this.expressions)
        for n, column in enumerate(tree.this.expressions):
            if columns[n] in columns[:n]:
                raise sql_error(f"column {columns[n]} occurs twice", column, sql, "name each column once")
    rows = tree.expression
    if rows is None and tree.args.get("default"):  # DEFAULT VALUES
        rows = copy_location(exp.Values(expressions=[exp.Tuple(expressions=[])]), tree.this)
    if not isinstance(rows, exp.Values | exp.Query):
        raise sql_error(
            "INSERT needs VALUES or a SELECT", tree.this, sql, "INSERT INTO t (a, b) VALUES (1, 'x')"
        )
    if tree.args.get("by_name"):
        columns = _list_names(rows, columns, sql)
    conflict = tree.args.get("conflict")
    return Insert(
        resolve_table_name(tree.this, sql),
        columns,
        rows,
        sql,
        None if conflict is None else _build_on_conflict(conflict, tree, sql),
        _list_returning(tree),
        _find_alias(target) if (target := tree.this.find(exp.Table)) is not None else None,
    )


def _list_names(rows: exp.Expr, columns: tuple[str, ...] | None, sql: str) -> tuple[str, ...]:
    """Return the names of a query's columns, by which INSERT … BY NAME finds those of the table."""
    found = []
    for item in rows.selects if isinstance(rows, exp.Query) else [rows]:
        name = item.args["alias"] if isinstance(item, exp.Alias) else item.this
        if columns is not None or not isinstance(item, exp.Alias | exp.Column) or isinstance(name, exp.Star):
            hint = "INSERT INTO t BY NAME SELECT 1 AS a, 'x' AS b"
            raise sql_error("BY NAME takes a SELECT whose columns have names, and no list", item, sql, hint)
        if normalize_identifier(name) in found:
            raise sql_error(
                f"column {normalize_identifier(name)} occurs twice", item, sql, "name each column once"
            )
        found.append(normalize_identifier(name))
    return tuple(found)


def _build_on_conflict(node: exp.OnConflict, tree: exp.Insert, sql: str) -> OnConflict:
    hint = "ON CONFLICT (key) DO NOTHING, or ON CONFLICT (key) DO UPDATE SET column = excluded.column"
    if node.args.get("duplicate") or node.args.get("constraint") or node.args.get("index_predicate"):
        raise unsupported_error("this form of ON CONFLICT is not offered", tree.this, sql, hint)
    if node.args.get("action") is None:
        raise sql_error("ON CONFLICT needs DO NOTHING or DO UPDATE", tree.this, sql, hint)
    action = str(node.args["action"].name).upper()
    keys = tuple(_read_conflict_key(part) for part in node.args.get("conflict_keys") or ())
    if action == "DO NOTHING":
        return OnConflict(keys, (), None, node)
    if action != "DO UPDATE" or not node.expressions:
        raise unsupported_error(f"ON CONFLICT {action} is not offered", tree.this, sql, hint)
    where = node.args.get("where")
    changed = _read_assignments(node.expressions, tree.this.find(exp.Table), sql)
    return OnConflict(keys, changed, where.this if where else None, node)


def _read_conflict_key(node: exp.Expr) -> str:
    while isinstance(
        node, exp.Ordered | exp.Column
    ):  # the identifier stands innermost, and it knows its quotes
        node = node.this
    return normalize_identifier(node)


def build_update(tree: exp.Update, sql: str) -> Update:
    """Return the statement that an UPDATE is; raises SqlError or UnsupportedSql with the place."""
    _refuse_others(tree, _UPDATE, "UPDATE", sql)
    from_ = tree.args.get("from_")
    return Update(
        resolve_table_name(tree.this, sql),
        _read_assignments(tree.expressions, tree.this, sql),
        _find_condition(tree, sql),
        sql,
        _find_alias(tree.this),
        _list_sources(from_.this, sql) if from_ is not None else (),
        _list_returning(tree),
    )


def build_delete(tree: exp.Delete, sql: str) -> DeleteFrom:
    """Return the statement that a DELETE is; raises UnsupportedSql with the place."""
    _refuse_others(tree, _DELETE, "DELETE", sql)
    return DeleteFrom(
        resolve_table_name(tree.this, sql),
        _find_condition(tree, sql),
        sql,
        _find_alias(tree.this),
        tuple(part for source in tree.args.get("using") or () for part in _list_sources(source, sql)),
        _list_returning(tree),
    )


def build_truncate(tree: exp.TruncateTable, first: exp.Expr, sql: str) -> DeleteFrom:
    """Return the statement that a TRUNCATE is for one of its tables; raises UnsupportedSql with the place."""
    if tree.args.get("is_database") or tree.args.get("partition"):
        what = "PARTITION" if tree.args.get("partition") else "DATABASE"
        raise unsupported_error(f"TRUNCATE … {what} is not offered", first, sql, "TRUNCATE TABLE t")
    if str(tree.args.get("option") or "").upper() == "CASCADE":
        hint = "leave CASCADE out: nothing refers to a table but views, and they follow it"
        raise unsupported_error("TRUNCATE … CASCADE is not offered", first, sql, hint)
    return DeleteFrom(resolve_table_name(first, sql), None, sql, truncates=True)


def _find_condition(tree: exp.Expr, sql: str) -> exp.Expr | None:
    where = tree.args.get("where")
    if where is not None and not isinstance(where.this, exp.Condition):
        raise sql_error("WHERE takes a condition", where.this, sql, "compare a column with a value")
    return where.this if where is not None else None


def _read_assignments(items: list[exp.Expr], table: exp.Expr | None, sql: str) -> Assignments:
    found: list[tuple[str, exp.Expr]] = []
    called = table.alias_or_name.lower() if table is not None else ""
    for item in items:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
            raise unsupported_error(
                f"{item.sql()} is no assignment", item, sql, "write SET column = expression"
            )
        if item.this.table and (item.this.table.lower() != called or item.this.db):
            hint = f"columns of {called} alone can be set, each as a whole"
            raise sql_error(f"{item.this.sql()} is no column of {called}", item.this, sql, hint)
        name = normalize_identifier(item.this.this)
        if name in dict(found):
            raise sql_error(f"column {name} is set twice", item, sql, "set each column once")
        found.append((name, item.expression))
    return tuple(found)


def _list_sources(node: exp.Expr, sql: str) -> tuple[exp.Expr, ...]:
    joins = node.args.get("joins") or []
    for join in joins:
        if set(k for k, v in join.args.items() if v) - {"this"}:
            hint = "list the relations with commas and write the conditions into WHERE"
            raise unsupported_error(
                "JOIN in the sources of an UPDATE or DELETE is not offered", join, sql, hint
            )
    first = node.copy()
    first.set("joins", None)
    return (first, *(join.this for join in joins))


def _list_returning(tree: exp.Expr) -> tuple[exp.Expr, ...]:
    found = tree.args.get("returning")
    return tuple(found.expressions) if found is not None else ()


def _find_alias(table: exp.Expr) -> str | None:
    alias = table.args.get("alias")
    return normalize_identifier(alias.this) if alias is not None and alias.this is not None else None


def _refuse_others(tree: exp.Expr, known: set[str], verb: str, sql: str) -> None:
    """Raise UnsupportedSql, with the place, for a part of a statement, of its table or of RETURNING that is not read here."""
    target = tree.this.find(exp.Table) if isinstance(tree.this, exp.Expr) else None
    nodes = ((tree, known), (target, _TARGET), (tree.args.get("returning"), {"expressions"}))
    for node, parts in nodes:
        for part, value in node.args.items() if node is not None else ():
            if part in parts or not value or part in ("db", "catalog"):
                continue
            name, hint = _PARTS.get(part, (part.strip("_").upper().replace("_", " "), "leave it out"))
            place = tree.this if isinstance(tree.this, exp.Expr) else value[0] if part == "tables" else None
            raise unsupported_error(f"{verb} … {name} is not offered", place, sql, hint)
    alias = target.args.get("alias") if target is not None else None
    if alias is not None and alias.args.get("columns"):
        raise unsupported_error(
            f"{verb} … AS {alias.sql()} is not offered", alias, sql, "leave the names of columns out"
        )
