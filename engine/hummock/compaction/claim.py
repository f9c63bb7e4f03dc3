"""Claims: which worker is at which table, kept in the store with an end: workers share the work, a dead one holds up nobody.

A claim only saves work: what a compaction may replace is checked by its commit.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engine.errors import Conflict
from engine.hummock.store_clock import AGREE_SECONDS
from engine.hummock.version import Version

CLAIM_PREFIX = "compaction/"
CLAIM_SECONDS = 60.0


class Claim(msgspec.Struct, frozen=True):
    """A worker's hold on a table until `expires`, seconds since 1970."""

    worker: str
    expires: float


def claim_of(version: Version, table: str) -> Claim | None:
    """Return who is at a table, also if the claim is over."""
    text = version.catalog.get(CLAIM_PREFIX + table)
    return None if text is None else msgspec.json.decode(text, type=Claim)


def claims_of(version: Version) -> dict[str, Claim]:
    """Return the claims by table, also those that are over."""
    tables = [key.removeprefix(CLAIM_PREFIX) for key in version.catalog if key.startswith(CLAIM_PREFIX)]
    return {table: claim for table in tables if (claim := claim_of(version, table)) is not None}


def is_free(version: Version, table: str, worker: str, now: float) -> bool:
    """Tell whether a worker may take a table: nobody else holds it."""
    claim = claim_of(version, table)
    return claim is None or claim.worker == worker or _is_over(claim, now)


def lapsed(version: Version, now: float) -> dict[str, str | None]:
    """Return the catalog entries that take away the claims that are over: their workers have died, or the table is gone."""
    return {CLAIM_PREFIX + table: None for table, claim in claims_of(version).items() if _is_over(claim, now)}


def _is_over(claim: Claim, now: float) -> bool:
    """Whether a claim has ended; one that ends later than any claim does was made by a wrong clock and holds nobody up."""
    return not 0 < claim.expires - now <= CLAIM_SECONDS + AGREE_SECONDS


def held(table: str, worker: str, now: float) -> dict[str, str | None]:
    """Return the catalog entry of a claim that begins, or goes on, now."""
    claim = Claim(worker, now + CLAIM_SECONDS)
    return {CLAIM_PREFIX + table: msgspec.json.encode(claim).decode()}


def released(table: str) -> dict[str, str | None]:
    """Return the catalog entry that ends a claim."""
    return {CLAIM_PREFIX + table: None}


def still_free(table: str, worker: str, now: float) -> Callable[[Version], None]:
    """Return the precondition that nobody else has taken the table meanwhile."""

    def check(version: Version) -> None:
        if not is_free(version, table, worker, now):
            raise Conflict(f"another worker compacts table {table}")

    return check
