"""WAIT: return when views that are being created are whole; this process works on them itself unless another one does."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from engine.errors import EpochFailed, SqlError
from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import find_computed_table, list_creations
from engine.meta.domains.domain import Domain, list_domains
from engine.meta.status.waits import list_waits
from engine.runtime.domains.epochs import EpochRunner

LOOK_SECONDS = 0.2
STEP_SECONDS = 1.0


def wait_for_creation(epochs: EpochRunner, views: Collection[str], seconds: float) -> None:
    """Return when `views` (none named: all) have been computed as a whole.

    Raises EpochFailed with the reasons when that takes longer than `seconds`, or when the creation of one of them fails, and
    SqlError for a name that is no materialized view.
    """
    deadline, runner = time.monotonic() + seconds, epochs.runner
    before: Mapping[str, tuple[int, int]] = {}
    while True:
        version = epochs.base.refresh()
        stored = load_catalog(version)
        left = list_unfinished_domains(version, stored, views)
        if not left:
            return
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            why = {wait.domain: wait.reason for wait in list_waits(version, stored, runner.clock())}
            reasons = "; ".join(f"{name}: {why.get(name, 'it is being computed')}" for name in left)
            raise EpochFailed(
                f"after {seconds:g} s these are not created yet: {reasons}. They continue in the "
                f"background: WAIT again, or look at "
                f"`tideline status --waits`"
            )
        steps = {name: (c.fragment, c.rows) for name, c in list_creations(version).items() if name in left}
        elsewhere = [
            name
            for name, domain in left.items()
            if before.get(name, steps.get(name)) != steps.get(name)
            and version.generations.get(domain.writer) != runner.generations.get(domain.writer)
        ]
        before = steps
        if elsewhere:
            time.sleep(min(LOOK_SECONDS, remaining))
            continue
        members = [member for domain in left.values() for member in domain.members]
        report = epochs.run_pending(members, background_seconds=min(STEP_SECONDS, remaining))
        report.raise_for_errors()
        if all(view.waits_for is not None or view.skipped for view in report.views if view.view in members):
            time.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))


def list_unfinished_domains(
    version: Version, stored: StoredCatalog, views: Collection[str]
) -> dict[str, Domain]:
    """Return the domains of `views` (none named: all) with a table that was never computed as a whole."""
    for view in views:
        relation = stored.catalog.relations.get(view)
        if relation is None:
            raise SqlError(f"there is no materialized view {view}", hint=stored.catalog.suggest_names(view))
        if relation.kind != "materialized view":
            hint = "SHOW MATERIALIZED VIEWS lists what can be waited for"
            raise SqlError(f"{view} is a {relation.kind}: it is always complete", hint=hint)
    return {
        name: domain
        for name, domain in list_domains(stored).items()
        if (not views or set(domain.members) & set(views))
        and any(find_computed_table(version, table) is None for table in domain.tables)
    }
