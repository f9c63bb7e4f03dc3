"""Lapse: a view that cannot follow within the retention lets go of its inputs' change logs, and is computed anew later."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from engine.errors import Conflict
from engine.hummock import Commit, Hummock, Version
from engine.hummock.epoch import Clock
from engine.hummock.manifests.preconditions import Precondition, require_all, require_unchanged
from engine.meta.catalog.stored_catalog import StoredCatalog, require_same_plans
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import Domain
from engine.meta.epochs.frontier import compute_frontiers
from engine.meta.epochs.retention import find_release_time


def expire_overdue_logs(
    store: Hummock, domains: Iterable[Domain], stored: StoredCatalog, clock: Clock
) -> tuple[str, ...]:
    """Let go of the change logs that domains have failed to consume within the retention; return the domains.

    Called after a run has tried them: what only waited for a run is not overdue any more by then. Epochs for which a table was
    known without a commit, because nothing it reads had changed, become its committed ones: without the logs nobody could tell.
    """
    version = store.version
    expired = []
    known = None
    for domain in domains:
        acks = _find_overdue_acks(domain, version, clock())
        if acks:
            known = known or compute_frontiers(version, stored.order, stored.inputs)
            fronts = {table: known[table] for table in domain.tables}
            epochs = {
                table: front.frontier
                for table, front in fronts.items()
                if front.frontier is not None and front.committed not in (None, front.frontier)
            }
            with suppress(Conflict):  # it has gone on, or was dropped, at this very moment
                tables = {table for consumers in acks.values() for table in consumers}
                unmoved = _require_no_progress(domain, tables | set(epochs), stored, version)
                store.commit(Commit(acks=acks, epochs=epochs, precondition=unmoved))
                expired.append(domain.name)
    return tuple(expired)


def _find_overdue_acks(domain: Domain, version: Version, now: float) -> dict[str, dict[str, int | None]]:
    acks: dict[str, dict[str, int | None]] = {}
    for table, dependencies in domain.dependencies.items():
        own = find_computed_table(version, table)
        if own is None:
            continue
        for name in dependencies:
            table_version = version.tables.get(name)
            at = (
                None
                if table_version is None or name in domain.tables
                else find_release_time(table_version, own.committed_epoch)
            )
            if table_version is not None and at is not None and at <= now and table in table_version.acks:
                acks.setdefault(name, {})[table] = None
    return acks


def _require_no_progress(
    domain: Domain, tables: set[str], stored: StoredCatalog, base: Version
) -> Precondition:
    unmoved = (
        require_unchanged(base.tables[table], f"{table} has advanced in the meantime") for table in tables
    )
    return require_all(require_same_plans(stored, domain.members), *unmoved)
