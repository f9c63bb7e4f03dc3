"""The executor that runs fragments on Spark, each as one action."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.hummock import Hummock
from engine.operators.context import EpochContext
from engine.operators.sink import NetChange, write, write_change
from engine.runtime.epoch_run import context_of, fragment_change
from engine.runtime.executor import Computed, FragmentTask
from engine.runtime.failing_row import is_row_error, named
from engine.runtime.spark import parallelism
from engine.sql.plan import Scan


class SparkExecutor:
    """Runs tasks in a Spark session that starts when it is first needed."""

    def __init__(self, store: Hummock, spark: Callable[[], SparkSession]) -> None:
        self._store, self._spark = store, spark

    @property
    def parallelism(self) -> int:
        """How many Spark tasks run at the same time."""
        return parallelism(self._spark())

    def compute(self, task: FragmentTask) -> Computed:
        """Compute a task in one Spark action; a small change of an index needs none."""
        started = time.perf_counter()
        if task.fragment.rule == "index" and not task.is_large and task.piece is None:
            written = self._copy_index(task)
            return Computed(written, {"write": time.perf_counter() - started})
        spark = self._spark()
        context = EpochContext(
            spark,
            self._store.url,
            self._store.options,
            task.tables,
            task.old,
            task.new,
            parallelism(spark),
            task.rows,
            piece=task.piece,
        )
        context = context_of(task.fragment, context)
        whole = task.old is None or task.fragment.rule == "full"
        spark.conf.set("spark.sql.adaptive.enabled", "true" if whole else "false")
        spark.conf.set("spark.sql.shuffle.partitions", str(context.partitions))
        try:
            frame = fragment_change(task.fragment, context)
            planned = time.perf_counter()
            changes = write(frame, task.table, context) if frame is not None else []
        except PySparkException as error:
            if not is_row_error(error):
                raise
            raise named(error, task.fragment, context, self._store.reader, fragment_change) from error
        return Computed(tuple(changes), {"plan": planned - started, "spark": time.perf_counter() - planned})

    def _copy_index(self, task: FragmentTask) -> tuple[NetChange, ...]:
        """Write the change of the indexed table as the index's own."""
        assert isinstance(task.fragment.plan, Scan) and task.old is not None
        source = task.tables[task.fragment.plan.table]
        batches = list(self._store.reader.changes(source, task.old, task.new))
        return (
            (write_change(self._store.reader, task.table, pa.Table.from_batches(batches)),) if batches else ()
        )
