"""What an epoch run would have to do now, from the newest manifest and the landing folders alone: no Spark, no file read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dagster_tideline.models.loader import Model
from dagster_tideline.sync import SyncPlan, plan_sync
from engine.connectors.sources import compute_pending_digest
from engine.hummock import Hummock, Version
from engine.hummock.back_off import BackOff
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.mutation import read_control
from engine.meta.domains.quarantine import list_retry_views
from engine.meta.epochs.idle_timeout import find_idle_watermarks
from engine.meta.epochs.time_boundary import load_present
from engine.meta.status.sinks import compute_progress, find_sink_source, list_sinks
from engine.meta.status.waits import list_waits

RETRIES = BackOff(15.0, 1800.0)
"""When the sensor asks for another run over work that a run has left undone."""
DRIVER_RETRIES = replace(RETRIES, free=1)
"""When a driver, which is warm, tries such work again: at once the first time."""


@dataclass(frozen=True)
class Pending:
    """The work of the next run; `digest` is the same as long as that work is the same, whoever else commits."""

    epoch: int
    lagging: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    files: int = 0
    models: tuple[str, ...] = ()
    digest: str = ""
    idle: tuple[str, ...] = ()
    """Tables at rest whose watermarks are to be passed over."""

    def __bool__(self) -> bool:
        return bool(self.lagging or self.sinks or self.files or self.models or self.idle)

    @property
    def reason(self) -> str:
        """What is pending, in words."""
        parts = []
        if self.files:
            parts.append(f"{self.files} files or batches of sources")
        if self.lagging:
            parts.append(f"{len(self.lagging)} views lag: {', '.join(self.lagging[:8])}")
        if self.sinks:
            parts.append(f"{len(self.sinks)} sinks lag: {', '.join(self.sinks[:8])}")
        if self.idle:
            parts.append(f"{len(self.idle)} tables at rest are passed over: {', '.join(self.idle[:8])}")
        if self.models:
            parts.append(f"models to create, alter or rename: {', '.join(self.models[:8])}")
        return "; ".join(parts) or "every view is at the frontier of its inputs and no file is waiting"


def find_pending(
    store: Hummock,
    models: Sequence[Model],
    durable: Hummock | None = None,
    busy: Collection[str] = (),
    *,
    are_polled: bool = False,
) -> Pending:
    """Compare every view with its inputs in the newest manifest, the folders with their records, models with the catalog.

    Of a store that shows what is on its way `durable` is the same without that: sinks take what is committed. Domains that are
    `busy` are worked on already, and sources that `are_polled` already are not looked at.
    """
    now = store.clock()
    version, stored = load_present(store, now)
    due = {wait.domain for wait in list_waits(version, stored, now) if wait.goes_on}
    due |= {find_domain_name(stored, view) for view in list_retry_views(version, stored, now)}
    due -= set(busy)
    lagging = tuple(
        name
        for name, relation in stored.catalog.relations.items()
        if relation.kind == "materialized view" and find_domain_name(stored, name) in due
    )
    files, folders = (0, "") if are_polled else compute_pending_digest(stored.catalog, store)
    plan = plan_sync(stored.catalog, models)
    work = hashlib.sha256(folders.encode())
    for name in lagging:
        control = read_control(version, find_domain_name(stored, name))
        numbers = ",".join(str(mutation.number) for mutation in control.asked)
        work.update(f"{name}:{_format_position(name, version, stored)}:{numbers}\n".encode())
    behind = []
    for sink in list_sinks(stored):
        delivers = (durable or store).version
        at = compute_progress(delivers, sink)
        if at.is_due:
            behind.append(sink.name)
            committed = delivers.tables[find_sink_source(sink)].committed_epoch
            work.update(f"{sink.name}:{at.epoch}<{committed}\n".encode())
    by_name = {model.name: model for model in models}
    for model in (*plan.create, *plan.alter, *(by_name[name] for name in (*plan.change, *plan.rename))):
        work.update(f"{model.name}:{model.code_version}\n".encode())
    idle = find_idle_watermarks(store.reader, store.version, stored, now)
    for table, number in sorted(idle.items()):
        work.update(f"{table}:{number}\n".encode())
    changed_models = _list_changed_models(plan)
    newest = max(
        (_find_newest_epoch(name, version, stored) for name in (*lagging, *behind)), default=version.epoch
    )
    return Pending(
        newest, lagging, tuple(behind), files, changed_models, work.hexdigest()[:16], tuple(sorted(idle))
    )


def _list_changed_models(plan: SyncPlan) -> tuple[str, ...]:
    return (*plan.change, *plan.rename, *(model.name for model in (*plan.create, *plan.alter)))


def _format_position(name: str, version: Version, stored: StoredCatalog) -> str:
    """A view's own epoch and those of the tables below it; claims of writers change neither."""
    own = version.tables.get(name)  # moves with each step of a backfill as well
    committed = own.committed_epoch if own is not None else None
    return f"{committed}<{_find_newest_epoch(name, version, stored)}"


def _find_newest_epoch(name: str, version: Version, stored: StoredCatalog) -> int:
    """Return the newest commit among the tables that a view reads."""
    epochs = [0]
    for upstream in stored.catalog.relations[name].depends_on:
        table = version.tables.get(upstream)
        if table is not None:
            epochs.append(table.committed_epoch)
    return max(epochs)
