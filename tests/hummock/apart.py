"""An executor of ranges that has no Spark: each is sent as bytes to a reader that has only the store's address, the last one first."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from engine.hummock import Hummock, Reader
from engine.hummock.compaction import Merge, merge_range
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run


class Apart:
    """Merges `count` ranges at once, it says; `merged` holds the ranges of each merge."""

    def __init__(self, store: Hummock, count: int = 4) -> None:
        self.store, self.count = store, count
        self.merged: list[list[HashRange]] = []

    def at_once(self, merge: Merge) -> int:
        """Return how many."""
        return self.count

    def merge(self, merge: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
        """Return the files of each range."""
        self.merged.append(list(ranges))
        sent = pickle.dumps((self.store.url, self.store.options, merge))
        runs = {}
        for one in reversed(ranges):
            url, options, given = pickle.loads(sent)
            runs[one] = merge_range(Reader.open(url, options), given, one)
        return [runs[one] for one in ranges]
