"""The queries behind UPDATE, DELETE and ON CONFLICT: which rows are read, and what is assigned to their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import InvalidRow
from engine.sql.batch.hidden_row_ids import mark_read_whole
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.column_names import ADDED
from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.statements.dml.literal_rows import NotLiteral, find_misfit, read_literal
from engine.sql.statements.statement_types import OnConflict
from engine.sql.typing.expression_types import infer_exact_type
from engine.sql.typing.types import cast_type, to_arrow
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.typing.wrong_literals import refuse_type


def rename_relation(relation: Relation, name: str) -> Relation:
    """Return a relation under another name."""
    return msgspec.structs.replace(relation, name=name)


def build_selection(
    relation: Relation,
    alias: str,
    items: list[exp.Expr],
    sources: tuple[exp.Expr, ...],
    where: exp.Expr | None,
) -> exp.Select:
    """Return the query of a table under an alias, beside other sources."""
    table = mark_read_whole(
        exp.Table(
            this=exp.to_identifier(relation.name, quoted=True),
            alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
        )
    )
    query = exp.Select(expressions=[item.copy() for item in items]).from_(table, copy=False)
    for source in sources:
        query.append("joins", exp.Join(this=source.copy(), kind="CROSS"))
    return query.where(where.copy(), copy=False) if where is not None else query


def qualify_columns(node: exp.Expr, alias: str) -> exp.Expr:
    """Return an expression in which a column without a table, outside of subqueries, is one of `alias`."""

    def qualify(part: exp.Expr) -> exp.Expr:
        bare = isinstance(part, exp.Column) and not part.args.get("table")
        if bare and part.find_ancestor(exp.Query) is None:
            part.set("table", exp.to_identifier(alias, quoted=True))
        return part

    return node.copy().transform(qualify, copy=False)


def resolve_assignments(
    relation: Relation, assignments: tuple[tuple[str, exp.Expr], ...], sql: str
) -> dict[str, exp.Expr]:
    """Return the new values by column; raises SqlError for a column that cannot be set."""
    columns = {column.name: column for column in relation.visible_columns}
    for name, value in assignments:
        if name not in columns:
            hint = f"its columns are {', '.join(columns)}"
            raise sql_error(f"table {relation.name} has no column {name}", value.parent or value, sql, hint)
        if columns[name].generated is not None and not is_default(value):
            hint = "set the columns that it is computed from"
            raise sql_error(
                f"column {name} of {relation.name} is generated", value.parent or value, sql, hint
            )
    return dict(assignments)


def refuse_key(relation: Relation, changed: dict[str, exp.Expr], sql: str) -> None:
    """Raise SqlError if ON CONFLICT DO UPDATE sets a column of the key: the row that it updates is the one of the key."""
    for column in list_unique_columns(relation):
        if column.name in changed:
            value = changed[column.name]
            message = f"{column.name} is part of the primary key of {relation.name}, which ON CONFLICT DO UPDATE keeps"
            raise sql_error(message, value.parent or value, sql, "UPDATE the row afterwards")


def list_key_columns(relation: Relation) -> tuple[RelationColumn, ...]:
    """Return the columns of a table's key."""
    return tuple(column for column in relation.columns if column.storage_name in relation.primary_key)


def list_unique_columns(relation: Relation) -> tuple[RelationColumn, ...]:
    """Return the columns of a table by which its rows are identified: the key as the statement has it."""
    return tuple(column for column in relation.columns if column.storage_name in relation.unique_key)


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


def check_conflict_key(relation: Relation, conflict: OnConflict, sql: str) -> None:
    """Raise SqlError if ON CONFLICT names other columns than the primary key."""
    if any(column.hidden for column in list_key_columns(relation)):
        if not conflict.keys and not conflict.assignments:
            return
        message = f"table {relation.name} has no PRIMARY KEY, so that nothing can conflict"
        raise sql_error(message, conflict.node, sql, "leave ON CONFLICT out")
    key = [column.name for column in list_unique_columns(relation)]
    if set(conflict.keys) != set(key) and (conflict.keys or conflict.assignments):
        key_text = ", ".join(key)
        message = f"ON CONFLICT needs the primary key of {relation.name}, which is ({key_text})"
        raise sql_error(message, conflict.node, sql, f"write ON CONFLICT ({key_text})")


def refuse_append_only(relation: Relation, verb: str) -> None:
    """Raise InvalidRow if rows of the table can only be inserted."""
    if relation.append_only:
        raise InvalidRow(f"{verb} on {relation.name}: the table is APPEND ONLY, rows can only be inserted")


def refuse_assignment(relation: Relation, name: str, actual: str | None, node: exp.Expr, sql: str) -> None:
    """Raise SqlError for a value of a type that a column takes from no door, whatever the value is."""
    column = next(column for column in relation.columns if column.name == name)
    refuse_type(actual, column.type, name, node, sql, relation.name)


def refuse_assignments(
    relation: Relation, alias: str, changed: dict[str, exp.Expr], sql: str
) -> dict[str, exp.Expr]:
    """Raise SqlError for a new value of a type that its column does not take; returns those whose types only Spark can tell."""
    types = {column.name: column.sql_type or column.type for column in relation.columns}
    own = {"", alias.lower(), relation.name.lower(), "excluded"}
    untyped: dict[str, exp.Expr] = {}
    for name, value in changed.items():
        if is_default(value):
            continue
        others = any(column.table.lower() not in own for column in value.find_all(exp.Column))
        given = None if others or value.find(exp.Query) is not None else infer_exact_type(value, types)
        if given is None and not isinstance(value, exp.Literal | exp.Null):
            untyped[name] = value
        refuse_assignment(relation, name, given, value, sql)
    return untyped


