"""What an epoch run would have to do now, from the newest manifest and the landing folders alone: no Spark, no file read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dagster_tideline.models import Model
from dagster_tideline.sync import SyncPlan, plan_sync
from engine.connectors.sources import pending_digest
from engine.hummock import Hummock, Version
from engine.meta.catalog_store import StoredCatalog
from engine.meta.crossing import present
from engine.meta.domain import domain_of
from engine.meta.idle import passed_over
from engine.meta.mutation import control_of
from engine.meta.partitions import retries
from engine.meta.sinks import sinks, source_of, standing
from engine.meta.waits import waits

FIRST_RETRY_SECONDS = 15
LONGEST_RETRY_SECONDS = 1800


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
            parts.append(f"models to create or alter: {', '.join(self.models[:8])}")
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
    version, stored = present(store, now)
    due = {wait.domain for wait in waits(version, stored, now) if wait.goes_on}
    due |= {domain_of(stored, view) for view in retries(version, stored, now)}
    due -= set(busy)
    lagging = tuple(
        name
        for name, relation in stored.catalog.relations.items()
        if relation.kind == "materialized view" and domain_of(stored, name) in due
    )
    files, folders = (0, "") if are_polled else pending_digest(stored.catalog, store)
    plan = plan_sync(stored.catalog, models)
    work = hashlib.sha256(folders.encode())
    for name in lagging:
        control = control_of(version, domain_of(stored, name))
        numbers = ",".join(str(asked.number) for asked in control.asked)
        work.update(f"{name}:{_position(name, version, stored)}:{numbers}\n".encode())
    behind = []
    for sink in sinks(stored):
        delivers = (durable or store).version
        at = standing(delivers, sink)
        if at.is_due:
            behind.append(sink.name)
            committed = delivers.tables[source_of(sink)].committed_epoch
            work.update(f"{sink.name}:{at.epoch}<{committed}\n".encode())
    by_name = {model.name: model for model in models}
    for model in (*plan.create, *plan.alter, *(by_name[name] for name in plan.change)):
        work.update(f"{model.name}:{model.code_version}\n".encode())
    idle = passed_over(store.reader, store.version, stored, now)
    for table, number in sorted(idle.items()):
        work.update(f"{table}:{number}\n".encode())
    wanted = _models(plan)
    newest = max((_newest(name, version, stored) for name in (*lagging, *behind)), default=version.epoch)
    return Pending(newest, lagging, tuple(behind), files, wanted, work.hexdigest()[:16], tuple(sorted(idle)))


def retry_delay(attempts: int) -> float:
    """Return the seconds to wait before work that failed `attempts` times is tried again: doubling, with an upper bound."""
    return (
        0.0 if attempts <= 0 else float(min(FIRST_RETRY_SECONDS * 2 ** (attempts - 1), LONGEST_RETRY_SECONDS))
    )


def _models(plan: SyncPlan) -> tuple[str, ...]:
    return (*plan.change, *(model.name for model in (*plan.create, *plan.alter)))


def _position(name: str, version: Version, stored: StoredCatalog) -> str:
    """A view's own epoch and those of the tables below it; claims of writers change neither."""
    own = version.tables.get(name)  # moves with each step of a backfill as well
    committed = own.committed_epoch if own is not None else None
    return f"{committed}<{_newest(name, version, stored)}"


def _newest(name: str, version: Version, stored: StoredCatalog) -> int:
    """Return the newest commit among the tables that a view reads."""
    epochs = [0]
    for upstream in stored.catalog.relations[name].depends_on:
        table = version.tables.get(upstream)
        if table is not None:
            epochs.append(table.committed_epoch)
    return max(epochs)
