"""The overview: every domain with what it reads, where it stands, what its last epochs took, and its last error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata
from dagster_tideline.runs.event_throttle import EPOCHS
from dagster_tideline.upkeep.maintenance import render_table
from engine.hummock.epoch import format_epoch_time
from engine.hummock.upkeep.history import count_log_bytes
from engine.meta.domains.domain import list_domains
from engine.meta.status.relation_status import describe_state, list_statuses
from engine.meta.status.waits import group_waits, list_all_waits

if TYPE_CHECKING:
    from engine.hummock import Version
    from engine.meta.catalog.stored_catalog import StoredCatalog

ERROR_CHARACTERS = 300
WORST_FIRST = (
    "failed",
    "quarantine",
    "paused",
    "held",
    "waits",
    "backfill",
    "behind",
    "sealed",
    "rests",
    "current",
)
COLUMNS = (
    "domain",
    "reads",
    "state",
    "epoch (UTC)",
    "lag in s",
    "epochs",
    "seconds",
    "rows in",
    "last error",
)


def build_overview(
    version: Version, stored: StoredCatalog, now: float, instance: dg.DagsterInstance, naming: Naming
) -> dict[str, Metadata]:
    """Return where everything stands: numbers to plot, and the domains as a table, upstream ones first."""
    waiting = group_waits(
        list_all_waits(version, stored, now),
        stored,
    )
    statuses = {one.name: one for one in list_statuses(version, stored, {}, now)}
    views = [one for one in statuses.values() if one.kind == "materialized view"]
    last = fetch_last_metrics(instance, [view.name for view in views], naming)
    rows = []
    for name, domain in list_domains(stored).items():
        members = [statuses[member] for member in domain.members if member in statuses]
        if not members:  # an index is told of with its table
            continue
        states = {describe_state(one, waiting.get(one.name)) for one in members}
        epochs = [one.committed_epoch for one in members if one.committed_epoch]
        reports = [last[one.name] for one in members if one.name in last]
        rows.append(
            (
                name,
                ", ".join(dict.fromkeys(stored.owners.get(read, read) for read in domain.inputs)),
                min(states, key=WORST_FIRST.index),
                format_epoch_time(min(epochs)) if len(epochs) == len(members) else "",
                f"{max(one.lag_seconds for one in members):.1f}",
                int(max((numbers.get(EPOCHS, 1) for numbers in reports), default=0)) or "",
                round(sum(numbers.get("seconds_total", 0) for numbers in reports), 3) if reports else "",
                int(sum(numbers.get("rows_in", 0) for numbers in reports)) if reports else "",
                " ".join(dict.fromkeys(one.last_error for one in members if one.last_error))[
                    :ERROR_CHARACTERS
                ],
            )
        )
    tables = version.tables.values()
    return {
        "domains": render_table(COLUMNS, rows),
        "views": len(views),
        "views_lagging": sum(view.lagging for view in views),
        "views_failing": sum(view.last_error is not None for view in views),
        "oldest_lag_seconds": round(max((view.lag_seconds for view in views), default=0.0), 1),
        "state_bytes": sum(known.size_bytes for known in tables),
        "log_bytes": sum(count_log_bytes(known) for known in tables),
        "files": sum(known.file_count for known in tables),
        "tables": len(version.tables),
        "epoch": format_epoch_time(version.epoch),
    }


def fetch_last_metrics(
    instance: dg.DagsterInstance, views: list[str], naming: Naming
) -> Mapping[str, Mapping[str, float]]:
    """Return the numbers of each view's newest event: of its last epoch, or of the last ones that were told of together."""
    found = {}
    for record in instance.get_asset_records(
        naming.get_keys(view for view in views if naming.is_known(view))
    ):
        entry = record.asset_entry.last_materialization_record
        event = None if entry is None else entry.asset_materialization
        if event is not None:
            numbers = {name: getattr(value, "value", None) for name, value in event.metadata.items()}
            found[naming.find_name(event.asset_key)] = {
                name: value for name, value in numbers.items() if isinstance(value, int | float)
            }
    return found
