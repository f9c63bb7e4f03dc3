"""The version that is expected after a step of a plan: labels and histories as they will be, without the rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace

import msgspec

from engine.hummock import TableVersion, Version
from engine.hummock.version import LogEntry
from engine.meta.catalog.replaced_queries import clear_replaced
from engine.meta.catalog.stored_catalog import build_table
from engine.meta.catalog.successions import show_columns
from engine.meta.domains.creation import CREATED, encode_creation, list_creations
from engine.meta.domains.domain import Domain
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import apply_mutation, encode_control, read_control
from engine.meta.epochs.barrier import close_barrier
from engine.meta.epochs.flush_plan import FlushStep
from engine.meta.epochs.target_epoch import record_target_epoch
from engine.meta.epochs.time_boundary import clear_boundaries


@dataclass(frozen=True)
class ExpectedTable(TableVersion):
    """A table as it is expected to be brought on; nobody knows its new rows yet, so its newest log entry holds none."""


def predict_version(version: Version, domain: Domain, step: FlushStep, now: float) -> Version:
    """Return the version after a step of a domain that goes well and changes every table that it can."""
    changed: dict[str, str | None] = {}
    brought: Collection[str] = ()
    match step.work:
        case "mutation":
            control = read_control(version, domain.name)
            while control.asked:
                control = apply_mutation(control, version.epoch, now)
            changed = encode_control(domain.name, control)
        case "backfill step":
            brought = domain.tables
            creation = list_creations(version).get(domain.name)
            if creation is not None:
                changed = encode_creation(domain.name, msgspec.structs.replace(creation, state=CREATED))
        case "recompute partitions":
            brought = domain.tables if step.again else ()
            changed = record_target_epoch(version, step.stop)
        case _:
            brought = tuple(fragment.table for fragment in step.fragments)
            changed = record_target_epoch(version, step.stop) | forget_failure(version, domain.name)
    if step.work != "mutation":
        changed |= close_barrier(version, domain.name)
    changed |= (
        clear_boundaries(version, brought) | clear_replaced(version, brought) | show_columns(version, brought)
    )
    tables = dict(version.tables)
    if step.label is not None:
        for name in brought:
            tables[name] = _predict_table(version, domain, name, step.label)
    catalog = version.catalog.apply_changes(changed) if changed else version.catalog
    return replace(version, epoch=version.epoch + 1, tables=tables, catalog=catalog)


def _predict_table(version: Version, domain: Domain, name: str, label: int) -> ExpectedTable:
    before = version.tables.get(name)
    if before is None:
        fragment = next(fragment for _, fragment in domain.fragments if fragment.table == name)
        before = TableVersion(build_table(fragment), 0)
    known = {field.name: getattr(before, field.name) for field in fields(TableVersion)}
    if label <= before.committed_epoch:
        return ExpectedTable(**known)
    return ExpectedTable(**known | {"committed_epoch": label, "log": (*before.log, LogEntry(label, ()))})
