"""ALTER TABLE … ALTER COLUMN: another DEFAULT for rows to come, or another answer to NOT NULL."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from engine.arrow import as_values, repeat_value
from engine.errors import SqlError
from engine.hummock import Commit, Hummock
from engine.hummock.manifests.preconditions import require_all, require_unchanged
from engine.meta.catalog.stored_catalog import StoredCatalog, encode_entries, require_same_catalog
from engine.runtime.relations import list_readers, locate_name
from engine.runtime.statements.alter.fed_columns import refuse_unfed
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.statements.ddl.create_text import render_create_table
from engine.sql.statements.ddl.defaults import compute_local_default
from engine.sql.statements.dml.literal_rows import NotLiteral, find_misfit
from engine.sql.statements.statement_types import Alter, AlterColumn


def alter_column(
    store: Hummock,
    stored: StoredCatalog,
    relation: Relation,
    column: RelationColumn,
    statement: Alter,
    computed: Callable[[RelationColumn], pa.Scalar[Any]],
) -> Commit:
    """Return the commit that changes a column; `computed` gives what a DEFAULT is now. Raises SqlError with the place."""
    action = statement.action
    assert isinstance(action, AlterColumn)

    def build_error(message: str, hint: str) -> SqlError:
        line, at = locate_name(column.name, statement.sql)
        return SqlError(message, sql=statement.sql, line=line, column=at, hint=hint)

    version = store.version
    base = version.tables[relation.name]
    checks = [require_same_catalog(version)]
    if action.change == "default":
        if column.generated is not None:
            raise build_error(f"column {column.name} of {relation.name} is generated", "it has no DEFAULT")
        changed = msgspec.structs.replace(column, default=action.default)
        refuse_unfed(stored, _replace_column(relation, changed), changed, build_error)
        found = None if action.default is None else find_misfit(_compute_value(changed, computed), column)
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
            raise build_error(message, "drop those first, and create them again")
        changed = msgspec.structs.replace(column, nullable=True)
    else:
        if any(
            part.column(0).null_count for part in store.iter(relation.name, columns=[column.storage_name])
        ):
            hint = f"UPDATE {relation.name} SET {column.name} = … WHERE {column.name} IS NULL first"
            raise build_error(f"rows of {relation.name} have no value in {column.name}", hint)
        changed = msgspec.structs.replace(column, nullable=False)
        refuse_unfed(stored, _replace_column(relation, changed), changed, build_error)
        checks.append(require_unchanged(base))
    after = _replace_column(relation, changed)
    after = msgspec.structs.replace(after, sql=render_create_table(after), dialect="spark")

    return Commit(catalog=encode_entries({relation.name: after}, {}), precondition=require_all(*checks))


def _replace_column(relation: Relation, changed: RelationColumn) -> Relation:
    columns = tuple(changed if other.name == changed.name else other for other in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def _compute_value(column: RelationColumn, computed: Callable[[RelationColumn], pa.Scalar[Any]]) -> Any:
    try:
        return compute_local_default(column, datetime.datetime.now(datetime.UTC))
    except NotLiteral:
        return as_values(repeat_value(computed(column), 1))[0]
