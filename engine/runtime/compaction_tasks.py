"""Large compactions by Spark's tasks: each merges ranges of hashes, writes their files, and answers with what a commit needs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from engine.arrow import as_values
from engine.errors import CorruptObject, StorageError, StorageFull, Unavailable
from engine.hummock import Hummock, Reader, SstInfo
from engine.hummock.compaction import Merge, merge_range
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run
from engine.operators.arrow.map_in_arrow import map_in_arrow
from engine.runtime.mebibytes import MebibyteSetting
from engine.runtime.spark.errors import find_task_error
from engine.runtime.spark.masters import is_local
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import activate, collect, set_schema

SETTING = "TIDELINE_COMPACTION_TASKS_MB"
TASK_THRESHOLD = MebibyteSetting(SETTING, 512.0)
"""From how many bytes of rows on tasks merge them."""
"""Below that a merge in one process takes a few seconds, of which a Spark job would save one or two."""
LEAST_ON_A_MACHINE = 3
"""On one machine fewer tasks at once are no faster than one process: together they burn some 1.4 times its seconds."""
ANSWER_SCHEMA = StructType([StructField("answer", BinaryType())])
_OF_SPARK = (PySparkException, Py4JError, ConnectionError)
"""What Spark's client raises; the last two where its Java has ended."""
_FAULTS = {kind.__name__: kind for kind in (CorruptObject, StorageFull, Unavailable, StorageError)}


class MergedRange(msgspec.Struct):
    """What a task tells of one range, by its number: its files, and the requests that were made for it.

    `fault` is the kind of an error of the store and its text: another try would end as this one.
    """

    number: int
    ssts: tuple[SstInfo, ...] = ()
    requests: dict[str, int] = {}
    fault: tuple[str, str] | None = None


@dataclass(frozen=True)
class MergeRanges:
    """A task's body: merges the ranges whose numbers it gets."""

    url: str
    options: Mapping[str, Any]
    merge: Merge
    ranges: tuple[HashRange, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Reader.open(self.url, self.options)
        for batch in batches:
            for number in as_values(batch.column(0)):
                answer = msgspec.msgpack.encode(self._merge_range(reader, number))
                yield pa.record_batch([pa.array([answer], pa.binary())], names=["answer"])

    def _merge_range(self, reader: Reader, number: int) -> MergedRange:
        done = MergedRange(number)
        try:
            done.ssts = merge_range(reader, self.merge, self.ranges[number])
        except StorageError as error:
            kind = next(name for name, kind in _FAULTS.items() if isinstance(error, kind))
            done.fault = kind, str(error)
        done.requests = reader.files.counters.count_unreported()
        reader.files.counters.mark_reported(done.requests)
        return done


class CompactionTasks:
    """Merges ranges of large compactions by tasks of the Spark that `spark` returns; None leaves them to who asks."""

    def __init__(self, store: Hummock, spark: Callable[[], EngineSpark | None]) -> None:
        self._store, self._spark = store, spark

    def at_once(self, merge: Merge) -> int:
        """Return how many ranges tasks would merge at the same time; of a server's cores one is left to others. 1: none."""
        if merge.size < TASK_THRESHOLD.read() or (spark := self._spark()) is None:
            return 1
        with _translate_errors(merge.table.name, spark):  # a server is asked, and may be gone
            cores = spark.count_parallel_tasks() - (not spark.is_in_process)
            local = is_local(spark.master)
        return cores if cores >= (LEAST_ON_A_MACHINE if local else 2) else 1

    def merge(self, merge: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
        """Return the files that tasks have written for each range; raises StorageError where a task ends without them."""
        spark = self._spark()
        assert spark is not None
        body = MergeRanges(self._store.url, dict(self._store.options), merge, tuple(ranges))
        tasks = len(ranges) if spark.is_in_process else min(len(ranges), self.at_once(merge))
        with _translate_errors(merge.table.name, spark):
            frame = map_in_arrow(_build_number_frame(spark.session, len(ranges), tasks), body, ANSWER_SCHEMA)
            done = self._run(spark, frame)
        for one in done:
            if one.fault is not None:
                raise _FAULTS[one.fault[0]](one.fault[1])
        return [one.ssts for one in sorted(done, key=lambda one: one.number)]

    def _run(self, spark: EngineSpark, frame: DataFrame) -> list[MergedRange]:
        """Run the tasks; who ends this process's work ends them, too."""
        activate(spark.session)
        mark = f"tideline-compaction-{uuid.uuid4()}"
        spark.mark_jobs(mark)
        try:
            answers = [bytes(answer) for (answer,) in collect(frame)]
        except PySparkException:  # the job has ended by itself
            raise
        except BaseException:
            if not spark.is_stopped:
                spark.stop_jobs(mark)
            raise
        finally:
            if not spark.is_stopped:
                spark.unmark_jobs(mark)
        track_bytes(sum(map(len, answers)))
        done = [msgspec.msgpack.decode(answer, type=MergedRange) for answer in answers]
        for one in done:
            self._store.counters.add_requests(one.requests)
        return done


def _build_number_frame(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    """Return a frame of numbers, spread over so many tasks."""
    return set_schema(spark.range(0, count, 1, tasks), StructType([StructField("id", LongType(), False)]))


@contextmanager
def _translate_errors(table: str, spark: EngineSpark) -> Iterator[None]:
    """Raise what Spark raises as an error of the table: others may be compacted nevertheless."""
    try:
        yield
    except Exception as error:  # where it was stopped meanwhile its session lacks whatever is asked for
        if not isinstance(error, _OF_SPARK) and not spark.is_stopped:
            raise
        raise _build_error(table, error) from error


def _build_error(table: str, error: Exception) -> StorageError:
    return StorageError(
        f"Spark's tasks could not compact table {table}, which is as it was: {find_task_error(error)}. Look at the "
        f"executors' logs; {SETTING} above the size of the table has the process itself merge it"
    )
