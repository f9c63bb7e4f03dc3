"""A checkpoint in the making: what a domain's fragments have written, readable by the next ones, visible to nobody else yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from engine.hummock import Commit, Version
from engine.hummock.epoch import seconds_of
from engine.hummock.manifests.commit_merge import merge_commits
from engine.hummock.manifests.delta import apply_delta, rebase


class StagedCheckpoint:
    """Gathers the parts of one commit; `version` is what the store would hold if they were committed now.

    Files of a part are durable before it is added, so tasks on any machine can read the version. The manifest that `commit` asks
    for makes all parts visible at once; without it they are orphans for the collector.
    """

    def __init__(self, base: Version) -> None:
        self.version = base
        self._parts: list[Commit] = []

    def add(self, part: Commit) -> None:
        """Stage one part; raises what the invariants raise."""
        base = self.version
        staged = apply_delta(base, rebase(part, base, "staged", seconds_of(base.epoch)))
        self.version = dataclasses.replace(staged, number=base.number, epoch=base.epoch)
        self._parts.append(part)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was staged."""
        return not self._parts

    def commit(self, writer: str, generation: int, catalog: Mapping[str, str | None]) -> Commit:
        """Return the one commit of all parts."""
        return merge_commits(*self._parts, Commit(catalog=catalog, writer=writer, generation=generation))
