"""Large compactions by Spark's tasks give what one process gives; rows stay with the tasks, and what fails is as before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.errors import Conflict, CorruptObject, StorageError
from engine.hummock import Hummock, Put
from engine.hummock.compaction import Full, Merge, run_task
from engine.hummock.metrics import Metrics
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run
from engine.runtime import compaction_tasks
from engine.runtime.compaction_tasks import SETTING, CompactionTasks, MergeRanges
from engine.runtime.spark.session import EngineSpark
from engine.session import Session
from tests.hummock.random_tables import KINDS, copied, newest_run, random_table, readable
from tests.own_process import printed

LEAST = compaction_tasks.LEAST_ON_A_MACHINE


@pytest.fixture(autouse=True)
def small_tables_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks merge whatever has more than a few hundred rows."""
    monkeypatch.setenv(SETTING, "0")
    monkeypatch.setattr("engine.hummock.compaction.merging.TARGET_ROWS", 400)
    monkeypatch.setattr(compaction_tasks, "LEAST_ON_A_MACHINE", 2)


@pytest.fixture
def tasks(spark: SparkSession) -> Callable[[Hummock], CompactionTasks]:
    return lambda store: CompactionTasks(store, lambda: EngineSpark.of(spark))


def passed(cost: Metrics) -> int:
    """Return how many bytes compactions have brought through the process: all rows that it merges itself, or tasks' answers."""
    return sum(size for what, size in cost.driver_bytes.items() if what.startswith("compaction "))


def filled(store: Hummock, rows: int = 5_000) -> None:
    """Write a table in two runs."""
    store.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.string())]), ["id"], ["id"])
    for start in (0, rows // 2):
        ids = range(start, start + rows)
        store.ingest_batch({"t": [Put(pa.table({"id": ids, "v": [str(one) * 20 for one in ids]}))]})


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_give_what_one_process_gives(
    tmp_path: Path, tasks: Callable[[Hummock], CompactionTasks], merged_by_tasks: list[str], kind: str
) -> None:
    whole = random_table(tmp_path / "whole", 100 + KINDS.index(kind), kind)
    spread = copied(whole, tmp_path / "spread")
    number = spread.version.number
    whole.compact("t")
    report = spread.compact("t", executor=tasks(spread))
    assert report.done and spread.version.number == number + 1
    assert readable(spread).keys() == readable(whole).keys()
    assert all(rows.equals(readable(whole)[epoch]) for epoch, rows in readable(spread).items())
    assert merged_by_tasks == ([] if kind == "ordered" else ["t"])
    runs = [newest_run(store) for store in (whole, spread)]
    assert len({sum(sst.rows for sst in run) for run in runs}) == 1
    assert not any(sst.has_tombstones for sst in runs[1])


def test_what_passes_the_driver_is_names_of_files_and_what_tasks_ask_for_is_counted(session: Session) -> None:
    filled(session.store, 20_000)
    before = session.store.metrics()
    (report,) = [one for one in session.compact() if one.table == "t"]
    cost = session.store.metrics().since(before)
    assert report.rows_after == 30_000
    assert 0 < passed(cost) < min(report.bytes_after / 20, 500 * report.files_after)
    assert cost.requests["put"] >= report.files_after > 1
    assert cost.commits == cost.compactions == 1


def test_a_small_merge_is_of_the_process_that_asks(
    session: Session, monkeypatch: pytest.MonkeyPatch, merged_by_tasks: list[str]
) -> None:
    monkeypatch.setenv(SETTING, "512")
    filled(session.store)
    assert session.compact()[0].done
    assert merged_by_tasks == []


def test_a_spark_of_two_cores_of_one_machine_is_no_faster_and_not_asked(
    session: Session, monkeypatch: pytest.MonkeyPatch, merged_by_tasks: list[str]
) -> None:
    monkeypatch.setattr(compaction_tasks, "LEAST_ON_A_MACHINE", LEAST)
    filled(session.store)
    assert session.computing is not None
    assert session.compact()[0].done
    assert merged_by_tasks == []


def test_no_spark_is_started_on_this_machine_for_a_compaction_alone(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), "local[2]") as session:
        filled(session.store)
        assert session.compact()[0].done
        assert session.on_demand.started is None


def test_a_spark_that_is_asked_for_is_started_for_a_large_merge_only(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, merged_by_tasks: list[str]
) -> None:
    with Session((tmp_path / "store").as_uri(), lambda: spark) as session:
        filled(session.store)
        monkeypatch.setenv(SETTING, "512")
        session.compact(start_spark=True)
        assert session.on_demand.started is None
        monkeypatch.setenv(SETTING, "0")
        session.store.ingest_batch({"t": [Put(pa.table({"id": [1], "v": ["new"]}))]})
        session.compact(start_spark=True)
        assert session.on_demand.started is not None and merged_by_tasks == ["t"]


