"""The version that is expected after a step of a plan: labels and histories as they will be, without the rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace

import msgspec

from engine.hummock import TableVersion, Version
from engine.hummock.version import LogEntry
from engine.meta.barrier import closed
from engine.meta.catalog_store import table_of
from engine.meta.creation import CREATED, creations
from engine.meta.creation import entry as creation_entry
from engine.meta.crossing import crossed
from engine.meta.cut import noted
from engine.meta.domain import Domain
from engine.meta.flush_plan import Step
from engine.meta.mutation import control_of, taking
from engine.meta.mutation import entry as control_entry
from engine.meta.recovery import recovered
from engine.meta.replaced import settled


@dataclass(frozen=True)
class ExpectedTable(TableVersion):
    """A table as it is expected to be brought on; nobody knows its new rows yet, so its newest log entry holds none."""


def expected(version: Version, domain: Domain, step: Step, now: float) -> Version:
    """Return the version after a step of a domain that goes well and changes every table that it can."""
    changed: dict[str, str | None] = {}
    brought: Collection[str] = ()
    match step.work:
        case "mutation":
            control = control_of(version, domain.name)
            while control.asked:
                control = taking(control, version.epoch, now)
            changed = control_entry(domain.name, control)
        case "backfill step":
            brought = domain.tables
            creation = creations(version).get(domain.name)
            if creation is not None:
                changed = creation_entry(domain.name, msgspec.structs.replace(creation, state=CREATED))
        case "recompute partitions":
            brought = domain.tables if step.again else ()
            changed = noted(version, step.stop)
        case _:
            brought = tuple(fragment.table for fragment in step.fragments)
            changed = noted(version, step.stop) | recovered(version, domain.name)
    if step.work != "mutation":
        changed |= closed(version.catalog, domain.name)
    changed |= crossed(version, brought) | settled(version, brought)
    tables = dict(version.tables)
    if step.label is not None:
        for name in brought:
            tables[name] = _brought_on(version, domain, name, step.label)
    catalog = version.catalog.changed(changed) if changed else version.catalog
    return replace(version, epoch=version.epoch + 1, tables=tables, catalog=catalog)


def _brought_on(version: Version, domain: Domain, name: str, label: int) -> ExpectedTable:
    before = version.tables.get(name)
    if before is None:
        fragment = next(fragment for _, fragment in domain.fragments if fragment.table == name)
        before = TableVersion(table_of(fragment), 0)
    known = {field.name: getattr(before, field.name) for field in fields(TableVersion)}
    if label <= before.committed_epoch:
        return ExpectedTable(**known)
    return ExpectedTable(**known | {"committed_epoch": label, "log": (*before.log, LogEntry(label, ()))})
