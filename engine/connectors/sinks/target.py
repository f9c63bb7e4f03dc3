"""What takes the rows of a sink: the seam between the driver and the kinds of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from engine.hummock import Commit
from engine.log_store.changes import Changes
from engine.log_store.sink import LogRange, VnodeGroup


@dataclass(frozen=True)
class Delivered:
    """What one range brought; `commit` is to be part of the commit that acknowledges the range."""

    rows: int
    files: int = 0
    bytes: int = 0
    commit: Commit = field(default_factory=Commit)


class SinkTarget(Protocol):
    """Takes ranges of one reader in their order.

    `each_epoch`: a range is one epoch, and taking it again does no harm; else a range is all that waits, and takes effect by the
    commit alone. `start` is the beginning of the sink whose ranges it takes.
    """

    each_epoch: bool
    start: int

    def take(self, part: LogRange, group: VnodeGroup, changes: Iterator[Changes]) -> Delivered:
        """Take the changes of a range."""
