"""Query policies: at which epoch a batch query reads each of its tables."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from engine.errors import EpochExpired, EpochFailed, SqlError
from engine.hummock import Version
from engine.hummock.epoch import epoch_at, epoch_text
from engine.meta.catalog_store import StoredCatalog
from engine.meta.creation import creations
from engine.meta.domain import domain_of
from engine.meta.frontier import Frontier, frontiers

POLICIES = ("consistent", "latest", "global")


def check_policy(policy: str) -> str:
    """Return a policy as it is stored: consistent, latest, global, an epoch, or a timestamp; raises SqlError for others."""
    text = policy.strip()
    if text.lower() in POLICIES:
        return text.lower()
    if re.fullmatch(r"\d+", text) or _instant(text) is not None:
        return text
    raise SqlError(
        f'query policy "{policy}" is unknown',
        hint=f"use {', '.join(POLICIES)}, an epoch (a number), or a timestamp such as 2026-01-31 12:00:00 (UTC)",
    )


def epochs_of(
    version: Version, stored: StoredCatalog, tables: Sequence[str], policy: str = "consistent"
) -> dict[str, int]:
    """Return the epoch at which each table is read.

    `consistent`: the least frontier of these tables; `latest`: each table's own; `global`: the least frontier of all views that
    have been computed; an epoch or a timestamp: just that one. Raises EpochFailed where a table is not known that far.
    """
    known = frontiers(version, stored.order, stored.inputs)
    own = {name: _frontier(name, known) for name in tables}
    policy = check_policy(policy)
    if policy == "latest":
        return own
    if policy == "consistent":
        return _at(version, stored, tables, min(own.values(), default=version.epoch))
    if policy == "global":
        return _at(version, stored, tables, global_epoch(version, stored, known))
    instant = _instant(policy)
    if instant is not None and instant > time.time():
        raise EpochFailed(f"{policy} (UTC) is not past yet: ask for an earlier time")
    wanted = int(policy) if instant is None else min(epoch_at(instant), version.epoch)
    for name, frontier in own.items():
        if wanted > frontier:
            raise EpochFailed(
                f"{name} is known up to epoch {epoch_text(frontier)}, epoch {epoch_text(wanted)} was asked for: run FLUSH, or "
                "ask for an older one"
            )
    return _at(version, stored, tables, wanted)


def global_epoch(version: Version, stored: StoredCatalog, known: Mapping[str, Frontier] | None = None) -> int:
    """Return the least frontier of all computed views; those that are being created do not count."""
    known = frontiers(version, stored.order, stored.inputs) if known is None else known
    created = [name for name in stored.plans if known[name].committed is not None]
    fronts = [known[name].frontier for name in created]
    return min((front for front in fronts if front is not None), default=version.epoch)


def _at(version: Version, stored: StoredCatalog, tables: Sequence[str], epoch: int) -> dict[str, int]:
    """Return `epoch` for every table; raises EpochExpired for a view whose first content, that of its snapshot, is newer."""
    for name in tables:
        creation = creations(version).get(domain_of(stored, name)) if name in stored.plans else None
        if creation is not None and name in creation.tables and epoch < creation.epoch:
            raise EpochExpired(
                f"view {name} has content from epoch {epoch_text(creation.epoch)} on, epoch {epoch_text(epoch)} was asked "
                "for: ask for a newer one, or "
                f"use the policy latest"
            )
    return dict.fromkeys(tables, epoch)


def _frontier(name: str, known: Mapping[str, Frontier]) -> int:
    frontier = known[name].frontier
    if frontier is None:
        raise EpochFailed(
            f"view {name} has not been computed yet: run FLUSH, and look at its error if that fails"
        )
    return frontier


def _instant(text: str) -> float | None:
    """Seconds since 1970 of an ISO timestamp, UTC unless it says otherwise; None if it is none."""
    if not re.match(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
