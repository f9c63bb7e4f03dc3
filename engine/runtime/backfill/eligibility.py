"""Which new domains are built step by step: those that are large, or whose creation nobody waits for."""

from __future__ import annotations

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, list_creations
from engine.meta.domains.domain import Domain, is_in_background
from engine.runtime.backfill.driving_scans import find_driving_scans

BACKFILL_ROWS = 1_000_000


def needs_backfill(
    domain: Domain, version: Version, stored: StoredCatalog, least_rows: int = BACKFILL_ROWS
) -> bool:
    """Tell whether a domain is being backfilled, or is to be: new, and of `least_rows` or more or made in the background."""
    creation = list_creations(version).get(domain.name)
    if creation is not None and creation.state == CONSUMING_SNAPSHOT:
        return True
    if any(fragment.table in version.tables for _, fragment in domain.fragments):
        return False
    rows = count_snapshot_rows(domain, version)
    return rows is not None and rows > 0 and (rows >= least_rows or is_in_background(domain, stored))


def count_snapshot_rows(domain: Domain, version: Version) -> int | None:
    """Return the rows that a backfill reads of stored tables, or None if an input does not exist yet."""
    inside = {fragment.table for _, fragment in domain.fragments}
    total = 0
    for _, fragment in domain.fragments:
        scans = find_driving_scans(
            fragment, lambda name: version.tables[name].row_count if name in version.tables else 0
        )
        for scan in scans or ():
            if scan.table not in inside and scan.table not in version.tables:
                return None
            total += version.tables[scan.table].row_count if scan.table in version.tables else 0
    return total
