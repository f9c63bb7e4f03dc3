"""What a picker asks for: runs of one table version to merge to one, or to put together as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.hummock.version import Run, TableVersion

TARGET_BYTES = 128 << 20
TARGET_ROWS = 2_000_000


@dataclass(frozen=True)
class CompactionTask:
    """Merge the neighbouring runs `merge` of a table; `above` (newer) and `rest` (older), newest first, stay as they are.

    With `move` the files are only put together to one run: their ranges of hashes do not overlap. With `groups` the new files
    end at the bounds of so many equal ranges of hashes. A task can be sent to another process.
    """

    table: TableVersion
    merge: tuple[Run, ...]
    rest: tuple[Run, ...]
    above: tuple[Run, ...] = ()
    move: bool = False
    groups: int = 1
    picker: str = "manual"
    hidden_at: int = 0
    """Rows that are hidden at this epoch (or at the table's last change) go, if the table hides rows by itself."""

    @property
    def rows(self) -> int:
        """Rows that are read."""
        return 0 if self.move else sum(count_run_rows(run) for run in self.merge)


class Picker(Protocol):
    """A pure decision: it reads a table version and returns a task, or None where it has nothing to do."""

    def pick(self, table: TableVersion) -> CompactionTask | None:
        """Return what is to be merged."""
        ...


def count_run_rows(run: Run) -> int:
    """Return the rows of a run."""
    return sum(sst.rows for sst in run)


def list_live_runs(table: TableVersion) -> tuple[Run, ...]:
    """Return the runs that a read of the newest epoch merges, newest first."""
    return table.live_runs
