"""What takes the rows of a sink: the seam between the driver and the kinds of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from engine.hummock import Commit, TableVersion
from engine.log_store.changes import Changes
from engine.log_store.sink import LogRange, VnodeGroup
from engine.meta.sinks import Promise


@dataclass(frozen=True)
class Delivered:
    """What one range brought; `commit` is to be part of the commit that acknowledges the range."""

    rows: int
    files: int = 0
    bytes: int = 0
    commit: Commit = field(default_factory=Commit)


@dataclass(frozen=True)
class Portion:
    """A range of one reader on its way to a target: its `changes`, and the table's version in which they are.

    `promise` is the one that the range fulfils, of targets that ask for promises.
    """

    part: LogRange
    group: VnodeGroup
    table: TableVersion
    changes: Iterator[Changes]
    promise: Promise | None = None


class SinkTarget(Protocol):
    """Takes ranges of one reader in their order.

    `each_epoch`: a range is one epoch; else a range is all that waits. Taking a range again does no harm, or it takes effect by
    the commit that acknowledges it alone. `promises`: the target commits by itself, and so that a range is the same whoever
    delivers it, its bounds are committed before it is taken. `start` is the beginning of the sink whose ranges it takes.
    """

    each_epoch: bool
    promises: bool
    start: int

    def take(self, portion: Portion) -> Delivered:
        """Take the changes of a range."""
