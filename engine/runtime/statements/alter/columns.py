"""Columns of relations: renamed, added, dropped, with another DEFAULT or another answer to NOT NULL; and what needs them."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import msgspec
import pyarrow as pa

from engine.arrow import as_values, repeat_value
from engine.errors import SqlError
from engine.hummock import Commit, Hummock, TableVersion, Version
from engine.hummock.manifests.preconditions import require_all, require_unchanged
from engine.hummock.rows.column_defaults import with_default
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    require_same_catalog,
)
from engine.meta.catalog.successions import explain_release
from engine.meta.status.subscriptions import KIND as SUBSCRIPTION
from engine.runtime.reads.spark_read import run_spark_sql
from engine.runtime.relations import build_name_error, list_readers
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.column_users import list_column_users, name_users
from engine.runtime.statements.alter.delta_copy import rename_copy_column
from engine.runtime.statements.alter.fed_columns import refuse_unfed
from engine.runtime.statements.alter.index_columns import alter_with_indexes
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.ddl.create_text import render_create_table
from engine.sql.statements.ddl.defaults import compute_local_default
from engine.sql.statements.dml.literal_rows import NotLiteral, find_misfit
from engine.sql.statements.statement_types import (
    Alter,
    AlterColumn,
)
from engine.sql.typing.text_lengths import fit_texts, validate_length
from engine.sql.typing.types import to_arrow

Relations = dict[str, Relation | None]


def rename_column(
    version: Version, stored: StoredCatalog, relation: Relation, old: str, new: str, statement: Alter
) -> Commit:
    """Return the commit that gives a column another name; raises SqlError, with the place, if something is in the way."""
    if relation.kind not in ("table", "view", "materialized view"):
        raise build_name_error(
            f"a {relation.kind} has no columns to rename", relation.name, statement.sql, ""
        )
    column = find_column(relation, old, statement.sql)
    if new.lower() in list_column_names(relation):
        raise build_name_error(
            f"{relation.name} has a column {new} already", new, statement.sql, "choose another name"
        )
    _refuse_readers(stored, relation, f"RENAME COLUMN {old}", statement)
    if relation.checks:
        hint = "drop the view, and create it again with the new name"
        raise build_name_error(
            f"RENAME COLUMN {old}: checks of {relation.name} name its columns", old, statement.sql, hint
        )
    _refuse_connector(relation, statement)
    renamed = msgspec.structs.replace(column, name=new, stored=column.storage_name)
    if relation.kind == "view":
        columns = tuple(RelationColumn(new, "") if c.name == old else c for c in relation.columns)
        changed = msgspec.structs.replace(relation, columns=columns, renamed=True)
    else:
        changed = replace_column(relation, column, renamed)
        texts = (_rename_in_relation(c, old, new) for c in changed.columns)
        changed = _rewrite_statement(msgspec.structs.replace(changed, columns=tuple(texts)))
    relations: Relations = {relation.name: changed}
    for name, other in stored.catalog.relations.items():  # shared and named indexes show the columns too
        if other.kind == "index" and relation.name in (*other.depends_on, other.options.get("on")):
            columns = tuple(_rename_index_column(c, renamed) for c in other.columns)
            relations[name] = msgspec.structs.replace(other, columns=columns)
    copy = rename_copy_column(version, stored, relation, column, renamed, statement)
    return dataclasses.replace(copy, catalog=encode_entries(relations, {}) | dict(copy.catalog))


def _rename_index_column(column: RelationColumn, renamed: RelationColumn) -> RelationColumn:
    return renamed if column.storage_name == renamed.storage_name else column


def _rename_in_relation(column: RelationColumn, old: str, new: str) -> RelationColumn:
    if column.generated is None:
        return column
    return msgspec.structs.replace(column, generated=column.generated.replace(quote(old), quote(new)))


def add_column(
    stored: StoredCatalog,
    relation: Relation,
    column: RelationColumn,
    statement: Alter,
    context: StatementContext,
) -> Commit:
    """Return the commit that adds a column, in which the rows that are there have its DEFAULT; raises SqlError."""
    store = context.store
    if column.name.lower() in list_column_names(relation):
        message = f"{relation.name} has a column {column.name} already"
        raise build_name_error(message, column.name, statement.sql, "choose another name")
    refuse_unfed(
        stored,
        msgspec.structs.replace(relation, columns=(*relation.columns, column)),
        column,
        lambda message, hint: build_name_error(message, column.name, statement.sql, hint),
    )
    table = store.version.tables[relation.name]
    value = _compute_default(column, statement, context)
    if column.length is not None and value.is_valid:
        found = fit_texts(pa.array([value.as_py()], pa.string()), column)
        if len(found.long):
            message = f"the DEFAULT does not fit: {validate_length(value.as_py(), column)}"
            raise build_name_error(message, column.name, statement.sql, "write a shorter text")
        value = found.fitted[0]
    if not column.nullable and not value.is_valid and _has_rows(store, table):
        hint = "give it a DEFAULT, or take NOT NULL out"
        message = f"column {column.name} would be null in the rows that {relation.name} has"
        raise build_name_error(message, column.name, statement.sql, hint)
    used_names = {*table.schema.names, *table.table.options.dropped}
    n = 1
    while (source := column.storage_name if n == 1 else f"{column.storage_name}__{n}") in used_names:
        n += 1
    if source != column.storage_name and "connector" in relation.options:
        message = (
            f"{relation.name} had a column {column.name}, whose values its files still have, and its "
            f"{relation.options['connector']} source has no other name for the new one"
        )
        hint = f"DROP TABLE {relation.name}, and create it again with the column"
        raise build_name_error(message, column.name, statement.sql, hint)
    if source != column.storage_name:
        column = msgspec.structs.replace(column, stored=source)
    field = pa.field(source, to_arrow(column.type))
    field = with_default(field, value) if value.is_valid else field
    visible = relation.visible_columns
    hidden = [c for c in relation.columns if c.hidden]
    changed = msgspec.structs.replace(relation, columns=(*visible, column, *hidden))
    return alter_with_indexes(store.version, stored, _rewrite_statement(changed), add=[field])


def _has_rows(store: Hummock, table: TableVersion) -> bool:
    key = list(table.primary_key)
    return table.row_count > 0 and any(part.num_rows for part in store.iter(table.name, columns=key))


def _compute_default(column: RelationColumn, statement: Alter, context: StatementContext) -> pa.Scalar[Any]:
    kind = to_arrow(column.type)
    if column.default is None:
        return pa.scalar(None, kind)
    try:
        return pa.scalar(compute_local_default(column, datetime.datetime.now(datetime.UTC)), kind)
    except (NotLiteral, pa.ArrowInvalid, pa.ArrowTypeError):
        text = f"SELECT CAST({column.default} AS {column.type}) AS v"
        return run_spark_sql(context.spark(), text, statement.sql).column("v").cast(kind)[0]


def alter_column(
    stored: StoredCatalog,
    relation: Relation,
    column: RelationColumn,
    statement: Alter,
    context: StatementContext,
) -> Commit:
    """Return the commit that gives a column another DEFAULT or another answer to NOT NULL; raises SqlError with the place."""
    action = statement.action
    assert isinstance(action, AlterColumn)

    def build_error(message: str, hint: str) -> SqlError:
        return build_name_error(message, column.name, statement.sql, hint)

    store = context.store
    version = store.version
    base = version.tables[relation.name]
    checks = [require_same_catalog(version)]
    if action.change == "default":
        if column.generated is not None:
            raise build_error(f"column {column.name} of {relation.name} is generated", "it has no DEFAULT")
        changed = msgspec.structs.replace(column, default=action.default)
        refuse_unfed(stored, replace_column(relation, column, changed), changed, build_error)
        found = (
            None
            if action.default is None
            else find_misfit(_compute_value(changed, statement, context), column)
        )
        if found is not None:
            raise build_error(f"the DEFAULT does not fit: {found[0]}", found[1])
    elif action.change == "nullable":
        if column.storage_name in relation.unique_key:
            raise build_error(
                f"column {column.name} is part of the primary key of {relation.name}", "it is never null"
            )
        users = list_readers(stored, relation.name)
        if users and not column.nullable:
            message = f"{', '.join(users)} count on column {column.name}, which is NOT NULL"
            raise build_error(message, explain_release(users, "drop those first, and create them again"))
        changed = msgspec.structs.replace(column, nullable=True)
    else:
        if any(
            part.column(0).null_count for part in store.iter(relation.name, columns=[column.storage_name])
        ):
            hint = f"UPDATE {relation.name} SET {column.name} = … WHERE {column.name} IS NULL first"
            raise build_error(f"rows of {relation.name} have no value in {column.name}", hint)
        changed = msgspec.structs.replace(column, nullable=False)
        refuse_unfed(stored, replace_column(relation, column, changed), changed, build_error)
        checks.append(require_unchanged(base))
    after = replace_column(relation, column, changed)
    after = msgspec.structs.replace(after, sql=render_create_table(after), dialect="spark")

    return Commit(catalog=encode_entries({relation.name: after}, {}), precondition=require_all(*checks))


def _compute_value(column: RelationColumn, statement: Alter, context: StatementContext) -> Any:
    try:
        return compute_local_default(column, datetime.datetime.now(datetime.UTC))
    except NotLiteral:
        return as_values(repeat_value(_compute_default(column, statement, context), 1))[0]


def drop_column(
    stored: StoredCatalog, relation: Relation, name: str, statement: Alter, context: StatementContext
) -> Commit:
    """Return the commit that takes a column away; raises SqlError, with the place, if something needs it."""
    if relation.kind != "table":
        hint = "DROP it, and CREATE it without the column"
        raise build_name_error(
            f"columns of a {relation.kind} are those of its query", name, statement.sql, hint
        )
    column = find_column(relation, name, statement.sql)
    for columns, message in (
        (relation.primary_key, f"{name} is part of the primary key of {relation.name}"),
        (relation.version_columns, f"rows of {relation.name} are ordered by their version in {name}"),
        ((relation.watermark.column,) if relation.watermark else (), f"{name} carries the watermark"),
    ):
        if column.storage_name in columns:
            raise build_name_error(message, name, statement.sql, "make a new table and INSERT … SELECT")
    if len(relation.visible_columns) == 1:
        raise build_name_error(
            f"{name} is the only column of {relation.name}", name, statement.sql, "DROP the table"
        )
    used = list_column_users(stored, relation, column)
    if used:
        message = f"column {name} of {relation.name} is read by {name_users(used)}"
        raise build_name_error(message, name, statement.sql, explain_release(used, "drop those first"))
    remaining = tuple(c for c in relation.columns if c.name != name)
    changed = msgspec.structs.replace(relation, columns=remaining)
    return alter_with_indexes(
        context.store.version, stored, _rewrite_statement(changed), drop=[column.storage_name]
    )


def list_column_names(relation: Relation) -> set[str]:
    """Return the names of the columns of a relation in lower case, those of hidden ones too."""
    return {column.name.lower() for column in relation.columns}


def find_column(relation: Relation, name: str, sql: str) -> RelationColumn:
    """Return the visible column of a name; raises SqlError, with the place, if there is none."""
    for column in relation.columns:
        if column.name == name and not column.hidden:
            return column
    known = ", ".join(column.name for column in relation.visible_columns)
    raise build_name_error(f"{relation.name} has no column {name}", name, sql, f"its columns are {known}")


def replace_column(relation: Relation, old: RelationColumn, new: RelationColumn) -> Relation:
    """Return a relation with another column in the place of one."""
    columns = tuple(new if column.name == old.name else column for column in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def _rewrite_statement(relation: Relation) -> Relation:
    """Return a table with the statement that would make it as it is now; views keep theirs."""
    if relation.kind != "table":
        return relation
    return msgspec.structs.replace(relation, sql=render_create_table(relation), dialect="spark")


def _refuse_readers(stored: StoredCatalog, relation: Relation, what: str, statement: Alter) -> None:
    found = [
        name for name in list_readers(stored, relation.name) if stored.catalog.get(name).kind != SUBSCRIPTION
    ]
    if found:
        message = f"{what}: {relation.name} is read by {', '.join(found)}, whose text names it"
        hint = explain_release(found, "drop those first, and create them again with the new name")
        raise build_name_error(message, relation.name, statement.sql, hint)


def _refuse_connector(relation: Relation, statement: Alter) -> None:
    if "connector" in relation.options:
        message = f"the columns of {relation.name} are named by its {relation.options['connector']} source"
        raise build_name_error(
            message, relation.name, statement.sql, "rename the column in a view over the table"
        )
