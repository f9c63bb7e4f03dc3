"""A shared task stops beginning fragments by its processor time first, and chooses among the bodies of a fragment."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Hummock
from engine.operators import shared_task
from engine.operators.shared_task import (
    MOST_SECONDS,
    MOST_WAITED,
    SharedCall,
    SharedFragment,
    StagedFragments,
    TaskClock,
    choose_shape,
    run_task,
)


def test_a_task_that_waits_has_more_time_than_one_that_computes() -> None:
    wall, processor = time.perf_counter(), time.process_time()
    assert TaskClock(wall, processor).has_time_left()
    assert TaskClock(wall - MOST_SECONDS, processor).has_time_left()
    assert not TaskClock(wall - MOST_WAITED * MOST_SECONDS, processor).has_time_left()
    assert not TaskClock(wall, processor - MOST_SECONDS).has_time_left()


def test_the_least_body_for_all_inputs_that_have_changed_is_chosen() -> None:
    shapes = [("a",), ("a", "b", "c"), ("a", "b"), ("b", "c")]
    assert choose_shape(shapes, ("a",)) == ("a",)
    assert choose_shape(shapes, ("b",)) == ("a", "b")
    assert choose_shape(shapes, ("c",)) == ("b", "c")
    assert choose_shape(shapes, ()) == ("a",)
    assert choose_shape(shapes, ("d",)) is None
    assert choose_shape([], ("a",)) is None


def test_what_is_written_at_an_epoch_ahead_of_the_version_is_read_by_the_next_fragment(
    tmp_path: Path,
) -> None:
    store = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    table = store.create_table("view", pa.schema([("id", pa.int64())]), ["id"], ["id"])
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "_op": pa.array([0, 0], pa.uint8())})
    version, ahead = store.version, store.version.epoch + (1 << 60)
    staged = StagedFragments(version, ())
    first = SharedFragment("view", (), (), (), frozenset(), version.epoch, ahead, 10)
    staged.add(first, tuple(store.reader.write_run(table, rows)))
    assert staged.version.epoch == version.epoch
    assert [change.epoch for change in staged.version.tables["view"].list_changes(version.epoch, ahead)] == [
        ahead
    ]


def test_a_task_that_shares_its_fragments_does_not_wait_for_an_earlier_run_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark runs a task again whose worker was killed, where the master allows it: what that had begun with never ends."""
    monkeypatch.setattr(shared_task, "count_attempts", lambda: 1)
    store = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    call = SharedCall({}, 1, ((),), frozenset(), str(tmp_path / "journal"))
    with pytest.raises(RuntimeError, match="is not run again"):
        list(run_task(call, 0, {}, store.reader))
    assert list(run_task(SharedCall({}, 1, ((),), frozenset()), 0, {}, store.reader)) == []
