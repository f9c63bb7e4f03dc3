"""Frames of small epochs that are kept and run again: an epoch then costs its job, and no planning."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from engine.hummock import Table, TableVersion
from engine.hummock.metrics import Counters
from engine.operators.arrow.map_in_arrow import Body
from engine.operators.context import SPREAD_ROWS
from engine.operators.flow import Flow
from engine.operators.lookups.table_parameters import TableParameters
from engine.operators.materialize import NetChange, collect_changes
from engine.operators.shared_task import choose_shape
from engine.runtime.executor import FragmentTask
from engine.spark_internals import attach_task_text, can_attach_text, is_recomputed, prepare_run
from engine.sql.incremental.fragments import Fragment

MOST_FRAMES = 2_000
MOST_SHARED_ROWS = 50_000
"""So many changed rows of a fragment at most are for a task that computes others, too."""
Shape = tuple[str, tuple[str, ...], bool]


@dataclass(frozen=True)
class PreparedFrame:
    """The frame of one fragment for epochs in which these inputs have changed; `reasons` are what of it is left to Spark.

    What Arrow computes alone is a frame for all inputs, whatever has changed.
    """

    shape: Shape
    fragment: Fragment
    table: Table
    flow: Flow
    parameters: TableParameters
    reasons: tuple[str, ...] = ()

    @property
    def frame(self) -> DataFrame:
        """The frame as Spark's."""
        return self.flow.frame

    @property
    def body(self) -> Body | None:
        """What computes the epoch in one task by itself, None if Spark computes a part of it."""
        return None if self.parameters.closed else self.flow.body

    @property
    def most_rows(self) -> int:
        """Up to how many changed rows `body` is the way to compute an epoch."""
        return SPREAD_ROWS - 1 if self.parameters.sized else MOST_SHARED_ROWS

    @cached_property
    def rows(self) -> Callable[[], Iterator[tuple[Any, ...]]]:
        """What runs the frame."""
        return prepare_run(self.frame)

    def fits(self, task: FragmentTask) -> bool:
        """Tell whether the frame computes `task` as well."""
        same = self.fragment is task.fragment or self.fragment == task.fragment
        return same and self.table == task.table and self.parameters.is_reusable(task.tables)

    def can_rerun(self) -> bool:
        """Tell whether a second run would compute everything anew, over the epoch that the job names."""
        return not self.parameters.closed and is_recomputed(self.frame)

    def can_pass_tables(self, spark: SparkSession, task: FragmentTask) -> bool:
        """Tell whether the tables of `task` are few and small enough to be sent with a run."""
        return can_attach_text(spark, self.parameters.encode_arguments(task.tables, task.old, task.new))

    def run(self, spark: SparkSession, task: FragmentTask, counters: Counters) -> list[NetChange]:
        """Run the frame over the epoch of `task`; what its tasks ask of the store is counted."""
        with attach_task_text(spark, self.parameters.encode_arguments(task.tables, task.old, task.new)):
            return collect_changes(self.rows(), counters)


class PreparedFrames:
    """The frames that an executor keeps; one that is running is nobody else's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: OrderedDict[Shape, PreparedFrame] = OrderedDict()
        self._mixed: dict[str, Fragment] = {}

    def may_serve_any_input(self, task: FragmentTask) -> bool:
        """Tell whether a frame for all inputs may be one that Arrow computes alone."""
        return task.rows < SPREAD_ROWS and self._mixed.get(task.fragment.table) != task.fragment

    def mark_mixed(self, fragment: Fragment) -> None:
        """Record that Spark has a part in the frame of a fragment for all of its inputs."""
        self._mixed[fragment.table] = fragment

    def take(self, task: FragmentTask) -> PreparedFrame | None:
        """Return a frame that computes `task`, for the caller alone until it is given back.

        What Arrow computes alone serves also where fewer of its inputs have changed; Spark has work with each of them.
        """
        table, changed, is_spread = shape = build_shape(task)
        with self._lock:
            if shape not in self._frames:
                known = [one for one in self._frames.values() if one.shape[::2] == (table, is_spread)]
                wide = choose_shape([one.shape[1] for one in known if one.body is not None], changed)
                shape = (table, changed if wide is None else wide, is_spread)
            found = self._frames.pop(shape, None)
        return found if found is not None and found.fits(task) else None

    def list_shareable(
        self, fragment: Fragment, table: Table, tables: Mapping[str, TableVersion]
    ) -> list[PreparedFrame]:
        """Return the frames that compute epochs of a fragment in one task without Spark, whatever of its inputs has changed."""
        with self._lock:
            found = [one for shape, one in self._frames.items() if shape[0] == fragment.table]
        return [
            one
            for one in found
            if one.body is not None
            and one.fragment == fragment
            and one.table == table
            and one.parameters.is_reusable(tables)
        ]

    def give(self, prepared: PreparedFrame) -> None:
        """Keep a frame for later epochs."""
        with self._lock:
            self._frames[prepared.shape] = prepared
            while len(self._frames) > MOST_FRAMES:
                self._frames.popitem(last=False)


def can_retain_frame(task: FragmentTask) -> bool:
    """Tell whether a task's frame can be kept: that of a small epoch."""
    is_part = task.piece is not None or task.again is not None
    return task.old is not None and not task.whole and not is_part and not task.is_large


def build_shape(task: FragmentTask, *, any_input: bool = False) -> Shape:
    """Return what a frame's shape depends on: the fragment's table, which inputs have changed, and whether cores share it."""
    assert task.old is not None
    names = dict.fromkeys(task.fragment.inputs)
    changed = tuple(name for name in names if any_input or task.tables[name].list_changes(task.old, task.new))
    return task.fragment.table, changed, task.rows >= SPREAD_ROWS
