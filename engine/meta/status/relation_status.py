"""Where the relations of a store stand, read from one version: their epochs, how far behind they are, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.hummock import Reader, TableVersion, Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import find_succeeded_view
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.failures import list_failures
from engine.meta.domains.quarantine import describe_quarantine, read_quarantine
from engine.meta.epochs.frontier import Frontier, compute_frontiers
from engine.meta.status.sinks import (
    compute_progress,
    find_sink_source,
    is_paused_by_branch,
    list_sinks,
    read_sink_state,
)
from engine.meta.status.source_notes import read_source_notes
from engine.meta.status.subscriptions import (
    compute_subscription_progress,
    find_followed,
    list_subscriptions,
    read_subscription_state,
)
from engine.meta.status.waits import DomainWait
from engine.meta.status.watermarks import report_watermarks
from engine.sql.catalog import COMPANIONS, Relation, RelationKind

STATES = {
    "due": "behind",
    "backfill": "backfill",
    "barrier": "sealed",
    "refresh": "rests",
    "upstream": "waits",
    "quarantined": "quarantine",
    "gate": "held",
}
SOURCE_PAUSED = "paused: the store is a branch, which follows no source"
SINK_PAUSED = "paused: the store is a branch, whose sinks write nothing outside of it"


@dataclass(frozen=True)
class RelationStatus:
    """Where one table or view stands; `lag_seconds` is the age of the oldest change that it lacks."""

    name: str
    kind: RelationKind
    committed_epoch: int | None
    frontier: int | None
    lag_seconds: float
    lagging: bool
    rows: int
    bytes: int
    files: int
    last_error: str | None
    rows_are_counted: bool = True
    """Whether so many rows are there; else at most so many, as files hold a key more than once."""
    watermark: str | None = None
    late_rows: int | None = None
    """Where the watermark of a table stands, and how many rows were below it; None for one without."""
    note: str | None = None
    """What is to be known of a table's source."""


def list_statuses(
    version: Version,
    stored: StoredCatalog,
    sink_errors: Mapping[str, str],
    now: float,
    reader: Reader | None = None,
) -> tuple[RelationStatus, ...]:
    """Return where every table and materialized view stands, inputs first, then every sink and subscription.

    `sink_errors` are by sink what this process has met; `now` in seconds since 1970. Watermarks, and what sources say, are read
    with a `reader` only.
    """
    tables = [*_read_table_statuses(version, stored, now)]
    if reader is not None:
        marks, notes = report_watermarks(reader, version, stored), read_source_notes(reader, version)
        for n, one in enumerate(tables):
            if (mark := marks.get(one.name)) is not None:
                tables[n] = one = replace(one, watermark=mark.at, late_rows=mark.late_rows)
            if (said := notes.get(one.name)) is not None:
                tables[n] = replace(one, last_error=said.error or one.last_error, note=said.note)
    if version.is_branch:
        fed = {name for name, one in stored.catalog.relations.items() if _has_connector(one)}
        tables = [replace(one, note=SOURCE_PAUSED) if one.name in fed else one for one in tables]
    return (
        *tables,
        *_read_sink_statuses(version, stored, sink_errors, now),
        *_read_subscription_statuses(version, stored, now),
    )


def _has_connector(relation: Relation) -> bool:
    return relation.kind in ("table", "source") and any(
        key.lower() == "connector" for key in relation.options
    )


def has_exact_row_count(table: TableVersion) -> bool:
    """Tell whether the row count of a table is what a read of the newest epoch finds, and not at most that."""
    options = table.table.options
    hides = options.ttl_seconds is not None or options.watermark_column is not None
    later = (sst for run in table.live_runs[:-1] for sst in run)
    return not hides and all(sst.new_keys and not sst.tombstones for sst in later)


def describe_state(status: RelationStatus, wait: DomainWait | None) -> str:
    """Return in a word how a relation is that has this wait, if any."""
    if status.last_error and (wait is None or wait.kind == "due"):
        return "failed"
    if wait is not None:
        return STATES.get(wait.kind, wait.kind)
    return "behind" if status.lagging else "current"


def list_lagging_views(version: Version, stored: StoredCatalog) -> tuple[str, ...]:
    """Return the materialized views that lack changes of their inputs."""
    known = compute_frontiers(version, stored.order, stored.inputs)
    views = (n for n, r in stored.catalog.relations.items() if r.kind == "materialized view")
    return tuple(name for name in views if known[name].lagging and find_succeeded_view(name) is None)


def _read_table_statuses(version: Version, stored: StoredCatalog, now: float) -> Iterator[RelationStatus]:
    known = compute_frontiers(version, stored.order, stored.inputs)
    failing, oldest = list_failures(version), _find_oldest_lacking(known, stored.inputs)
    for name in stored.order:
        relation = stored.catalog.relations.get(name)
        if relation is None or relation.kind in COMPANIONS:
            continue
        state, table = known[name], version.tables.get(name)
        failure = failing.get(find_domain_name(stored, name))
        since = oldest[name]
        yield RelationStatus(
            name,
            relation.kind,
            state.committed,
            state.frontier,
            0.0 if since is None else max(0.0, now - seconds_of(since)),
            state.lagging,
            table.row_count if table else 0,
            table.size_bytes if table else 0,
            table.file_count if table else 0,
            failure.error if failure is not None else describe_quarantine(read_quarantine(version, name)),
            table is None or has_exact_row_count(table),
        )


def _find_oldest_lacking(
    known: Mapping[str, Frontier], inputs: Mapping[str, Sequence[str]]
) -> Mapping[str, int | None]:
    """Return the oldest change that each table lacks, also one that an input of it has not taken yet; inputs first."""
    found: dict[str, int | None] = {}
    for name, state in known.items():
        lacking = [state.oldest_change, *(found[upstream] for upstream in inputs[name])]
        found[name] = min((c for c in lacking if c is not None), default=None) if state.lagging else None
    return found


def _read_sink_statuses(
    version: Version, stored: StoredCatalog, errors: Mapping[str, str], now: float
) -> Iterator[RelationStatus]:
    """Yield where every sink stands: its epoch is what it has delivered, rows and bytes are still to come."""
    for relation in list_sinks(stored):
        at, source = compute_progress(version, relation), version.tables.get(find_sink_source(relation))
        frontier = source.committed_epoch if source is not None else None
        lag, lagging = at.lag_seconds(now), at.oldest is not None
        error = read_sink_state(version, relation.name).lapsed or errors.get(relation.name)
        status = RelationStatus(
            relation.name, relation.kind, at.epoch, frontier, lag, lagging, at.rows, at.bytes, 0, error
        )
        yield replace(status, note=SINK_PAUSED) if is_paused_by_branch(version, relation) else status


def _read_subscription_statuses(
    version: Version, stored: StoredCatalog, now: float
) -> Iterator[RelationStatus]:
    """Yield where every subscription stands: its epoch is what was acknowledged, rows and bytes are still to come."""
    for relation in list_subscriptions(stored):
        at = compute_subscription_progress(version, relation)
        source = version.tables.get(find_followed(relation))
        frontier = source.committed_epoch if source is not None else None
        error = read_subscription_state(version, relation.name).lapsed or None
        lag, lagging = at.lag_seconds(now), at.oldest is not None
        yield RelationStatus(
            relation.name, relation.kind, at.epoch, frontier, lag, lagging, at.rows, at.bytes, 0, error
        )
