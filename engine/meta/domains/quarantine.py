"""Quarantined partitions: of each view that is cut into partitions, those that failed, with their own epochs and errors.

All other partitions stand at the view's committed epoch, so a checkpoint records only the exceptions. The record changes in the
commit that brings the other partitions on; a crash can lose neither without the other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from engine.hummock import Version
from engine.hummock.back_off import Attempts
from engine.hummock.epoch import format_epoch
from engine.meta.catalog.records import Prefix, Record
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.failures import RETRIES
from engine.meta.epochs.frontier import compute_frontiers
from engine.sql.incremental.partitions import Partitioning, derive_partitioning

_ERROR_CHARACTERS, _SHORT_ERROR_CHARACTERS, _FEW = 2000, 200, 50
"""All of a view's quarantine is one entry of the manifest: of many partitions each error is short."""


class QuarantinedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition that is left behind: its content is that of `epoch` (None: it has none yet).

    `tried` is the epoch of the inputs at which it failed last; times are seconds since 1970. A `suspect` is one of several of
    which some fail: it is tried by itself as soon as possible.
    """

    epoch: int | None
    error: str
    tried: int
    attempts: int
    since: float
    last: float
    suspect: bool = False

    @property
    def tries(self) -> Attempts:
        """How often it was tried in vain; it is tried again only if its view's inputs have changed, too."""
        return Attempts(RETRIES, self.attempts, self.last)

    @property
    def text(self) -> str:
        """What is the matter, in words."""
        at = "without content" if self.epoch is None else f"at epoch {format_epoch(self.epoch)}"
        return f"{at}, failed {self.tries.text}: {self.error}"


QUARANTINES = Record.of_json(Prefix.QUARANTINE, dict[str, QuarantinedPartition])


@dataclass(frozen=True)
class PartitionStatus:
    """Where one partition of a view stands; a healthy one has no error."""

    partition: str
    epoch: int | None
    error: str | None = None
    attempts: int = 0
    retry_at: float | None = None


def find_partitioning(stored: StoredCatalog, view: str) -> Partitioning | None:
    """Return how a view is cut into partitions, None if it is not."""
    relation = stored.catalog.relations.get(view)
    if relation is None or view not in stored.plans:
        return None
    return derive_partitioning(stored.plans[view], relation.options)


def read_quarantine(version: Version, view: str) -> Mapping[str, QuarantinedPartition]:
    """Return the quarantined partitions of a view by their names."""
    return QUARANTINES.read(version, view) or {}


def list_quarantined_views(version: Version) -> tuple[str, ...]:
    """Return the views of which partitions are in quarantine."""
    return tuple(QUARANTINES.list(version))


def find_new_failures(before: Version, after: Version) -> dict[tuple[str, str], QuarantinedPartition]:
    """Return by (view, partition) those that have failed between two versions, for the first time or once more."""
    found = {}
    for view in list_quarantined_views(after):
        known = read_quarantine(before, view)
        for key, one in read_quarantine(after, view).items():
            same = key in known and (known[key].since, known[key].attempts) == (one.since, one.attempts)
            if not same:
                found[view, key] = one
    return found


def encode_quarantine(view: str, found: Mapping[str, QuarantinedPartition]) -> dict[str, str | None]:
    """Return the catalog entry that holds the quarantined partitions of a view; none is no entry."""
    return QUARANTINES.record(view, dict(sorted(found.items()))) if found else QUARANTINES.remove(view)


def forget_quarantine(version: Version, view: str) -> dict[str, str | None]:
    """Return the catalog entry that removes what is remembered of a view's partitions, if anything is."""
    return QUARANTINES.remove_existing(version, [view])


def add_failures(
    before: Mapping[str, QuarantinedPartition],
    failures: Mapping[str, str],
    committed: int | None,
    tried: int,
    now: float,
    suspects: Collection[str] = (),
) -> dict[str, QuarantinedPartition]:
    """Return the quarantine with one more failure of each partition in `failures`, whose content is that of `committed`."""
    found = dict(before)
    most = _ERROR_CHARACTERS if len(before) + len(failures) <= _FEW else _SHORT_ERROR_CHARACTERS
    for key, error in failures.items():
        known = before.get(key)
        text, suspect = error[:most], key in suspects
        if known is None:
            found[key] = QuarantinedPartition(committed, text, tried, 1, now, now, suspect)
        else:
            attempts = known.attempts if known.suspect else known.attempts + 1
            found[key] = QuarantinedPartition(known.epoch, text, tried, attempts, known.since, now, suspect)
    return found


def record_attempt(
    before: Mapping[str, QuarantinedPartition], keys: Collection[str], tried: int, now: float
) -> dict[str, QuarantinedPartition]:
    """Return the quarantine after it was seen that the inputs of some partitions have not changed up to the epoch `tried`."""
    attempted = {key: msgspec.structs.replace(before[key], tried=tried, last=now) for key in keys}
    return {**before, **attempted}


def find_due_partitions(
    version: Version, view: str, inputs: Collection[str], now: float, *, eager: bool = False
) -> frozenset[str]:
    """Return the quarantined partitions to try again: those whose view's inputs have changed since, and whose wait is over.

    Suspects are, whatever has changed. With `eager` the wait does not matter.
    """
    found = set()
    for key, one in read_quarantine(version, view).items():
        changed = any(
            version.tables[name].last_change > one.tried for name in inputs if name in version.tables
        )
        if (changed or one.suspect) and (eager or not one.tries.is_waiting(now)):
            found.add(key)
    return frozenset(found)


def list_retry_views(
    version: Version, stored: StoredCatalog, now: float, *, eager: bool = False
) -> tuple[str, ...]:
    """Return the views of which a run would try quarantined partitions again now."""
    views = [view for view in list_quarantined_views(version) if view in stored.plans]
    if not views:
        return ()
    known = compute_frontiers(version, stored.order, stored.inputs)
    found = []
    for view in views:
        reach, own = known[view].reach, version.tables.get(view)
        if reach is not None and own is not None and reach > own.committed_epoch:
            inputs = list_outside_tables(stored, view)
            if find_due_partitions(version, view, inputs, now, eager=eager):
                found.append(view)
    return tuple(found)


def list_outside_tables(stored: StoredCatalog, view: str) -> tuple[str, ...]:
    """Return the tables outside a view that its fragments follow."""
    own = {fragment.table for fragment in stored.plans[view].fragments}
    tables = (name for fragment in stored.plans[view].fragments for name in fragment.inputs)
    return tuple(dict.fromkeys(name for name in tables if name not in own))


def describe_quarantine(found: Mapping[str, QuarantinedPartition]) -> str | None:
    """Return in words which partitions of a view are quarantined and why, None if none is."""
    if not found:
        return None
    lines = [f"{len(found)} {'partition' if len(found) == 1 else 'partitions'} in quarantine"]
    for key, one in list(found.items())[:5]:
        again = time.strftime("%H:%M:%S", time.gmtime(one.tries.retry_at))
        lines.append(f"partition {key} {one.text} (tried again when its inputs change, after {again} UTC)")
    if len(found) > 5:
        lines.append(f"and {len(found) - 5} more")
    return "; ".join(lines)
