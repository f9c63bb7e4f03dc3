"""ALTER TABLE … ALTER COLUMN: another DEFAULT for rows to come, or another answer to NOT NULL."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from engine.arrow import as_values, repeated
from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import StoredCatalog, catalog_unchanged, entries
from engine.runtime.relations import place_of, readers
from engine.runtime.writes.conflicts import unchanged
from engine.sql.catalog import Column, Relation
from engine.sql.statements.create_text import create_text
from engine.sql.statements.defaults import local_default
from engine.sql.statements.statement_types import Alter, AlterColumn
from engine.sql.statements.values import NotLiteral, misfit


def altered_column(
    store: Hummock,
    stored: StoredCatalog,
    relation: Relation,
    column: Column,
    statement: Alter,
    computed: Callable[[Column], pa.Scalar[Any]],
) -> Commit:
    """Return the commit that changes a column; `computed` gives what a DEFAULT is now. Raises SqlError with the place."""
    action = statement.action
    assert isinstance(action, AlterColumn)

    def wrong(message: str, hint: str) -> SqlError:
        line, at = place_of(column.name, statement.sql)
        return SqlError(message, sql=statement.sql, line=line, column=at, hint=hint)

    version = store.version
    seen = version.tables[relation.name]
    checks = [catalog_unchanged(version)]
    if action.change == "default":
        if column.generated is not None:
            raise wrong(f"column {column.name} of {relation.name} is generated", "it has no DEFAULT")
        changed = msgspec.structs.replace(column, default=action.default)
        found = None if action.default is None else misfit(_value(changed, computed), column)
        if found is not None:
            raise wrong(f"the DEFAULT does not fit: {found[0]}", found[1])
    elif action.change == "nullable":
        if column.source in relation.unique_key:
            raise wrong(
                f"column {column.name} is part of the primary key of {relation.name}", "it is never null"
            )
        users = readers(stored, relation.name)
        if users and not column.nullable:
            message = f"{', '.join(users)} count on column {column.name}, which is NOT NULL"
            raise wrong(message, "drop those first, and create them again")
        changed = msgspec.structs.replace(column, nullable=True)
    else:
        if any(part.column(0).null_count for part in store.iter(relation.name, columns=[column.source])):
            hint = f"UPDATE {relation.name} SET {column.name} = … WHERE {column.name} IS NULL first"
            raise wrong(f"rows of {relation.name} have no value in {column.name}", hint)
        changed = msgspec.structs.replace(column, nullable=False)
        checks.append(unchanged(seen))
    columns = tuple(changed if other.name == column.name else other for other in relation.columns)
    after = msgspec.structs.replace(relation, columns=columns)
    after = msgspec.structs.replace(after, sql=create_text(after), dialect="spark")

    def check(now: Version) -> None:
        for one in checks:
            one(now)

    return Commit(catalog=entries({relation.name: after}, {}), precondition=check)


def _value(column: Column, computed: Callable[[Column], pa.Scalar[Any]]) -> Any:
    try:
        return local_default(column, datetime.datetime.now(datetime.UTC))
    except NotLiteral:
        return as_values(repeated(computed(column), 1))[0]
