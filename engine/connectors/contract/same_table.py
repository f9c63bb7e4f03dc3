"""The check that a table is yet the one that a source makes rows for: what was read for another one must not land in it.

A source is polled beside statements of the same process, so a table may be altered, or dropped and made anew, at any moment.
"""

from __future__ import annotations

from engine.errors import SourceError
from engine.hummock import Version
from engine.hummock.manifests.preconditions import (
    Precondition,
    is_unaltered,
    require,
    require_all,
    require_same_table,
)
from engine.meta.catalog.stored_catalog import RELATIONS, load_catalog
from engine.sql.catalog import Relation


def require_polled_table(seen: Version, table: str, relation: Relation | None = None) -> Precondition:
    """Return the check that a table is as it was in `seen`; raises SourceError at once if `relation` is not the table's there."""
    before = seen.tables.get(table)
    entry = RELATIONS.read_text(seen, table)

    def is_unchanged(version: Version) -> bool:
        same = before is not None and is_unaltered(before, version)
        return same and RELATIONS.read_text(version, table) == entry

    altered = f"table {table} was altered while its source was polled: what was not taken yet is taken by the next poll"
    check = require_all(
        require_same_table(before, f"table {table} was dropped while its source was polled", SourceError),
        require(is_unchanged, altered, SourceError),
    )
    check(seen)
    if relation is not None and load_catalog(seen).catalog.relations.get(table) != relation:
        raise SourceError(altered)
    return check
