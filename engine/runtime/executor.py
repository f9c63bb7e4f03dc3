"""The one seam between the control plane and what computes: a fragment's change in, files and counts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from engine.hummock import Table, TableVersion, Version
from engine.hummock.version import Run
from engine.operators.context import SMALL_CHANGE_ROWS
from engine.operators.materialize import NetChange
from engine.sql.catalog import Relation
from engine.sql.expression.nodes import Expr
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import FullRefresh
from engine.sql.plan import Node, Scan


@dataclass(frozen=True)
class RecomputedPartitions:
    """Partitions that are computed again as a whole: `fragment` over their rows alone, `mine` tells the table's rows of them.

    `counted` are the nodes whose rows at the new epoch are those that the partitions are computed from.
    """

    fragment: Fragment
    mine: Expr
    counted: tuple[Node, ...] = ()


@dataclass(frozen=True)
class FragmentTask:
    """Compute the change of a fragment's table in (old, new]; `old` is None for its whole content.

    `tables` holds the versions to read, staged ones included; `rows` is an upper bound of the changed input rows. With
    `piece` the change is that of one scan's rows in a range of hashes, see EpochContext. With `whole` the content is computed
    as a whole at `new`, without the inputs' change logs, and the change is its difference to the table at `old`, of which only
    the rows count for which `mine` is true. With `again` the difference that some partitions make is part of the change, and
    `fragment` leaves them out.
    """

    fragment: Fragment
    table: Table
    tables: Mapping[str, TableVersion]
    old: int | None
    new: int
    rows: int
    piece: tuple[Scan, tuple[int, int]] | None = None
    whole: bool = False
    mine: Expr | None = None
    again: RecomputedPartitions | None = None

    @property
    def is_large(self) -> bool:
        """Whether the task runs alone, on all cores."""
        if self.again is not None or isinstance(self.fragment.rule, FullRefresh):
            return True
        return self.rows > SMALL_CHANGE_ROWS


class Place(StrEnum):
    """Where the change of a fragment's table is computed, the cheapest place first."""

    NOWHERE = "nowhere"
    DRIVER = "driver"
    SHARED = "shared action"
    ARROW = "own action on Arrow"
    SPARK = "own action with Spark"


@dataclass(frozen=True)
class Way:
    """Where the change of a fragment's table was computed, and why there and not in a cheaper place."""

    place: Place
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.reason else str(self.place)


@dataclass(frozen=True)
class TaskResult:
    """The files that a task has written, durable and visible to nobody, with the seconds of its stages.

    `rows_read` are the input rows of the partitions that it computed again. `skew` names a key that one task worked for alone.
    `way` is None where the executor knows one only.
    """

    changes: tuple[NetChange, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    rows_read: int = 0
    skew: str | None = None
    way: Way | None = None


@dataclass(frozen=True)
class PlannedFragment:
    """A fragment's epoch (old, new] as a run plans it, and all tables that it depends on."""

    fragment: Fragment
    dependencies: tuple[str, ...]
    old: int
    new: int


@dataclass(frozen=True)
class PlannedEpochs:
    """The small epochs that a run plans, inputs before their readers, over the tables of one version.

    `unknown` are tables that the run brings on in another way, so that nobody knows yet what their readers will see.
    """

    tables: Mapping[str, TableVersion]
    epoch: int
    fragments: tuple[PlannedFragment, ...]
    unknown: frozenset[str]


class Executor(Protocol):
    """Computes tasks; any number of threads may call it. Spark in production, a small reference in the crash harness."""

    @property
    def parallelism(self) -> int:
        """How many small tasks may run at the same time."""
        ...

    def compute(self, task: FragmentTask) -> TaskResult:
        """Compute a task and write its files; raises whatever makes the domain fail, RowFailed if a row does."""
        ...

    def load(self, relation: Relation, version: Version, epoch: int) -> tuple[Run, ...]:
        """Write the rows of a source, as they were at an epoch of a version, as files that hold all of them, newest first."""
        ...

    def stop(self) -> None:
        """End what is being computed, from any thread: those that wait for it fail."""
        ...

    def partitions(self, task: FragmentTask, keys: Sequence[tuple[Scan, Expr]], most: int) -> tuple[str, ...]:
        """Return the partitions, at most `most`, of the rows that change in a task.

        `keys` gives for each scan the partition of a row as Spark SQL over the scan's columns.
        """
        ...


@runtime_checkable
class AheadExecutor(Protocol):
    """An executor that can compute small epochs before their turn."""

    def compute_ahead(self, planned: PlannedEpochs) -> None:
        """Compute epochs of a run before their turn, as far as that is cheaper together: `compute` then returns what it finds."""
        ...

    def discard_ahead(self) -> None:
        """Delete what was computed ahead and nobody has asked for."""
        ...
