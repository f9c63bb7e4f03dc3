"""Which rows make domains fail: asked once all others have committed, and first of the row that failed the last time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from engine.errors import Conflict, RowFailed
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import Precondition, require_all
from engine.meta.catalog.stored_catalog import StoredCatalog, require_same_plans
from engine.meta.domains.domain import Domain
from engine.meta.domains.failures import (
    FAILURES,
    Failure,
    list_failures,
    record_failed_row,
    record_failure,
)
from engine.meta.domains.repeated_failures import is_same_failure
from engine.meta.status.check_results import ViewCheckResults, record_failed_checks
from engine.runtime.partitions.poison_search import search_row

BUDGET_SECONDS = 120.0
"""How long the domains of one run may ask for their rows, all together."""


class Told(NamedTuple):
    """What a run tells of a failure: the checks that have stopped the domain, by view, the reason of a row on which it has
    failed, and whether it has failed `again` over the same.
    """

    checks: Mapping[str, ViewCheckResults]
    reason: str | None = None
    again: bool = False


def record_domain_failure(
    store: Hummock,
    domain: Domain,
    stored: StoredCatalog,
    error: str,
    now: float,
    told: Told,
) -> Failure | None:
    """Write a domain's failure into the store, for whoever looks or retries; that of a view dropped meanwhile is none.

    One that came `again` over what the domain failed over before, and is remembered, is not written but returned as it is.
    """
    version = store.refresh()
    with suppress(Conflict):
        entry: dict[str, str | None] = {}
        for view, found in told.checks.items():
            entry |= record_failed_checks(version, view, found)
        known = list_failures(version).get(domain.name) if told.again else None
        if known is None or not is_same_failure(known, error, told.reason):
            known, entry = None, record_failure(version, domain.name, error, now) | entry
        if entry:
            store.commit(Commit(catalog=entry, precondition=require_same_plans(stored, domain.members)))
        return known
    return None


def name_failing_rows(
    store: Hummock, failing: Mapping[str, RowFailed], domains: Mapping[str, Domain], stored: StoredCatalog
) -> dict[str, str]:
    """Find the rows on which domains have failed, and return the errors that name them; the store remembers them.

    A row that is remembered is tried by itself, or not at all where nothing that its domain reads has changed since; only if it
    is not the one any more the changed rows are searched. A search that found nothing is repeated after 1, 2, 4, … more failures.
    """
    told: dict[str, str] = {}
    deadline = time.monotonic() + BUDGET_SECONDS
    for name, failure in failing.items():
        version, domain = store.refresh(), domains[name]
        before = list_failures(version).get(name)
        found = None if before is None else _find_failing_row(failure, before, domain, version, deadline)
        if before is None or found is None:
            continue
        told[name] = str(found)
        with suppress(Conflict):  # it was dropped, or has gone on, or failed anew, meanwhile
            entry = record_failed_row(before, name, told[name], found.row)
            if all(version.catalog.get(key) == text for key, text in entry.items()):
                continue
            store.commit(Commit(catalog=entry, precondition=_require_same_failure(version, domain, stored)))
    return told


def _find_failing_row(
    failure: RowFailed, before: Failure, domain: Domain, version: Version, deadline: float
) -> RowFailed | None:
    if failure.search is None or (left := deadline - time.monotonic()) <= 0:
        return None
    newest = max((version.tables[name].last_change for name in domain.inputs), default=0)
    row = before.row
    if row is not None and newest <= row.epoch and row.reason == failure.reason:
        return failure.search.build_error(row)
    if before.row is None and before.attempts & (before.attempts - 1):
        return None  # the last search found nothing
    return search_row(failure, before.row, left)


def _require_same_failure(seen: Version, domain: Domain, stored: StoredCatalog) -> Precondition:
    message = f"{domain.name} has gone on, or failed once more, at the same time"
    return require_all(
        require_same_plans(stored, domain.members), FAILURES.require_same(seen, domain.name, message)
    )
