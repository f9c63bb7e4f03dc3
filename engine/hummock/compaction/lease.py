"""Claims: which worker is at which table, kept in the store with an end: workers share the work, a dead one holds up nobody.

A claim only saves work: what a compaction may replace is checked by its commit.
"""

from __future__ import annotations

import msgspec

from engine.hummock.manifests.preconditions import Precondition, require
from engine.hummock.store_clock import AGREE_SECONDS
from engine.hummock.version import Version

LEASE_PREFIX = "compaction/"
LEASE_SECONDS = 60.0


class Lease(msgspec.Struct, frozen=True):
    """A worker's hold on a table until `expires`, seconds since 1970."""

    worker: str
    expires: float


def find_lease(version: Version, table: str) -> Lease | None:
    """Return who is at a table, also if the claim is over."""
    text = version.catalog.get(LEASE_PREFIX + table)
    return None if text is None else msgspec.json.decode(text, type=Lease)


def list_leases(version: Version) -> dict[str, Lease]:
    """Return the claims by table, also those that are over."""
    tables = [key.removeprefix(LEASE_PREFIX) for key in version.catalog if key.startswith(LEASE_PREFIX)]
    return {table: lease for table in tables if (lease := find_lease(version, table)) is not None}


def is_free(version: Version, table: str, worker: str, now: float) -> bool:
    """Tell whether a worker may take a table: nobody else holds it."""
    lease = find_lease(version, table)
    return lease is None or lease.worker == worker or _is_expired(lease, now)


def expire_leases(version: Version, now: float) -> dict[str, str | None]:
    """Return the catalog entries that take away the claims that are over: their workers have died, or the table is gone."""
    return {
        LEASE_PREFIX + table: None for table, lease in list_leases(version).items() if _is_expired(lease, now)
    }


def _is_expired(lease: Lease, now: float) -> bool:
    """Whether a claim has ended; one that ends later than any claim does was made by a wrong clock and holds nobody up."""
    return not 0 < lease.expires - now <= LEASE_SECONDS + AGREE_SECONDS


def grant_lease(table: str, worker: str, now: float) -> dict[str, str | None]:
    """Return the catalog entry of a claim that begins, or goes on, now."""
    lease = Lease(worker, now + LEASE_SECONDS)
    return {LEASE_PREFIX + table: msgspec.json.encode(lease).decode()}


def release_lease(table: str) -> dict[str, str | None]:
    """Return the catalog entry that ends a claim."""
    return {LEASE_PREFIX + table: None}


def require_free(table: str, worker: str, now: float) -> Precondition:
    """Return the precondition that nobody else has taken the table meanwhile."""
    message = f"another worker compacts table {table}"
    return require(lambda version: is_free(version, table, worker, now), message)
