"""Claims of epochs: what a change says of the rows that stand, and what it may not hold, is compared with the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.assumptions import APPEND_ONLY, CLOSED, KEPT_FRAME, NOT_CROSSED, NOT_NULL, OLD_ROWS
from engine.errors import ClaimBroken
from engine.hummock import Hummock, Put
from engine.hummock.epoch import micros_of
from engine.meta.epochs.time_boundary import check_not_crossed, record_boundaries
from engine.meta.status.watermarks import WatermarkPosition, build_watermark_row
from engine.operators.materialize import NetChange
from engine.runtime.epoch.assumption_checks import check_append_only, check_change, check_recomputed
from engine.runtime.epoch.epoch_run import FragmentEpoch
from engine.runtime.executor import FragmentTask
from engine.sql.catalog import Relation, RelationColumn, Watermark, build_watermark_relation
from engine.sql.expression.clock import FOREVER, TIME_AT, TIME_PART
from engine.sql.expression.nodes import Column
from engine.sql.incremental.fragments import Fragment, StateExpiry
from engine.sql.incremental.rules import Linear
from engine.sql.incremental.watermarks.watermark_columns import build_watermark_bound
from engine.sql.plan import Project, Scan
from engine.sql.typing.types import to_arrow
from engine.verification import Assumption

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Hummock:
    opened = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    opened.create_table("v", SCHEMA, ["id"], ["id"])
    opened.ingest_batch({"v": [Put(pa.table({"id": [1, 2], "x": [1, 2]}, SCHEMA))]})
    return opened


def task_over(store: Hummock, *, append_only: bool = False) -> FragmentTask:
    items = (("id", "id"), ("x", "x"))
    plan = Project(Scan("t", items, ("id",), ("id",), append_only), tuple((n, Column(n)) for n, _ in items))
    fragment = Fragment("v", Linear(), plan, ("id",), ("id",), "")
    version = store.version
    return FragmentTask(
        fragment, version.tables["v"].table, version.tables, version.epoch, version.epoch + 1, 3
    )


def change(store: Hummock, ids: list[int], x: list[int | None], deleted: list[int]) -> NetChange:
    rows = pa.table({"id": ids, "x": pa.array(x, pa.int64()), "_op": pa.array(deleted, pa.uint8())})
    return NetChange(tuple(store.reader.write_run(store.version.tables["v"].table, rows)), 0, 0, 0)


def build_epoch(inserted: int, updated: int, deleted: int) -> FragmentEpoch:
    return FragmentEpoch(1, 2, 3, inserted, updated, deleted, {})


def breaks(claim: Assumption):  # type: ignore[no-untyped-def]
    return pytest.raises(ClaimBroken, match=claim.name)


def test_old_rows_are_those_that_stand(store: Hummock) -> None:
    task, made = task_over(store), change(store, [1, 2, 3], [5, 0, 7], [0, 1, 0])
    check_change(store.reader, task, build_epoch(1, 1, 1), made.ssts, ())
    for counts in ((2, 0, 1), (1, 2, 0), (0, 2, 1)):
        with breaks(OLD_ROWS):
            check_change(store.reader, task, build_epoch(*counts), made.ssts, ())


def test_a_deletion_of_nothing_is_told(store: Hummock) -> None:
    made = change(store, [9], [0], [1])
    with breaks(OLD_ROWS):
        check_change(store.reader, task_over(store), build_epoch(0, 0, 1), made.ssts, ())


def test_a_null_where_none_may_be_is_told(store: Hummock) -> None:
    made = change(store, [3], [None], [0])
    check_change(store.reader, task_over(store), build_epoch(1, 0, 0), made.ssts, ())
    with breaks(NOT_NULL):
        check_change(store.reader, task_over(store), build_epoch(1, 0, 0), made.ssts, ("x",))


def test_a_change_below_the_watermark_before_is_told(store: Hummock) -> None:
    relation = Relation(
        name="t", kind="table", columns=(RelationColumn("ts", "bigint"),), watermark=Watermark("ts", 0)
    )
    shown = build_watermark_relation(relation)
    assert shown is not None
    hidden = store.create_table(
        shown.name, pa.schema([(c.name, to_arrow(c.type)) for c in shown.columns]), ["_key"]
    )
    store.ingest_batch({hidden: [Put(build_watermark_row(hidden, WatermarkPosition(3)))]})
    task = task_over(store)
    task = replace(
        task,
        fragment=msgspec.structs.replace(
            task.fragment, expiry=StateExpiry("id", (build_watermark_bound("t"),))
        ),
    )
    made = change(store, [3, 4], [5, 0], [0, 0])
    check_change(store.reader, task, build_epoch(2, 0, 0), made.ssts, ())
    made = change(store, [1], [5], [0])
    with breaks(CLOSED):
        check_change(store.reader, task, build_epoch(0, 1, 0), made.ssts, ())
    check_change(store.reader, replace(task, whole=True), build_epoch(0, 1, 0), made.ssts, ())


def test_a_row_that_crosses_before_what_was_noted_is_told(store: Hummock) -> None:
    columns = {TIME_PART: pa.int32(), TIME_AT: pa.int64(), "id": pa.int64()}
    timed = store.create_table("s", pa.schema(list(columns.items())), list(columns), [TIME_PART])
    now = micros_of(store.version.epoch)
    ahead = [now + 3_600_000_000, now + 7_200_000_000, FOREVER]
    rows = {TIME_PART: pa.array([0, 1, 1], pa.int32()), TIME_AT: ahead, "id": [1, 2, 3]}
    store.ingest_batch({timed: [Put(pa.table(rows))]})
    table = store.version.tables["s"]
    record_boundaries(store.reader, {"s": table}, ["s"])
    check_not_crossed(store.reader, table, ahead[0])
    for said in (ahead[1], None):
        with breaks(NOT_CROSSED):
            check_not_crossed(store.reader, table, said)


def test_a_view_that_only_adds_never_changes_a_row(store: Hummock) -> None:
    check_append_only(task_over(store), build_epoch(1, 1, 0))
    check_append_only(task_over(store, append_only=True), build_epoch(3, 0, 0))
    with breaks(APPEND_ONLY):
        check_append_only(task_over(store, append_only=True), build_epoch(3, 1, 0))
    check_append_only(replace(task_over(store, append_only=True), old=None), build_epoch(3, 1, 0))


def test_a_kept_frame_that_computes_something_else_is_told(store: Hummock) -> None:
    one, same, other = (change(store, [3, 4], x, [0, 0]) for x in ([1, 2], [1, 2], [1, 3]))
    check_recomputed(store.reader, task_over(store), KEPT_FRAME, [one], [same])
    for wrong in ([other], []):
        with breaks(KEPT_FRAME):
            check_recomputed(store.reader, task_over(store), KEPT_FRAME, [one], wrong)
