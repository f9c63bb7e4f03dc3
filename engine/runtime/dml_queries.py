"""The queries behind UPDATE, DELETE and ON CONFLICT: which rows are read, and what is assigned to their columns."""

from __future__ import annotations

import msgspec
import sqlglot.expressions as exp

from engine.errors import InvalidRow
from engine.sql.catalog import Relation
from engine.sql.macros import cast_type
from engine.sql.refusals import mistake
from engine.sql.statement_types import OnConflict


def renamed(relation: Relation, name: str) -> Relation:
    """Return a relation under another name."""
    return msgspec.structs.replace(relation, name=name)


def selection(
    relation: Relation,
    alias: str,
    items: list[exp.Expr],
    sources: tuple[exp.Expr, ...],
    where: exp.Expr | None,
) -> exp.Select:
    """Return the query of a table under an alias, beside other sources."""
    table = exp.Table(
        this=exp.to_identifier(relation.name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )
    query = exp.Select(expressions=[item.copy() for item in items]).from_(table, copy=False)
    for source in sources:
        query.append("joins", exp.Join(this=source.copy(), kind="CROSS"))
    return query.where(where.copy(), copy=False) if where is not None else query


def qualified(node: exp.Expr, alias: str) -> exp.Expr:
    """Return an expression in which a column without a table, outside of subqueries, is one of `alias`."""

    def qualify(part: exp.Expr) -> exp.Expr:
        bare = isinstance(part, exp.Column) and not part.args.get("table")
        if bare and part.find_ancestor(exp.Query) is None:
            part.set("table", exp.to_identifier(alias, quoted=True))
        return part

    return node.copy().transform(qualify, copy=False)


def assignable(
    relation: Relation, assignments: tuple[tuple[str, exp.Expr], ...], sql: str
) -> dict[str, exp.Expr]:
    """Return the new values by column; raises SqlError for a column that cannot be set."""
    columns = {column.name: column for column in relation.columns if not column.hidden}
    for name, value in assignments:
        if name not in columns:
            hint = f"its columns are {', '.join(columns)}"
            raise mistake(f"table {relation.name} has no column {name}", value.parent or value, sql, hint)
        if columns[name].source in relation.primary_key:
            hint = "DELETE the row and INSERT the new one"
            message = f"{name} is part of the primary key of {relation.name}, which an UPDATE keeps"
            raise mistake(message, value.parent or value, sql, hint)
        if columns[name].generated is not None and not is_default(value):
            hint = "set the columns that it is computed from"
            raise mistake(f"column {name} of {relation.name} is generated", value.parent or value, sql, hint)
    return dict(assignments)


def is_default(node: exp.Expr) -> bool:
    """Whether a value is the word DEFAULT."""
    if isinstance(node, exp.Var):
        return node.name.upper() == "DEFAULT"
    return (
        isinstance(node, exp.Column)
        and not node.args.get("table")
        and not node.this.args.get("quoted")
        and node.name.upper() == "DEFAULT"
    )


def key_is_meant(relation: Relation, conflict: OnConflict, sql: str) -> None:
    """Raise SqlError if ON CONFLICT names other columns than the primary key."""
    key = [c.name for c in relation.columns if c.source in relation.primary_key]
    if set(conflict.keys) != set(key) and (conflict.keys or conflict.assignments):
        shown = ", ".join(key)
        message = f"ON CONFLICT needs the primary key of {relation.name}, which is ({shown})"
        raise mistake(message, conflict.node, sql, f"write ON CONFLICT ({shown})")


def refuse_append_only(relation: Relation, verb: str) -> None:
    """Raise InvalidRow if rows of the table can only be inserted."""
    if relation.append_only:
        raise InvalidRow(f"{verb} on {relation.name}: the table is APPEND ONLY, rows can only be inserted")


def assigned(value: exp.Expr, kind: str, name: str) -> exp.Expr:
    """Return an expression as the new value of a column."""
    cast = exp.Cast(this=exp.Paren(this=value.copy()), to=cast_type(kind))
    return exp.alias_(cast, exp.to_identifier(name, quoted=True))


def update_items(relation: Relation, alias: str, changed: dict[str, exp.Expr]) -> list[exp.Expr]:
    """Return what an UPDATE selects: new values and old ones, without what is completed later."""
    items = []
    for column in relation.columns:
        if column.generated is not None or (column.name in changed and is_default(changed[column.name])):
            continue
        if column.name in changed:
            items.append(assigned(changed[column.name], column.type, column.name))
        else:
            items.append(exp.column(exp.to_identifier(column.name, quoted=True), table=alias))
    return items


def merge_query(relation: Relation, conflict: OnConflict, sql: str) -> exp.Select:
    """Return the query of ON CONFLICT DO UPDATE over the table and `excluded`, which has the rows with known keys."""
    changed = assignable(relation, conflict.assignments, sql)
    t = relation.name
    seen = {name: v if is_default(v) else qualified(v, t) for name, v in changed.items()}
    items = update_items(relation, t, seen)
    both = exp.and_(
        *(
            exp.column(c.name, table=t, quoted=True).eq(exp.column(c.name, table="excluded", quoted=True))
            for c in relation.columns
            if c.source in relation.primary_key
        )
    )
    where = both if conflict.where is None else exp.and_(both, qualified(conflict.where, t))
    return selection(relation, t, items, (exp.to_table("excluded"),), where)
