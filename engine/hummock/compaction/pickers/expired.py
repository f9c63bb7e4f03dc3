"""TTL and watermark: rows that hide are deleted once they are a good part of their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.hummock.compaction.task import CompactionTask, count_run_rows, list_live_runs
from engine.hummock.rows.expiry import RowExpiry, expiry_at, parse_birth_ms
from engine.hummock.version import SstInfo, TableVersion

EXPIRED_SHARE = 0.2


@dataclass(frozen=True)
class PastTtl:
    """Pick everything when more than `share` of the rows are past the time to live, judged by the files' row epochs.

    A row goes when it is hidden at every epoch that is retained: `retained_from` and later, and those that consumers and
    pins hold.
    """

    retained_from: int = 0
    share: float = EXPIRED_SHARE

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of everything."""
        if table.table.options.ttl_seconds is None:
            return None
        return _pick_expired(table, self.retained_from, self.share, _estimate_past_ttl, "ttl")


@dataclass(frozen=True)
class BelowWatermark:
    """Pick everything when more than `share` of the rows lie below the watermark, judged by the files' range of its column."""

    retained_from: int = 0
    share: float = EXPIRED_SHARE

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return the merge of everything."""
        if not table.watermarks:
            return None
        return _pick_expired(table, self.retained_from, self.share, _estimate_below_watermark, "watermark")


def choose_hidden_epoch(table: TableVersion, retained_from: int) -> int:
    """Return the epoch such that what is hidden there is hidden to every reader of what is compacted now."""
    return max(table.last_change, table.clamp_truncation(retained_from))


def has_hidden_rows(table: TableVersion) -> bool:
    """Whether a file of the table may hold rows that are hidden by now."""
    expiry = expiry_at(table, table.last_change)
    ssts = [sst for run in list_live_runs(table) for sst in run]
    return expiry is not None and any(_can_hide_rows(sst, expiry) for sst in ssts)


def _can_hide_rows(sst: SstInfo, expiry: RowExpiry) -> bool:
    below = expiry.least is not None and (sst.spread is None or sst.spread[0] < expiry.least)
    return below or _estimate_past_ttl(sst, expiry) > 0


def _pick_expired(
    table: TableVersion,
    retained_from: int,
    share: float,
    expired: Callable[[SstInfo, RowExpiry], float],
    name: str,
) -> CompactionTask | None:
    runs, at = list_live_runs(table), choose_hidden_epoch(table, retained_from)
    expiry = expiry_at(table, at)
    rows = sum(count_run_rows(run) for run in runs)
    gone = sum(sst.rows * expired(sst, expiry) for run in runs for sst in run) if expiry else 0
    if not gone or gone <= share * rows:
        return None
    return CompactionTask(table, runs, (), picker=name, hidden_at=at)


def _estimate_past_ttl(sst: SstInfo, expiry: RowExpiry) -> float:
    """The share of a file's rows that are past their time to live: their births lie evenly between the first and its naming."""
    if expiry.born_upto_ms is None:
        return 0.0
    last = parse_birth_ms(sst.path)
    return _interpolate_share(last if sst.oldest is None else sst.oldest, last, expiry.born_upto_ms + 1)


def _estimate_below_watermark(sst: SstInfo, expiry: RowExpiry) -> float:
    """The share of a compacted file's rows that lie below the watermark; of a fresh one, which is compacted soon, none."""
    return (
        0.0 if sst.spread is None or expiry.least is None else _interpolate_share(*sst.spread, expiry.least)
    )


def _interpolate_share(low: int, high: int, bound: int) -> float:
    return min(1.0, max(0.0, (bound - low) / (high - low + 1)))