def test_a_file_that_is_missing_is_told_as_where_one_process_merges(
    session: Session, tasks: Callable[[Hummock], CompactionTasks]
) -> None:
    filled(session.store)
    task = Full().pick(session.store.version.tables["t"])
    assert task is not None
    path = session.store.objects.local_path(task.merge[0][0].path)
    assert path is not None
    path.unlink()
    session.store.reader.files.cache.drop(task.merge[0][0].sst_id)
    messages = []
    for executor in (None, tasks(session.store)):
        with pytest.raises(CorruptObject, match="is missing from the store") as error:
            run_task(session.store.reader, task, executor)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_what_was_compacted_meanwhile_is_not_replaced(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    filled(session.store)
    store = session.store
    before = readable(store)

    class Overtaken(CompactionTasks):
        def merge(self, merge: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
            done = super().merge(merge, ranges)
            Hummock.open(store.url, cache_dir=tmp_path / "other", auto_compact="off").compact("t")
            return done

    with pytest.raises(Conflict, match="compacted by another process"):
        store.compact("t", executor=Overtaken(store, lambda: EngineSpark.of(spark)))
    assert all(rows.equals(before[epoch]) for epoch, rows in readable(store).items() if epoch in before)


class Broken(MergeRanges):
    """A body with a fault that is no error of the store."""

    def _merge_range(self, reader: object, number: int) -> compaction_tasks.MergedRange:
        raise ValueError("no such thing")


def test_tasks_that_fail_leave_the_table_as_it_was_and_say_what_to_do(
    session: Session, tasks: Callable[[Hummock], CompactionTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(session.store)
    before, number = readable(session.store), session.store.version.number
    monkeypatch.setattr(compaction_tasks, "MergeRanges", Broken)
    with pytest.raises(
        StorageError, match=f"compact table t, which is as it was: ValueError: no such thing. .*{SETTING}"
    ):
        session.store.compact("t", executor=tasks(session.store))
    assert session.store.refresh().number == number
    assert readable(session.store).keys() == before.keys()


def test_a_spark_that_does_not_answer_is_told_as_an_error_of_the_table(
    session: Session, tasks: Callable[[Hummock], CompactionTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(spark: EngineSpark) -> int:
        raise PySparkException("connection refused")

    filled(session.store)
    monkeypatch.setattr(EngineSpark, "count_parallel_tasks", gone)
    with pytest.raises(StorageError, match=r"compact table t, which is as it was: .*connection refused"):
        session.store.compact("t", executor=tasks(session.store))


DIES_ONCE = """
import os, sys
from pathlib import Path
from engine.hummock import Hummock
from engine.hummock.compaction import merging
from engine.runtime import compaction_tasks
from engine.runtime.compaction_tasks import CompactionTasks, MergeRanges
from engine.runtime.spark.session import EngineSpark, connect

folder = Path(sys.argv[1])

class DiesOnce(MergeRanges):
    def _merge_range(self, reader, number):
        done, mark = super()._merge_range(reader, number), Path(self.url.removeprefix("file://")) / "mark"
        if number == 1 and not mark.exists():
            mark.touch()
            if "killed" in self.url:
                os._exit(9)
            raise ValueError("once")
        return done

merging.TARGET_ROWS = 400
compaction_tasks.MergeRanges = DiesOnce
spark = connect("local[3,3]")
for way in ("failed", "killed"):
    store = Hummock.open((folder / way).as_uri(), auto_compact="off")
    before = store.version.number
    store.compact("t", executor=CompactionTasks(store, lambda: EngineSpark.of(spark)))
    orphans = store.gc(dry_run=True, grace_seconds=0).deleted_objects
    print(store.version.number - before, (folder / way / "mark").exists(), orphans > 0)
spark.stop()
"""


@pytest.mark.long
def test_a_task_that_fails_or_is_killed_is_done_again_and_what_it_wrote_is_garbage(tmp_path: Path) -> None:
    before = {}
    for way in ("failed", "killed"):
        store = Hummock.open((tmp_path / way).as_uri(), cache_dir=tmp_path / "c", auto_compact="off")
        filled(store)
        before[way] = readable(store)
    assert printed(DIES_ONCE, str(tmp_path)).split() == ["1", "True", "True"] * 2
    for way, rows in before.items():
        with Hummock.open((tmp_path / way).as_uri(), cache_dir=tmp_path / "d") as store:
            after = readable(store)
            assert after[max(after)].equals(rows[max(rows)])
