"""The check that a table is yet the one that a source makes rows for: what was read for another one must not land in it.

A source is polled beside statements of the same process, so a table may be altered, or dropped and made anew, at any moment.
"""

from __future__ import annotations

from engine.errors import SourceError
from engine.hummock import Version
from engine.hummock.manifests.preconditions import Precondition
from engine.meta.catalog.stored_catalog import load_catalog
from engine.sql.catalog import Relation


def require_same_table(seen: Version, table: str, relation: Relation | None = None) -> Precondition:
    """Return the check that a table is as it was in `seen`; raises SourceError at once if `relation` is not the table's there."""
    before = seen.tables.get(table)
    entry = f"relation/{table}"

    def check(version: Version) -> None:
        now = version.tables.get(table)
        if before is None or now is None or now.table_id != before.table_id:
            raise SourceError(f"table {table} was dropped while its source was polled")
        if now.table != before.table or version.catalog.get(entry) != seen.catalog.get(entry):
            raise _build_altered_error(table)

    check(seen)
    if relation is not None and load_catalog(seen).catalog.relations.get(table) != relation:
        raise _build_altered_error(table)
    return check


def _build_altered_error(table: str) -> SourceError:
    return SourceError(f"table {table} was altered while its source was polled: the next poll reads the rest")
