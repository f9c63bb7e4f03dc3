"""Compaction and garbage collection on schedule keep the bucket small and the retained past as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hummock import Hummock
from engine.testing.manual_clock import ManualClock
from tests.hummock.conftest import SCHEMA, content
from tests.hummock.dated import TimedObjectStore
from tests.hummock.maintenance import read_the_past, updates

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
