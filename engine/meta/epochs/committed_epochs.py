"""Epochs that runs have brought a view to, each with the version that its run has computed over, as far as manifests tell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from engine.hummock import Hummock, Version
from engine.hummock.manifests.delta import Delta, apply_delta
from engine.meta.epochs.barrier import BARRIERS, Barrier, find_open_barrier


@dataclass(frozen=True)
class CommittedEpoch:
    """A commit that has brought a view to an epoch; `earlier` are those before it in the same manifest, oldest first.

    `table` is the view's name at that time.
    """

    table: str
    commit: Delta
    earlier: tuple[Delta, ...]

    @property
    def epoch(self) -> int:
        """The epoch of the inputs that the view reflects since then."""
        return self.commit.labels[self.table]

    @property
    def domain(self) -> str | None:
        """The domain that committed, None where no view was computed."""
        writer = self.commit.writer
        return None if writer is None else writer.removeprefix("domain/")

    def find_base(self, store: Hummock) -> Version | None:
        """Return the version that the commit follows, None if manifests that lead to it are not stored any more."""
        version = store.find_version(self.commit.number - 1)
        if version is None:
            return None
        for delta in self.earlier:
            version = apply_delta(version, delta)
        return version

    def find_barrier(self, base: Version) -> Barrier | None:
        """Return the barrier that the commit has closed, None if it is no epoch of a run: a step of a first build, say."""
        if self.domain is None or BARRIERS.key(self.domain) not in self.commit.catalog:
            return None
        opened = find_open_barrier(base, self.domain)
        return None if opened is None or opened.barrier.curr != self.epoch else opened.barrier


def iterate_committed_epochs(store: Hummock, view: str) -> Iterator[CommittedEpoch]:
    """Yield the commits that have brought a view to another epoch, newest first, as far back as manifests are stored."""
    table = view
    for _, manifest in itertools.groupby(store.iterate_deltas(), key=lambda delta: delta.number):
        deltas = tuple(manifest)
        for at, delta in enumerate(deltas):
            if table in delta.labels:
                yield CommittedEpoch(table, delta, tuple(reversed(deltas[at + 1 :])))
            earlier = delta.find_earlier_name(table)
            if earlier is None:
                return
            table = earlier
