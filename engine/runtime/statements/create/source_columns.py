"""The columns of a source whose rows are not kept: beside its own what its rows were before a change."""

from __future__ import annotations

import msgspec

from engine.errors import SqlError
from engine.hummock.manifests.pass_through import WAS, old_column
from engine.runtime.relations import locate_name
from engine.sql.catalog import Relation, RelationColumn


def build_source_relation(table: Relation) -> Relation:
    """Return the relation of a source whose rows, where it kept them, would be those of a table.

    Where rows go and change, a change has the old row beside the new one, in hidden columns.
    """
    columns = table.columns
    if not table.append_only:
        values = [column for column in columns if column.storage_name not in table.primary_key]
        old = (RelationColumn(old_column(column.storage_name), column.type, hidden=True) for column in values)
        own = (RelationColumn(WAS, "boolean", hidden=True), *old)
        named = {column.name for column in columns}
        for column in own:
            if column.name in named:
                line, at = locate_name(column.name, table.sql)
                message = f"in a source the name {column.name} is the system's own, for what its rows were"
                hint = "CREATE TABLE, whose rows are kept, or leave the column out"
                raise SqlError(message, sql=table.sql, line=line, column=at, hint=hint)
        columns = (*columns, *own)
    return msgspec.structs.replace(table, kind="source", columns=columns)
