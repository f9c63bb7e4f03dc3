"""Tables in whose key the time stands beside the columns that tell rows apart: whoever comes takes the place of who is there.

A row whose time changes is deleted under its old time and comes under the new one; of a row that has left by itself nothing is
found, so its key comes as a new row.
"""

from __future__ import annotations

import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Version
from engine.hummock.manifests.preconditions import Precondition, require_all, require_unchanged
from engine.hummock.writes.batch import Operation
from engine.runtime.writes.watermarks import WatermarkMoved
from engine.sql.catalog import ROW_ID, Relation


def build_deletes(store: Hummock, version: Version, relation: Relation, rows: pa.Table) -> list[Operation]:
    """Return what deletes the rows that are there under the unique keys of some rows, under the names of the store."""
    table = version.tables[relation.name]
    keys, key = rows.select(list(relation.unique_key)), list(relation.primary_key)
    _, known = store.reader.lookup(table, keys, table.committed_epoch, columns=key, null_safe=True)
    return [Delete(known)]


def require_unwritten(
    version: Version, relation: Relation, further: Precondition | None = None
) -> Precondition:
    """Return the precondition that nobody wrote to a table since `version`, and the `further` one, which is asked first."""
    message = f"rows of {relation.name} have changed meanwhile"
    return require_all(further, require_unchanged(version.tables[relation.name], message, WatermarkMoved))


def refuse_many(relation: Relation, rows: int, setting: str) -> None:
    """Raise InvalidRow for an INSERT of more rows than one process holds into such a table with a key."""
    if relation.unique_key != relation.primary_key and ROW_ID not in relation.primary_key:
        raise InvalidRow(
            f"INSERT into {relation.name}, a table WITH TTL and a key, brings {rows} rows, more than one process holds at once: "
            f"do it in parts, or raise {setting}"
        )
