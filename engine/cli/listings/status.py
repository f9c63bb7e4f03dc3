"""Where relations stand, why they wait, how far backfills and partitions are: as columns for people, as numbers for programs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.cli.layout import WIDE_ONLY, TextColumn, format_ago, format_duration, format_size
from engine.hummock.epoch import format_epoch_time, seconds_of
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.creation import CREATED, Creation
from engine.meta.epochs.query_policy import find_global_epoch
from engine.meta.epochs.time_boundary import advance_version
from engine.meta.status.relation_status import describe_state, list_statuses
from engine.meta.status.waits import group_waits, list_all_waits

if TYPE_CHECKING:
    from engine.hummock import Reader, Version
    from engine.meta.catalog.stored_catalog import StoredCatalog
    from engine.meta.domains.quarantine import PartitionStatus
    from engine.meta.status.relation_status import RelationStatus
    from engine.meta.status.waits import DomainWait

KINDS = {"materialized view": "view", "view": "plain view"}


@dataclass(frozen=True)
class Listing:
    """What a command prints: columns and notes for people, `records` with numbers for programs."""

    columns: Sequence[TextColumn]
    notes: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    empty: str = "nothing"
    footer: str = ""


def build_status_listing(version: Version, reader: Reader, now: float, *, waits: bool) -> Listing:
    """Return where everything of a version stands, or with `waits` what lags, why, and until when."""
    stored = load_catalog(version)
    version = advance_version(version, stored, now)
    waiting = list_all_waits(version, stored, now)
    if waits:
        return build_waits_listing(waiting, now)
    footer = format_common_epoch(version, stored, now)
    found = list_statuses(version, stored, {}, now, reader)
    return build_relations_listing(found, group_waits(waiting, stored), now, footer)


def format_common_epoch(version: Version, stored: StoredCatalog, now: float) -> str:
    """Return in words at which epoch all computed views have content, which is what reads of all of them see."""
    if not any(relation.kind == "materialized view" for relation in stored.catalog.relations.values()):
        return ""
    epoch = find_global_epoch(version, stored)
    if epoch is None:
        return "all views together: no epoch yet at which each has content"
    return f"all views together: as of {format_epoch_time(epoch)} UTC, {format_ago(now - seconds_of(epoch))}"


def build_relations_listing(
    found: Sequence[RelationStatus], waiting: Mapping[str, DomainWait], now: float, footer: str = ""
) -> Listing:
    """Return where tables, views and sinks stand; `waiting` is the wait of each view that has one."""
    marked = any(s.late_rows is not None for s in found)
    late = ["" if s.late_rows is None else f"{s.late_rows:,}" for s in found]
    watermarks = (
        TextColumn("watermark", [s.watermark or "" for s in found], rank=3),
        TextColumn("late", late, right=True, rank=4),
    )
    columns = (
        TextColumn("name", [s.name for s in found]),
        TextColumn("kind", [KINDS.get(s.kind, s.kind) for s in found], rank=3),
        TextColumn("state", [describe_state(s, waiting.get(s.name)) for s in found]),
        TextColumn("newest", [_format_age(s.committed_epoch, now) for s in found], right=True, rank=2),
        TextColumn("epoch (UTC)", [_format_time(s.committed_epoch) for s in found], rank=5),
        TextColumn("lag", [_format_lag(s) for s in found], right=True, rank=1),
        TextColumn(
            "rows", [("" if s.rows_are_counted else "≤ ") + f"{s.rows:,}" for s in found], True, rank=4
        ),
        *(watermarks if marked else ()),
        TextColumn("size", [format_size(s.bytes) for s in found], right=True, rank=6),
        TextColumn("files", [f"{s.files:,}" for s in found], right=True, rank=7),
        TextColumn("frontier (UTC)", [_format_time(s.frontier) for s in found], rank=8),
        TextColumn("epoch", [_format_number(s.committed_epoch) for s in found], right=True, rank=WIDE_ONLY),
        TextColumn("frontier", [_format_number(s.frontier) for s in found], right=True, rank=WIDE_ONLY),
    )
    records = [
        {
            "name": s.name,
            "kind": s.kind,
            "state": describe_state(s, waiting.get(s.name)),
            "epoch": s.committed_epoch,
            "frontier": s.frontier,
            "lag_seconds": round(s.lag_seconds, 1),
            "rows_at_most": s.rows,
            "bytes": s.bytes,
            "files": s.files,
            "last_error": s.last_error,
            "watermark": s.watermark,
            "late_rows": s.late_rows,
            "note": s.note,
        }
        for s in found
    ]
    notes = [f"error: {s.last_error}" if s.last_error else f"note: {s.note}" if s.note else "" for s in found]
    return Listing(columns, notes, records, "the store is empty", footer)


def build_waits_listing(found: Sequence[DomainWait], now: float) -> Listing:
    """Return what lags, why, and until when."""
    columns = (
        TextColumn("domain", [wait.domain for wait in found]),
        TextColumn("kind", [wait.kind for wait in found]),
        TextColumn(
            "since",
            [format_ago(now - wait.since) if wait.since else "" for wait in found],
            right=True,
            rank=2,
        ),
        TextColumn("until", [_format_until(wait.until, now) for wait in found], rank=1),
        TextColumn("since (UTC)", [_format_clock(wait.since) for wait in found], rank=3),
        TextColumn("until (UTC)", [_format_clock(wait.until) for wait in found], rank=4),
    )
    records = [
        {
            "domain": wait.domain,
            "kind": wait.kind,
            "since_utc": _format_clock(wait.since),
            "until_utc": _format_clock(wait.until) or "the next run",
            "reason": wait.reason,
        }
        for wait in found
    ]
    return Listing(columns, [wait.reason for wait in found], records, "nothing waits")


def build_backfills_listing(found: Mapping[str, Creation], lags: Mapping[str, float]) -> Listing:
    """Return how far the backfills are, by domain; `lags` in seconds."""
    left = [None if c.state == CREATED else c.remaining_seconds for c in found.values()]
    lag = [round(lags.get(name, 0.0), 1) for name in found]
    records = [
        {
            "domain": name,
            "phase": creation.state if creation.state != CREATED else "consume_upstream",
            "epoch": creation.epoch,
            "rows": creation.rows,
            "of_about": creation.total,
            "rows_per_second": round(creation.rate),
            "seconds_left": seconds,
            "lag_seconds": behind,
        }
        for (name, creation), seconds, behind in zip(found.items(), left, lag, strict=True)
    ]
    columns = (
        TextColumn("domain", list(found)),
        TextColumn("phase", [str(record["phase"]) for record in records], rank=3),
        TextColumn("done", [_format_share(creation) for creation in found.values()], right=True),
        TextColumn("rows", [f"{c.rows:,}" for c in found.values()], right=True, rank=2),
        TextColumn("left", ["" if one is None else format_duration(one) for one in left], right=True, rank=1),
        TextColumn("lag", [format_duration(one) for one in lag], right=True, rank=4),
        TextColumn("rows/s", [f"{c.rate:,.0f}" for c in found.values()], right=True, rank=5),
        TextColumn("of about", [f"{c.total:,}" for c in found.values()], right=True, rank=6),
        TextColumn("snapshot of (UTC)", [_format_time(c.epoch) for c in found.values()], rank=7),
        TextColumn("epoch", [_format_number(c.epoch) for c in found.values()], right=True, rank=WIDE_ONLY),
    )
    return Listing(columns, (), records, "no view was built by a backfill")


def build_partitions_listing(found: Sequence[PartitionStatus], now: float) -> Listing:
    """Return where the partitions of a view stand."""
    columns = (
        TextColumn("partition", [one.partition for one in found]),
        TextColumn("state", ["quarantine" if one.error else "current" for one in found]),
        TextColumn("epoch (UTC)", [_format_time(one.epoch) for one in found], rank=2),
        TextColumn(
            "attempts", [str(one.attempts) if one.attempts else "" for one in found], right=True, rank=3
        ),
        TextColumn(
            "next try", [_format_until(one.retry_at, now) if one.error else "" for one in found], rank=1
        ),
        TextColumn("next try (UTC)", [_format_clock(one.retry_at) for one in found], rank=4),
        TextColumn("epoch", [_format_number(one.epoch) for one in found], right=True, rank=WIDE_ONLY),
    )
    records = [
        {
            "partition": one.partition,
            "epoch": one.epoch,
            "error": one.error,
            "attempts": one.attempts,
            "retry_at_utc": _format_clock(one.retry_at),
        }
        for one in found
    ]
    return Listing(columns, [one.error or "" for one in found], records, "the view has no partition yet")


def _format_lag(status: RelationStatus) -> str:
    if status.committed_epoch is None and status.kind not in ("sink", "subscription"):
        return ""
    return format_duration(status.lag_seconds) if status.lagging else "0"


def _format_share(creation: Creation) -> str:
    if creation.state == CREATED or not creation.total:
        return "100 %"
    return f"{100 * min(1.0, creation.rows / creation.total):.0f} %"


def _format_age(epoch: int | None, now: float) -> str:
    return format_ago(now - seconds_of(epoch)) if epoch else ""


def _format_time(epoch: int | None) -> str:
    return format_epoch_time(epoch) if epoch else ""


def _format_number(epoch: int | None) -> str:
    return "" if epoch is None else str(epoch)


def _format_until(until: float | None, now: float) -> str:
    if until is None or until <= now:
        return "the next run"
    return f"in {format_duration(until - now)}"


def _format_clock(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
