"""Compaction and garbage collection on schedule keep the bucket small and the retained past as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.hummock import Commit, Hummock, SstInfo, Table
from engine.testing.manual_clock import ManualClock
from tests.hummock.conftest import SCHEMA, content, rows
from tests.hummock.dated import TimedObjectStore
from tests.hummock.maintenance import EPOCH_SECONDS, keep_house, read_the_past, updates

RETENTION = 60.0
LIMIT = 1.5


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.s3)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Hummock, ManualClock]]:
    url = (tmp_path / "s").as_uri() if request.param == "directory" else request.getfixturevalue("s3_url")
    clock = ManualClock()
    options = {"cache_dir": tmp_path / "c", "clock": clock, "retention_seconds": RETENTION}
    with Hummock.open(url, object_store=TimedObjectStore(url, clock), **options) as store:  # type: ignore[arg-type]
        yield store, clock


@pytest.mark.parametrize(
    ("epochs", "size"),
    [pytest.param(60, 4000, id="short"), pytest.param(500, 10_000, id="long", marks=pytest.mark.crash)],
)
def test_the_bucket_stays_near_its_live_bytes(
    kept: tuple[Hummock, ManualClock], epochs: int, size: int
) -> None:
    store, clock = kept
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    space = updates(store, table, clock, epochs, size, every=20)
    print(
        f"{epochs} epochs: {space.stored} bytes stored, {space.live} live: {space.ratio:.2f}; {space.most_runs} runs at most"
    )
    assert space.ratio <= LIMIT


@pytest.mark.parametrize(
    ("epochs", "reads"),
    [pytest.param(40, 10, id="short"), pytest.param(300, 50, id="long", marks=pytest.mark.crash)],
)
def test_the_retained_past_reads_as_it_did_when_it_was_new(
    kept: tuple[Hummock, ManualClock], tmp_path: Path, epochs: int, reads: int
) -> None:
    store, clock = kept
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    done = read_the_past(store, table, clock, epochs, 1000, reads, lambda epoch: content(store, "t", epoch))
    assert done == reads


def test_objects_that_tables_share_are_not_kept_for_what_few_of_them_need(
    kept: tuple[Hummock, ManualClock],
) -> None:
    store, clock = kept
    busy = store.create_table("busy", SCHEMA, ["id"], ["id"])
    quiet = [store.create_table(f"quiet{number}", SCHEMA, ["id"], ["id"]) for number in range(20)]
    for step, table in enumerate(quiet):
        clock.sleep(EPOCH_SECONDS)
        with store.reader.bundle_writes():
            ssts = {
                "busy": write_some(store, busy, 1000, step),
                table.name: write_some(store, table, 5, step),
            }
        store.commit(Commit(writes=ssts))
        if step % 5 == 4:
            keep_house(store, clock)
    before = [content(store, table) for table in (busy, *quiet)]
    for _ in range(
        4
    ):  # past the retention, and the time for which what was replaced is kept; what is reclaimed goes then, too
        clock.sleep(3600.0)
        keep_house(store, clock)
    stored = sum(info.size for info in store.objects.list("sst/"))
    live = sum(sst.length for table in store.version.tables.values() for sst in table.live_ssts)
    assert stored <= LIMIT * live
    assert [content(store, table) for table in (busy, *quiet)] == before


def write_some(store: Hummock, table: Table, count: int, step: int) -> tuple[SstInfo, ...]:
    values = rows({number: f"{step}-{number}" for number in range(count)})
    operations = pa.array([0] * count, pa.uint8())
    return tuple(store.reader.write_run(table, values.append_column("_op", operations)))
