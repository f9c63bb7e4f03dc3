"""The one seam between the control plane and what computes: a fragment's change in, files and counts out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from engine.hummock import Table, TableVersion
from engine.operators.context import SMALL_CHANGE_ROWS
from engine.operators.sink import NetChange
from engine.sql.fragments import Fragment
from engine.sql.plan import Scan


@dataclass(frozen=True)
class FragmentTask:
    """Compute the change of a fragment's table in (old, new]; `old` is None for its whole content.

    `tables` holds the versions to read, staged ones included; `rows` is an upper bound of the changed input rows. With
    `piece` the change is that of one scan's rows in a range of hashes, see EpochContext. With `whole` the content is computed
    as a whole at `new`, without the inputs' change logs, and the change is its difference to the table at `old`.
    """

    fragment: Fragment
    table: Table
    tables: Mapping[str, TableVersion]
    old: int | None
    new: int
    rows: int
    piece: tuple[Scan, tuple[int, int]] | None = None
    whole: bool = False

    @property
    def is_large(self) -> bool:
        """Whether the task runs alone, on all cores."""
        if (self.old is None and self.piece is None) or self.fragment.rule == "full" or self.whole:
            return True
        return self.rows > SMALL_CHANGE_ROWS


@dataclass(frozen=True)
class Computed:
    """The files that a task has written, durable and visible to nobody, with the seconds of its stages."""

    written: tuple[NetChange, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)


class Executor(Protocol):
    """Computes tasks; any number of threads may call it. Spark in production, a small reference in the crash harness."""

    @property
    def parallelism(self) -> int:
        """How many small tasks may run at the same time."""
        ...

    def compute(self, task: FragmentTask) -> Computed:
        """Compute a task and write its files; raises whatever makes the domain fail."""
        ...
