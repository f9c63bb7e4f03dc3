"""A domain that has failed and reads what it read then: tried again by hand, it goes behind the barrier that it failed behind.

So a failure that comes again leaves no trace, and a store at rest is not written by those who look whether it is mended.
"""

from __future__ import annotations

from engine.hummock import Version
from engine.meta.domains.domain import Domain
from engine.meta.domains.failures import Failure, list_failures
from engine.meta.epochs.barrier import OpenBarrier, find_open_barrier
from engine.meta.epochs.time_boundary import is_timed


def find_failed_barrier(domain: Domain, version: Version, now: float) -> OpenBarrier | None:
    """Return the barrier behind which a domain failed the last time, None if it has not, or reads something else by now.

    One that follows the clock reads the time, too: it stands until the domain is to be tried again by itself.
    """
    failure, left = list_failures(version).get(domain.name), find_open_barrier(version, domain.name)
    if failure is None or left is None or left.tables != domain.tables:
        return None
    if left.barrier.mutation == "recompute" or _has_moved_on(domain, version, left):
        return None
    timed = any(is_timed(fragment) for _, fragment in domain.fragments)
    return None if timed and not failure.tries.is_waiting(now) else left


def is_same_failure(before: Failure, error: str, reason: str | None) -> bool:
    """Tell whether a failure is the one that is remembered; `reason` is that of a row on which the domain has failed."""
    if before.row is not None and reason is not None:
        return before.row.reason == reason
    return before.says(error)


def _has_moved_on(domain: Domain, version: Version, left: OpenBarrier) -> bool:
    """Tell whether a domain, or what it reads, is not any more what it was at a barrier."""
    held = [version.tables[table].committed_epoch for table in domain.tables if table in version.tables]
    if max(held, default=0) != left.barrier.prev:
        return True
    read = [version.tables.get(name) for name in domain.inputs]
    return any(one is None or max(one.last_change, one.safe_epoch) > left.barrier.curr for one in read)
