"""Spark's Python workers: what a worker holds on to after its first task is not searched for garbage again."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

CYCLES = """
import gc, weakref
from engine.runtime.spark import worker_daemon
from engine.runtime.spark.worker_daemon import collect_garbage

class Node:
    pass

def ring():
    one, other = Node(), Node()
    one.next, other.next = other, one
    return weakref.ref(one)

gc.disable()
first = ring()
collect_garbage()
known = gc.get_freeze_count()
second = ring()
collect_garbage()
held = Node()
held.next = held
third = weakref.ref(held)
collect_garbage()  # which it outlives
del held
collect_garbage()
kept = third() is not None
worker_daemon.SECONDS_BETWEEN_SEARCHES = 0.0
collect_garbage()
print(first() is None, known > 0, second() is None, gc.get_freeze_count() == known, kept, third() is None)
"""


def frozen_objects(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    list(batches)
    yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})


def test_garbage_is_collected_and_modules_are_left_alone() -> None:
    done = subprocess.run([sys.executable, "-c", CYCLES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 6


@pytest.mark.long
def test_workers_leave_alone_what_their_first_task_has_loaded(spark: SparkSession) -> None:
    counted = spark.range(0, 1, 1, 1).mapInArrow(frozen_objects, "frozen long")
    assert any(counted.collect()[0].frozen > 10_000 for _ in range(5))
