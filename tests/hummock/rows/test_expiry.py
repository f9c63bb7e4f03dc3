"""Rows past their time to live or below the watermark hide at once, at the right epochs, and are deleted later."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EpochExpired, InvalidRow, InvariantViolation
from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.compaction import BelowWatermark, PastTtl
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.epoch import epoch_at
from engine.testing.manual_clock import ManualClock
from tests.hummock.conftest import SCHEMA, content, keys, log, rows
from tests.hummock.dated import TimedObjectStore

EVENTS = pa.schema([("id", pa.int64()), ("v", pa.string()), ("at", pa.int64())])


def events(values: dict[int, tuple[str, int | None]]) -> pa.Table:
    columns = {
        "id": list(values),
        "v": [v for v, _ in values.values()],
        "at": [at for _, at in values.values()],
    }
    return pa.table(columns, schema=EVENTS)


@pytest.fixture
def manual() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, manual: ManualClock) -> Iterator[Hummock]:
    url = (tmp_path / "s").as_uri()
    options = {"cache_dir": tmp_path / "c", "auto_compact": "off", "retention_seconds": 60}
    with Hummock.open(url, object_store=TimedObjectStore(url, manual), clock=manual, **options) as opened:  # type: ignore[arg-type]
        yield opened


@pytest.fixture(params=["distributed", "ordered"])
def table(store: Hummock, request: pytest.FixtureRequest) -> Table:
    by = ["id"] if request.param == "distributed" else None
    return store.create_table("t", SCHEMA, ["id"], by, ttl_seconds=100)


@pytest.fixture(params=["distributed", "ordered"])
def marked(store: Hummock, request: pytest.FixtureRequest) -> Table:
    by = ["id"] if request.param == "distributed" else None
    return store.create_table("t", EVENTS, ["id"], by, watermark_column="at")


def stored(store: Hummock) -> int:
    return sum(sst.rows for sst in store.version.tables["t"].live_ssts)


def test_a_row_hides_when_its_time_to_live_is_over(store: Hummock, table: Table, manual: ManualClock) -> None:
    store.ingest_batch({table: [Put(rows({1: "a", 2: "a"}))]})
    manual.sleep(60)
    store.ingest_batch({table: [Put(rows({2: "b"}))]})
    assert content(store) == {1: "a", 2: "b"}
    manual.sleep(41)
    assert content(store) == {2: "b"}
    assert store.get(table, {"id": 1}) is None
    assert store.multi_get(table, keys(1, 2))["v"].to_pylist() == [None, "b"]
    manual.sleep(60)
    assert content(store) == {}


def test_a_key_range_leaves_out_what_is_past_its_time(store: Hummock, manual: ManualClock) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ttl_seconds=100)
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    manual.sleep(60)
    store.ingest_batch({table: [Put(rows({2: "b"}))]})
    manual.sleep(50)
    found = [row for batch in store.iter(table, range=({"id": 0}, {"id": 9})) for row in batch.to_pylist()]
    assert found == [{"id": 2, "v": "b"}]


def test_compactions_keep_the_row_epoch(store: Hummock, table: Table, manual: ManualClock) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    manual.sleep(50)
    store.ingest_batch({table: [Put(rows({2: "b"}))]})
    store.compact(table)
    manual.sleep(40)
    store.compact(table)
    assert content(store) == {1: "a", 2: "b"}
    manual.sleep(20)
    assert content(store) == {2: "b"}


def test_a_retained_epoch_shows_the_rows_that_lived_then(
    store: Hummock, table: Table, manual: ManualClock
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    manual.sleep(90)
    then = store.ingest_batch({table: [Put(rows({2: "b"}))]})
    manual.sleep(30)
    now = store.ingest_batch({table: [Put(rows({3: "c"}))]})
    store.compact(table)
    assert content(store, epoch=then) == {1: "a", 2: "b"}
    assert content(store, epoch=now) == {2: "b", 3: "c"}


def test_the_compactor_deletes_what_no_retained_epoch_shows(
    store: Hummock, table: Table, manual: ManualClock
) -> None:
    store.ingest_batch({table: [Put(rows({i: "a" for i in range(50)}))]})
    manual.sleep(130)
    assert (content(store), stored(store)) == ({}, 50)
    assert CompactionWorker(store).run_once() == []  # epochs within the retention show the rows yet
    manual.sleep(40)
    assert [report.rows_after for report in CompactionWorker(store).run_once()] == [0]
    assert stored(store) == 0


def test_an_epoch_before_the_retention_is_expired_where_rows_have_a_time_to_live(
    store: Hummock, table: Table, manual: ManualClock
) -> None:
    epoch = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    other = store.create_table("u", SCHEMA, ["id"], ["id"])
    store.ingest_batch({other: [Put(rows({1: "a"}))]})
    manual.sleep(59)
    assert content(store, epoch=epoch) == {1: "a"}
    manual.sleep(2)
    for read in (
        lambda: content(store, epoch=epoch),
        lambda: store.get(table, {"id": 1}, epoch=epoch),
        lambda: store.multi_get(table, keys(1), epoch=epoch),
        lambda: log(store, epoch, store.version.epoch),
        lambda: store.pin(table, epoch, seconds=10),
    ):
        with pytest.raises(EpochExpired, match="time to live"):
            read()
    assert content(store) == {1: "a"}
    assert store.get(other, {"id": 1}, epoch=store.version.epoch) == {"id": 1, "v": "a"}


def test_a_consumer_holds_expired_rows_back(store: Hummock, table: Table, manual: ManualClock) -> None:
    epoch = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    pin = store.pin(table, epoch, seconds=10_000)
    manual.sleep(1000)
    assert PastTtl(store.version.epoch + (1000 << 26)).pick(store.version.tables["t"]) is None
    assert CompactionWorker(store).run_once() == []
    assert content(store, epoch=epoch) == {1: "a"}
    store.unpin(pin)
    assert len(CompactionWorker(store).run_once()) == 1


def test_the_log_of_a_table_with_expiry_agrees_with_what_readers_saw(
    store: Hummock, table: Table, manual: ManualClock
) -> None:
    store.ingest_batch({table: [Put(rows({1: "a", 2: "a"}))]})
    manual.sleep(90)
    before = store.ingest_batch({table: [Put(rows({3: "c"}))]})
    manual.sleep(20)
    hidden = store.ingest_batch({table: [Put(rows({4: "d"}))]})
    after = store.ingest_batch({table: [Put(rows({1: "A"})), Delete(keys(2))]})
    assert log(store, before, after) == {
        1: ("update", "A", "a"),
        2: ("delete", None, "a"),
        4: ("insert", "d", None),
    }
    assert log(store, hidden, after) == {1: ("insert", "A", None)}


def test_an_option_added_later_counts_from_when_files_were_named(store: Hummock, manual: ManualClock) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    manual.sleep(90)
    store.compact(table)
    store.ingest_batch({table: [Put(rows({2: "b"}))]})
    store.alter_table(table, ttl_seconds=30)
    assert content(store) == {2: "b"}
    store.alter_table(table, ttl_seconds=None)
    assert content(store) == {1: "a", 2: "b"}


def test_rows_below_the_watermark_hide_from_its_epoch_on(store: Hummock, marked: Table) -> None:
    before = store.ingest_batch({marked: [Put(events({1: ("a", 5), 2: ("b", 10), 3: ("c", None)}))]})
    at = store.set_watermark(marked, 10)
    assert content(store) == {2: "b", 3: "c"}
    assert store.get(marked, {"id": 1}) is None
    assert content(store, epoch=before) == {1: "a", 2: "b", 3: "c"}
    store.compact(marked)
    assert (content(store, epoch=at), content(store, epoch=before)) == (
        {2: "b", 3: "c"},
        {1: "a", 2: "b", 3: "c"},
    )
    assert stored(store) == 2


def test_a_hidden_row_does_not_uncover_the_one_that_it_replaced(store: Hummock, marked: Table) -> None:
    store.ingest_batch({marked: [Put(events({i: ("old", 100) for i in range(20_000)}))]})
    store.ingest_batch({marked: [Put(events({1: ("low", 5), 2: ("new", 50)}))]})
    store.ingest_batch({marked: [Put(events({3: ("new", 60)}))]})
    store.set_watermark(marked, 10)
    assert store.get(marked, {"id": 1}) is None
    store.compact_l0(marked)
    version = store.version.tables["t"]
    assert [sum(sst.rows for sst in run) for run in version.generations[-1].runs] == [3, 20_000]
    assert store.get(marked, {"id": 1}) is None
    store.compact(marked)
    assert (store.get(marked, {"id": 1}), len(content(store))) == (None, 19_999)


def test_the_compactor_deletes_what_lies_below_the_watermark(store: Hummock, marked: Table) -> None:
    store.ingest_batch({marked: [Put(events({i: ("x", i) for i in range(100)}))]})
    store.ingest_batch({marked: [Put(events({100: ("x", 100)}))]})
    store.compact(marked)
    store.set_watermark(marked, 10)
    assert BelowWatermark().pick(store.version.tables["t"]) is None
    store.set_watermark(marked, 40)
    assert [report.rows_after for report in CompactionWorker(store).run_once()] == [61]


def test_a_watermark_never_falls_and_needs_its_column(store: Hummock, marked: Table) -> None:
    store.set_watermark(marked, 10)
    with pytest.raises(InvariantViolation, match="not above 10"):
        store.set_watermark(marked, 10)
    with pytest.raises(InvalidRow, match="for column at"):
        store.set_watermark(marked, "soon")
    with pytest.raises(InvalidRow, match="carries the watermark"):
        store.alter_table(marked, drop=["at"])
    with pytest.raises(InvariantViolation, match="for good"):
        store.alter_table(marked, watermark_column=None)
    with pytest.raises(InvalidRow, match="no watermark column"):
        store.set_watermark(store.create_table("u", SCHEMA, ["id"]), 1)
    with pytest.raises(InvalidRow, match="cannot carry a watermark"):
        store.create_table("w", SCHEMA, ["id"], watermark_column="v")
    with pytest.raises(InvalidRow, match="no option"):
        store.create_table("w", SCHEMA, ["id"], ttl=5)
    with pytest.raises(InvalidRow, match="no time above 0"):
        store.create_table("w", SCHEMA, ["id"], ttl_seconds=0)


def test_a_watermark_of_moments(store: Hummock) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    day = [datetime.datetime(2024, 1, d, tzinfo=datetime.UTC) for d in (1, 2, 3)]
    table = store.create_table("t", schema, ["id"], ["id"], watermark_column="at")
    store.ingest_batch(
        {table: [Put(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"], "at": day}, schema=schema))]}
    )
    store.set_watermark(table, day[1])
    assert content(store) == {2: "b", 3: "c"}


def test_options_and_watermarks_survive_reopening_through_a_checkpoint(
    store: Hummock, marked: Table, tmp_path: Path
) -> None:
    store.alter_table(marked, ttl_seconds=500, retention_seconds=7)
    store.ingest_batch({marked: [Put(events({1: ("a", 5), 2: ("b", 10)}))]})
    store.set_watermark(marked, 10)
    for step in range(70):
        store.ingest_batch({marked: [Put(events({3: (str(step), 50)}))]})
    with Hummock.open(store.url, cache_dir=tmp_path / "other", auto_compact="off") as other:
        assert other.version == store.version
        assert other.table("t").options == store.table("t").options


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 30)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("watermark"), st.integers(1, 6), st.just(0)),
        st.tuples(st.sampled_from(["sleep", "full", "tier", "worker", "gc"]), st.integers(1, 30), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(ops=OPS, distributed=st.booleans())
def test_any_history_reads_at_every_retained_epoch_as_it_did(
    ops: list, distributed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock, folder = ManualClock(), tmp_path_factory.mktemp("expiry")
    options = {"clock": clock, "auto_compact": "off", "retention_seconds": 40}
    options["object_store"] = TimedObjectStore((folder / "s").as_uri(), clock)
    with Hummock.open((folder / "s").as_uri(), cache_dir=folder / "c", **options) as store:  # type: ignore[arg-type]
        by = ["id"] if distributed else None
        table = store.create_table("t", EVENTS, ["id"], by, ttl_seconds=50, watermark_column="at")
        model: dict[int, tuple[int, float]] = {}
        level, seen = 0, {}
        for number, (what, a, b) in enumerate(ops):
            epoch = None
            if what == "put":
                epoch = store.ingest_batch({table: [Put(events({a: (str(number), b)}))]})
                model[a] = (number, b, clock())  # type: ignore[assignment]
            elif what == "delete":
                epoch = store.ingest_batch({table: [Delete(keys(a))]})
                model.pop(a, None)
            elif what == "watermark":
                level += a
                epoch = store.set_watermark(table, level)
            elif what == "sleep":
                clock.sleep(a)
            elif what == "full":
                store.compact(table)
            elif what == "tier":
                store.compact_l0(table)
            elif what == "worker":
                CompactionWorker(store).run_once()
            else:
                store.gc(grace_seconds=1)
            clock.sleep(1)
            if epoch is not None:
                shown = content(store, epoch=epoch)
                wanted = {
                    k: str(n) for k, (n, at, born) in model.items() if at >= level and clock() - 1 - born < 50
                }  # type: ignore[misc]
                assert shown == wanted
                seen[epoch] = shown
            version = store.version.tables["t"]
            kept = epoch_at(clock() - 40)
            for epoch, shown in seen.items():
                if epoch >= max(version.safe_epoch, kept):
                    assert content(store, epoch=epoch) == shown