def value_items(values: Mapping[str, exp.Expr]) -> list[exp.Expr]:
    """Return new values as they are, under the names of their columns."""
    return [
        exp.alias_(exp.Paren(this=v.copy()), exp.to_identifier(n, quoted=True)) for n, v in values.items()
    ]


def cast_assignment(value: exp.Expr, kind: str, name: str) -> exp.Expr:
    """Return an expression as the new value of a column."""
    cast = exp.Cast(this=exp.Paren(this=value.copy()), to=cast_type(kind))
    return exp.alias_(cast, exp.to_identifier(name, quoted=True))


def build_update_items(relation: Relation, alias: str, changed: dict[str, exp.Expr]) -> list[exp.Expr]:
    """Return what an UPDATE selects: new values and old ones, without what is completed later."""
    items = []
    for column in relation.columns:
        if column.generated is not None or (column.name in changed and is_default(changed[column.name])):
            continue
        if column.name in changed:
            items.append(cast_assignment(changed[column.name], column.type, column.name))
        else:
            items.append(
                exp.column(
                    exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(alias, quoted=True)
                )
            )
    return items


def cast_to_fit(text: str, source: str, target: str, dialect: Dialect) -> str:
    """Return an expression of a type as the one that is cast to another: PostgreSQL rounds, and no number becomes infinite."""
    if dialect != "spark" and target in INTEGRAL:
        if source in ("float", "double"):
            return f"BROUND({text}, 0)"
        if source.startswith("decimal"):
            return f"ROUND({text}, 0)"
    if source == "double" and target == "float":
        beyond = f"ABS({text}) <> DOUBLE('Infinity') AND ABS(CAST({text} AS FLOAT)) = FLOAT('Infinity')"
        return f"IF({beyond}, raise_error('a number is too large for a FLOAT column'), {text})"
    if source == "interval" and target == "interval day to second":
        parts = ", ".join(f"EXTRACT({unit} FROM {text})" for unit in ("DAY", "HOUR", "MINUTE", "SECOND"))
        months = f"EXTRACT(YEAR FROM {text}) <> 0 OR EXTRACT(MONTH FROM {text}) <> 0"
        wrong = "raise_error('an interval column holds days and less, no months')"
        return f"IF({months}, {wrong}, make_dt_interval({parts}))"
    return text


class Merge(NamedTuple):
    """The query of ON CONFLICT DO UPDATE, and one of those new values whose types only Spark can tell."""

    query: exp.Select
    untyped: Mapping[str, exp.Expr]
    values: exp.Select


def build_merge_query(relation: Relation, conflict: OnConflict, sql: str) -> Merge:
    """Return the query of ON CONFLICT DO UPDATE over the table and `excluded`, which has the rows with known keys."""
    changed = resolve_assignments(relation, conflict.assignments, sql)
    refuse_key(relation, changed, sql)
    untyped = refuse_assignments(relation, relation.name, changed, sql)
    t = relation.name
    qualified = {name: v if is_default(v) else qualify_columns(v, t) for name, v in changed.items()}
    items = build_update_items(relation, t, qualified)
    both = exp.and_(
        *(
            exp.NullSafeEQ(
                this=exp.column(c.name, table=t, quoted=True),
                expression=exp.column(c.name, table="excluded", quoted=True),
            )
            for c in list_unique_columns(relation)
        )
    )
    where = both if conflict.where is None else exp.and_(both, qualify_columns(conflict.where, t))
    values = value_items({name: qualified[name] for name in untyped})
    sources = (exp.to_table("excluded"),)
    return Merge(
        build_selection(relation, t, items, sources, where),
        untyped,
        build_selection(relation, t, values, sources, where),
    )


def find_constants(
    relation: Relation, changed: dict[str, exp.Expr], dialect: Dialect
) -> dict[str, pa.Scalar[Any]] | None:
    """Return the new values of an UPDATE if all of them are literals of their columns' types, else None."""
    found = {}
    for column in relation.columns:
        if column.name in changed and not is_default(changed[column.name]):
            try:
                value = read_literal(changed[column.name], column.type, dialect)
                if column.type == "float" and (wrong := find_misfit(value, column)) is not None:
                    raise InvalidRow(f"UPDATE of {relation.name}: {': '.join(wrong)}")
                found[column.name] = pa.scalar(value, to_arrow(column.type))
            except (NotLiteral, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
                return None
    return found


def build_old_key_items(relation: Relation, alias: str) -> list[exp.Expr]:
    """Return the key that rows have before an UPDATE, under the names of `format_old_key`."""
    items = []
    for column in list_key_columns(relation):
        value = exp.column(
            exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(alias, quoted=True)
        )
        items.append(exp.alias_(value, exp.to_identifier(format_old_key(column), quoted=True)))
    return items


def format_old_key(column: RelationColumn) -> str:
    """Return the name under which an UPDATE that changes keys selects a column of the old key."""
    return f"{ADDED}old_{column.name}"
