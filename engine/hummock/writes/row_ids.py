"""Ids of rows that have no key of their own: no two writers ever give the same one.

The writer `row ids` is claimed as any other; each of its generations is a block of 2**32 ids that nobody else has. Ids of blocks
are negative: those that were made of the time and a random part, before there were blocks, are not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np

from engine.errors import StorageError

WRITER = "row ids"
BLOCK_BITS = 32
MOST_BLOCKS = 1 << 31
_LOWEST = -(1 << 63)


class RowIds:
    """The block that this process has taken, and how much of it is used; `claim` takes a writer's next generation in the store.

    Safe for threads; a forked process takes a block of its own.
    """

    def __init__(self, claim: Callable[[str], int]) -> None:
        self._claim, self._lock = claim, threading.Lock()
        self._next, self._end, self._process = 0, 0, 0

    def allocate(self, count: int) -> np.ndarray:
        """Return `count` ascending ids, int64, that were never given before; a commit for the first of a process.

        Raises what a commit raises.
        """
        parts = []
        with self._lock:
            while count:
                if self._next == self._end or self._process != os.getpid():
                    self._allocate_block()
                some = min(count, self._end - self._next)
                parts.append(np.arange(self._next, self._next + some, dtype=np.int64))
                self._next += some
                count -= some
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _allocate_block(self) -> None:
        generation = self._claim(WRITER)
        if generation >= MOST_BLOCKS:
            raise StorageError("all row ids of this store are given: write to a table with a PRIMARY KEY")
        self._next = _LOWEST + (generation << BLOCK_BITS)
        self._end, self._process = self._next + (1 << BLOCK_BITS), os.getpid()
