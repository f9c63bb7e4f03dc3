"""refresh: views that rest until somebody asks for them by name, or until the next time of their schedule.

A view is due at the first time of its schedule after the oldest change that it lacks, so nothing has to be kept of when it was
brought on last. A change whose time lies ahead was labelled by a wrong clock, and is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table, list_creations
from engine.meta.domains.domain import Domain
from engine.sql.catalog import Relation
from engine.sql.statements.options.refresh_schedule import find_next_time, is_manual

REFRESH = "refresh"
AHEAD_SECONDS = 60.0
"""How far the clocks of two machines may differ before the time of a change is not believed."""


@dataclass(frozen=True)
class Rest:
    """Why a domain rests, and `until` when, in seconds since 1970; None: until somebody asks for it by name."""

    text: str
    until: float | None


def find_schedule(relation: Relation) -> str | None:
    """Return when a view is brought on other than by name; None for one that follows its inputs."""
    return relation.options.get(REFRESH)


def find_rest(
    domain: Domain, version: Version, stored: StoredCatalog, since: float | None, now: float
) -> Rest | None:
    """Return why a domain that lags since `since` rests, None if it is due, or has no content yet."""
    relations = stored.catalog.relations
    found = [
        (m, s) for m in domain.members if m in relations and (s := find_schedule(relations[m])) is not None
    ]
    if not found or domain.name in list_creations(version):
        return None
    if any(find_computed_table(version, table) is None for table in domain.tables):
        return None
    view, schedule = found[0]
    by_name = f"REFRESH MATERIALIZED VIEW {view}"
    if is_manual(schedule):
        return Rest(f"it is brought on by {by_name} only", None)
    if since is not None and since > now + AHEAD_SECONDS:
        return None
    until = find_next_time(schedule, now if since is None else min(since, now))
    if until is None or until <= now:
        return None
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(until))
    return Rest(f"it is refreshed at {at} UTC ({schedule}), or by {by_name} at once", until)


def list_resting_views(stored: StoredCatalog) -> frozenset[str]:
    """Return the materialized views that rest at times, and all that read them."""
    relations = stored.catalog.relations
    found = {
        name for name in stored.plans if name in relations and find_schedule(relations[name]) is not None
    }
    owned = {table for table, owner in stored.owners.items() if owner in found}
    for table in stored.order:  # inputs first
        if not owned.isdisjoint(stored.inputs[table]):
            owned.add(table)
    return frozenset(found | (owned & set(stored.plans)))


def suggest_refresh(stored: StoredCatalog, tables: Iterable[str]) -> str:
    """Return the statements that bring on what is read: FLUSH leaves alone what is brought on by name."""
    relations = stored.catalog.relations
    resting = [name for name in tables if name in relations and find_schedule(relations[name]) is not None]
    return " and ".join(f"REFRESH MATERIALIZED VIEW {name}" for name in resting) or "FLUSH"
