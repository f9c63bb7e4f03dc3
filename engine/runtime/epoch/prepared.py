"""Frames of small epochs that are kept and run again: an epoch then costs its job, and no planning."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from engine.hummock import Table
from engine.hummock.metrics import Counters
from engine.operators.context import SPREAD_ROWS
from engine.operators.materialize import NetChange, collected
from engine.operators.table_parameters import TableParameters
from engine.runtime.executor import FragmentTask
from engine.spark_internals import can_tell, runnable, runs_anew, telling
from engine.sql.incremental.fragments import Fragment

MOST_FRAMES = 2_000
Shape = tuple[str, tuple[str, ...], bool]


@dataclass(frozen=True)
class Prepared:
    """The frame of one fragment for epochs in which the same inputs have changed."""

    shape: Shape
    fragment: Fragment
    table: Table
    frame: DataFrame
    parameters: TableParameters

    @cached_property
    def rows(self) -> Callable[[], Iterator[tuple[Any, ...]]]:
        """What runs the frame."""
        return runnable(self.frame)

    def fits(self, task: FragmentTask) -> bool:
        """Tell whether the frame computes `task` as well."""
        same = self.fragment is task.fragment or self.fragment == task.fragment
        return same and self.table == task.table and self.parameters.fit(task.tables)

    def runs_again(self) -> bool:
        """Tell whether a second run would compute everything anew, over the epoch that it is told."""
        return not self.parameters.closed and runs_anew(self.frame)

    def can_be_told(self, spark: SparkSession, task: FragmentTask) -> bool:
        """Tell whether the tables of `task` are few and small enough to be told with a run."""
        return can_tell(spark, self.parameters.arguments(task.tables, task.old, task.new))

    def run(self, spark: SparkSession, task: FragmentTask, counters: Counters) -> list[NetChange]:
        """Run the frame over the epoch of `task`; what its tasks ask of the store is counted."""
        with telling(spark, self.parameters.arguments(task.tables, task.old, task.new)):
            return collected(self.rows(), counters)


class PreparedFrames:
    """The frames that an executor keeps; one that is running is nobody else's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: OrderedDict[Shape, Prepared] = OrderedDict()

    def take(self, task: FragmentTask) -> Prepared | None:
        """Return a frame that computes `task`, for the caller alone until it is given back."""
        with self._lock:
            found = self._frames.pop(shape_of(task), None)
        return found if found is not None and found.fits(task) else None

    def give(self, prepared: Prepared) -> None:
        """Keep a frame for later epochs."""
        with self._lock:
            self._frames[prepared.shape] = prepared
            while len(self._frames) > MOST_FRAMES:
                self._frames.popitem(last=False)


def may_be_kept(task: FragmentTask) -> bool:
    """Tell whether a task's frame can be kept: that of a small epoch."""
    return task.old is not None and task.piece is None and task.again is None and not task.is_large


def shape_of(task: FragmentTask) -> Shape:
    """Return what a frame's shape depends on: the fragment's table, which inputs have changed, and whether cores share it."""
    assert task.old is not None
    names = dict.fromkeys(task.fragment.inputs)
    changed = tuple(name for name in names if task.tables[name].changes(task.old, task.new))
    return task.fragment.table, changed, task.rows >= SPREAD_ROWS
