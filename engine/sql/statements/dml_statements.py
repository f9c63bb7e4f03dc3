"""INSERT, UPDATE, DELETE and TRUNCATE: sqlglot's trees -> typed statements."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.names import identifier, table_name
from engine.sql.parsing.position import copy_place
from engine.sql.parsing.refusals import mistake, unsupported
from engine.sql.statements.statement_types import DeleteFrom, Insert, OnConflict, Update

Assignments = tuple[tuple[str, exp.Expr], ...]


def insert(tree: exp.Insert, sql: str) -> Insert:
    """Return the statement that an INSERT is; raises SqlError or UnsupportedSql with the place."""
    if tree.args.get("overwrite"):
        hint = "DELETE FROM the table, then INSERT"
        raise unsupported("INSERT OVERWRITE is not offered", tree.this, sql, hint)
    columns = None
    if isinstance(tree.this, exp.Schema):
        columns = tuple(identifier(column) for column in tree.this.expressions)
        for n, column in enumerate(tree.this.expressions):
            if columns[n] in columns[:n]:
                raise mistake(f"column {columns[n]} stands twice", column, sql, "name each column once")
    rows = tree.expression
    if rows is None and tree.args.get("default"):  # DEFAULT VALUES
        rows = copy_place(exp.Values(expressions=[exp.Tuple(expressions=[])]), tree.this)
    if not isinstance(rows, exp.Values | exp.Query):
        raise mistake(
            "INSERT needs VALUES or a SELECT", tree.this, sql, "INSERT INTO t (a, b) VALUES (1, 'x')"
        )
    conflict = tree.args.get("conflict")
    return Insert(
        table_name(tree.this, sql),
        columns,
        rows,
        sql,
        None if conflict is None else _conflict(conflict, tree, sql),
        _returning(tree),
    )


def _conflict(node: exp.OnConflict, tree: exp.Insert, sql: str) -> OnConflict:
    hint = "ON CONFLICT (key) DO NOTHING, or ON CONFLICT (key) DO UPDATE SET column = excluded.column"
    if node.args.get("duplicate") or node.args.get("constraint") or node.args.get("index_predicate"):
        raise unsupported("this form of ON CONFLICT is not offered", tree.this, sql, hint)
    if node.args.get("action") is None:
        raise mistake("ON CONFLICT needs DO NOTHING or DO UPDATE", tree.this, sql, hint)
    action = str(node.args["action"].name).upper()
    keys = tuple(_conflict_key(part) for part in node.args.get("conflict_keys") or ())
    if action == "DO NOTHING":
        return OnConflict(keys, (), None, node)
    if action != "DO UPDATE" or not node.expressions:
        raise unsupported(f"ON CONFLICT {action} is not offered", tree.this, sql, hint)
    where = node.args.get("where")
    return OnConflict(keys, _assignments(node.expressions, sql), where.this if where else None, node)


def _conflict_key(node: exp.Expr) -> str:
    while isinstance(
        node, exp.Ordered | exp.Column
    ):  # the identifier stands innermost, and it knows its quotes
        node = node.this
    return identifier(node)


def update(tree: exp.Update, sql: str) -> Update:
    """Return the statement that an UPDATE is; raises SqlError or UnsupportedSql with the place."""
    _refuse(tree, ("order", "limit"), "UPDATE", sql)
    from_ = tree.args.get("from_")
    return Update(
        table_name(tree.this, sql),
        _assignments(tree.expressions, sql),
        _condition(tree, sql),
        sql,
        _alias(tree.this),
        _sources(from_.this, sql) if from_ is not None else (),
        _returning(tree),
    )


def delete(tree: exp.Delete, sql: str) -> DeleteFrom:
    """Return the statement that a DELETE is; raises UnsupportedSql with the place."""
    _refuse(tree, ("order", "limit"), "DELETE", sql)
    return DeleteFrom(
        table_name(tree.this, sql),
        _condition(tree, sql),
        sql,
        _alias(tree.this),
        tuple(part for source in tree.args.get("using") or () for part in _sources(source, sql)),
        _returning(tree),
    )


def truncate(tree: exp.TruncateTable, first: exp.Expr, sql: str) -> DeleteFrom:
    """Return the statement that a TRUNCATE is for one of its tables; raises UnsupportedSql with the place."""
    if tree.args.get("is_database") or tree.args.get("partition"):
        what = "PARTITION" if tree.args.get("partition") else "DATABASE"
        raise unsupported(f"TRUNCATE … {what} is not offered", first, sql, "TRUNCATE TABLE t")
    if str(tree.args.get("option") or "").upper() == "CASCADE":
        hint = "leave CASCADE out: nothing refers to a table but views, and they follow it"
        raise unsupported("TRUNCATE … CASCADE is not offered", first, sql, hint)
    return DeleteFrom(table_name(first, sql), None, sql, truncates=True)


def _condition(tree: exp.Expr, sql: str) -> exp.Expr | None:
    where = tree.args.get("where")
    if where is not None and not isinstance(where.this, exp.Condition):
        raise mistake("WHERE takes a condition", where.this, sql, "compare a column with a value")
    return where.this if where is not None else None


def _assignments(items: list[exp.Expr], sql: str) -> Assignments:
    found: list[tuple[str, exp.Expr]] = []
    for item in items:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
            raise unsupported(f"{item.sql()} is no assignment", item, sql, "write SET column = expression")
        name = identifier(item.this.this)
        if name in dict(found):
            raise mistake(f"column {name} is set twice", item, sql, "set each column once")
        found.append((name, item.expression))
    return tuple(found)


def _sources(node: exp.Expr, sql: str) -> tuple[exp.Expr, ...]:
    joins = node.args.get("joins") or []
    for join in joins:
        if set(k for k, v in join.args.items() if v) - {"this"}:
            hint = "list the relations with commas and write the conditions into WHERE"
            raise unsupported("JOIN in the sources of an UPDATE or DELETE is not offered", join, sql, hint)
    first = node.copy()
    first.set("joins", None)
    return (first, *(join.this for join in joins))


def _returning(tree: exp.Expr) -> tuple[exp.Expr, ...]:
    found = tree.args.get("returning")
    return tuple(found.expressions) if found is not None else ()


def _alias(table: exp.Expr) -> str | None:
    alias = table.args.get("alias")
    return identifier(alias.this) if alias is not None and alias.this is not None else None


def _refuse(tree: exp.Expr, parts: tuple[str, ...], verb: str, sql: str) -> None:
    for part in parts:
        if tree.args.get(part):
            name = {"order": "ORDER BY"}.get(part, part.upper())
            raise unsupported(f"{verb} … {name} is not offered", tree.this, sql, "say which rows by WHERE")
