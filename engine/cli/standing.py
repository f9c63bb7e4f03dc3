"""Where relations stand, why they wait, how far backfills and partitions are: as columns for people, as numbers for programs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.cli.layout import WIDE_ONLY, Column, ago, duration, size
from engine.hummock.epoch import epoch_time, seconds_of
from engine.meta.catalog_store import load
from engine.meta.creation import CREATED, Creation
from engine.meta.crossing import at_time
from engine.meta.policy import global_epoch
from engine.meta.status import state_word, statuses
from engine.meta.waits import quarantine_waits, waiting_by_view
from engine.meta.waits import waits as waits_of

if TYPE_CHECKING:
    from engine.hummock import Reader, Version
    from engine.meta.catalog_store import StoredCatalog
    from engine.meta.partitions import PartitionStatus
    from engine.meta.status import RelationStatus
    from engine.meta.waits import Wait

KINDS = {"materialized view": "view", "view": "plain view"}


@dataclass(frozen=True)
class Listing:
    """What a command prints: columns and notes for people, `records` with numbers for programs."""

    columns: Sequence[Column]
    notes: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    empty: str = "nothing"
    footer: str = ""


def standing_listing(version: Version, reader: Reader, now: float, *, waits: bool) -> Listing:
    """Return where everything of a version stands, or with `waits` what lags, why, and until when."""
    stored = load(version)
    version = at_time(version, stored, now)
    waiting = (*waits_of(version, stored, now), *quarantine_waits(version))
    if waits:
        return waits_listing(waiting, now)
    footer = together(version, stored, now)
    found = statuses(version, stored, {}, now, reader)
    return statuses_listing(found, waiting_by_view(waiting, stored), now, footer)


def together(version: Version, stored: StoredCatalog, now: float) -> str:
    """Return in words at which epoch all computed views have content, which is what reads of all of them see."""
    if not any(relation.kind == "materialized view" for relation in stored.catalog.relations.values()):
        return ""
    epoch = global_epoch(version, stored)
    if epoch is None:
        return "all views together: no epoch yet at which each has content"
    return f"all views together: as of {epoch_time(epoch)} UTC, {ago(now - seconds_of(epoch))}"


def statuses_listing(
    found: Sequence[RelationStatus], waiting: Mapping[str, Wait], now: float, footer: str = ""
) -> Listing:
    """Return where tables, views and sinks stand; `waiting` is the wait of each view that has one."""
    marked = any(s.late_rows is not None for s in found)
    late = ["" if s.late_rows is None else f"{s.late_rows:,}" for s in found]
    watermarks = (
        Column("watermark", [s.watermark or "" for s in found], rank=3),
        Column("late", late, right=True, rank=4),
    )
    columns = (
        Column("name", [s.name for s in found]),
        Column("kind", [KINDS.get(s.kind, s.kind) for s in found], rank=3),
        Column("state", [state_word(s, waiting.get(s.name)) for s in found]),
        Column("newest", [_age(s.committed_epoch, now) for s in found], right=True, rank=2),
        Column("epoch (UTC)", [_time(s.committed_epoch) for s in found], rank=5),
        Column("lag", [_lag(s) for s in found], right=True, rank=1),
        Column("rows", [("" if s.rows_are_counted else "≤ ") + f"{s.rows:,}" for s in found], True, rank=4),
        *(watermarks if marked else ()),
        Column("size", [size(s.bytes) for s in found], right=True, rank=6),
        Column("files", [f"{s.files:,}" for s in found], right=True, rank=7),
        Column("frontier (UTC)", [_time(s.frontier) for s in found], rank=8),
        Column("epoch", [_number(s.committed_epoch) for s in found], right=True, rank=WIDE_ONLY),
        Column("frontier", [_number(s.frontier) for s in found], right=True, rank=WIDE_ONLY),
    )
    records = [
        {
            "name": s.name,
            "kind": s.kind,
            "state": state_word(s, waiting.get(s.name)),
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


def waits_listing(found: Sequence[Wait], now: float) -> Listing:
    """Return what lags, why, and until when."""
    columns = (
        Column("domain", [wait.domain for wait in found]),
        Column("kind", [wait.kind for wait in found]),
        Column("since", [ago(now - wait.since) if wait.since else "" for wait in found], right=True, rank=2),
        Column("until", [_until(wait.until, now) for wait in found], rank=1),
        Column("since (UTC)", [_clock(wait.since) for wait in found], rank=3),
        Column("until (UTC)", [_clock(wait.until) for wait in found], rank=4),
    )
    records = [
        {
            "domain": wait.domain,
            "kind": wait.kind,
            "since_utc": _clock(wait.since),
            "until_utc": _clock(wait.until) or "the next run",
            "reason": wait.reason,
        }
        for wait in found
    ]
    return Listing(columns, [wait.reason for wait in found], records, "nothing waits")


def backfills_listing(found: Mapping[str, Creation], lags: Mapping[str, float]) -> Listing:
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
        Column("domain", list(found)),
        Column("phase", [str(record["phase"]) for record in records], rank=3),
        Column("done", [_share(creation) for creation in found.values()], right=True),
        Column("rows", [f"{c.rows:,}" for c in found.values()], right=True, rank=2),
        Column("left", ["" if one is None else duration(one) for one in left], right=True, rank=1),
        Column("lag", [duration(one) for one in lag], right=True, rank=4),
        Column("rows/s", [f"{c.rate:,.0f}" for c in found.values()], right=True, rank=5),
        Column("of about", [f"{c.total:,}" for c in found.values()], right=True, rank=6),
        Column("snapshot of (UTC)", [_time(c.epoch) for c in found.values()], rank=7),
        Column("epoch", [_number(c.epoch) for c in found.values()], right=True, rank=WIDE_ONLY),
    )
    return Listing(columns, (), records, "no view was built by a backfill")


def partitions_listing(found: Sequence[PartitionStatus], now: float) -> Listing:
    """Return where the partitions of a view stand."""
    columns = (
        Column("partition", [one.partition for one in found]),
        Column("state", ["quarantine" if one.error else "current" for one in found]),
        Column("epoch (UTC)", [_time(one.epoch) for one in found], rank=2),
        Column("attempts", [str(one.attempts) if one.attempts else "" for one in found], right=True, rank=3),
        Column("next try", [_until(one.retry_at, now) if one.error else "" for one in found], rank=1),
        Column("next try (UTC)", [_clock(one.retry_at) for one in found], rank=4),
        Column("epoch", [_number(one.epoch) for one in found], right=True, rank=WIDE_ONLY),
    )
    records = [
        {
            "partition": one.partition,
            "epoch": one.epoch,
            "error": one.error,
            "attempts": one.attempts,
            "retry_at_utc": _clock(one.retry_at),
        }
        for one in found
    ]
    return Listing(columns, [one.error or "" for one in found], records, "the view has no partition yet")


def _lag(status: RelationStatus) -> str:
    if status.committed_epoch is None and status.kind != "sink":
        return ""
    return duration(status.lag_seconds) if status.lagging else "0"


def _share(creation: Creation) -> str:
    if creation.state == CREATED or not creation.total:
        return "100 %"
    return f"{100 * min(1.0, creation.rows / creation.total):.0f} %"


def _age(epoch: int | None, now: float) -> str:
    return ago(now - seconds_of(epoch)) if epoch else ""


def _time(epoch: int | None) -> str:
    return epoch_time(epoch) if epoch else ""


def _number(epoch: int | None) -> str:
    return "" if epoch is None else str(epoch)


def _until(until: float | None, now: float) -> str:
    if until is None or until <= now:
        return "the next run"
    return f"in {duration(until - now)}"


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
