"""checkpoint_frequency: how many barriers make a checkpoint; those between seal an epoch and leave it to the next one.

Each epoch in which an input changed is a barrier. A sealed epoch needs no work: its changes are kept by the inputs' logs, and the
checkpoint reads all epochs since the last one as one range, which costs as much as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock import Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import Domain
from engine.meta.epochs.barrier import Barrier
from engine.meta.epochs.frontier import find_expiry_epoch

FREQUENCY = "checkpoint_frequency"
BARRIER_SECONDS = 1.0
"""A checkpoint comes after this time for each of its barriers at the latest, so that no change waits for others for ever."""


@dataclass(frozen=True)
class SealedBarriers:
    """The barriers of a domain since its last checkpoint, too few for the next; it comes at `until` at the latest."""

    barrier: Barrier
    count: int
    frequency: int
    since: float
    until: float

    @property
    def text(self) -> str:
        """What is waited for, in words."""
        return f"{self.count} of {self.frequency} barriers since the last checkpoint: {self.barrier.text} is sealed"


def find_checkpoint_frequency(domain: Domain, stored: StoredCatalog) -> int:
    """Return the least checkpoint frequency of a domain's members; by default every barrier is a checkpoint."""
    relations = stored.catalog.relations
    texts = [relations[m].options.get(FREQUENCY, "1") for m in domain.members if m in relations]
    return min((int(text) for text in texts if text.isdigit()), default=1)


def find_sealed_barriers(
    domain: Domain, version: Version, stored: StoredCatalog, reach: int | None, now: float
) -> SealedBarriers | None:
    """Return what a domain has sealed up to `reach`, or None if a checkpoint is due."""
    frequency = find_checkpoint_frequency(domain, stored)
    if frequency <= 1 or reach is None:
        return None
    epochs: set[int] = set()
    prev = 0
    for table, dependencies in domain.dependencies.items():
        own = find_computed_table(version, table)
        if own is None or find_expiry_epoch(version, table, own.committed_epoch, dependencies) is not None:
            return None
        prev = max(prev, own.committed_epoch)
        for name in set(dependencies) & set(domain.inputs):
            epochs.update(e.epoch for e in version.tables[name].list_changes(own.committed_epoch, reach))
    if not epochs or len(epochs) >= frequency:
        return None
    since = seconds_of(min(epochs))
    until = since + frequency * BARRIER_SECONDS
    barrier = Barrier(prev, max(epochs), "barrier")
    # epochs that lie farther ahead than a barrier waits were made by a wrong clock
    return (
        SealedBarriers(barrier, len(epochs), frequency, since, until)
        if 0 < until - now <= frequency * BARRIER_SECONDS
        else None
    )
