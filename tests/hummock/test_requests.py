"""What the engine asks of the object store: few requests, whatever the length of the history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import CorruptObject
from engine.hummock import Commit, Hummock, Put, Version
from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.manifest import (
    encode_deltas,
    encode_manifest,
    manifest_path,
    parse_manifest_number,
)
from engine.hummock.manifests.manifest_reader import HINT_EVERY, HINT_PATH
from engine.hummock.object_store import ObjectInfo
from engine.hummock.object_store.local import LocalObjectStore
from tests.hummock.conftest import SCHEMA, MovableClock, rows
from tests.hummock.counting import CountingStore


class LongChain:
    """A store of `newest` commits that makes each manifest when it is read; further ones can be created."""

    def __init__(self, newest: int, *, hint: int | None = None, tails: bool = True) -> None:
        self.newest, self.tails = newest, tails
        self.written: dict[str, bytes] = {} if hint is None else {HINT_PATH: str(hint).encode()}

    def get(self, path: str) -> bytes | None:
        if path in self.written:
            return self.written[path]
        number = parse_manifest_number(path)
        if number is None or not 1 <= number <= self.newest:
            return None
        tail = range(number - (number - 1) % 64, number) if self.tails else ()
        version = Version(number, number << 16, catalog={"step": str(number)})
        return encode_manifest([delta_of(number)], version, [encode_deltas([delta_of(n)]) for n in tail])

    def head(self, path: str) -> ObjectInfo | None:
        number = parse_manifest_number(path)
        return ObjectInfo(path, 1, 0.0) if number is not None and 1 <= number <= self.newest else None

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        for number in range((parse_manifest_number(start_after) or 0) + 1, self.newest + 1):
            yield ObjectInfo(manifest_path(number), 1, 0.0)

    def put(self, path: str, data: bytes) -> None:
        self.written[path] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        assert self.get(path) is None
        self.written[path] = data
        self.newest += 1
        return True


def delta_of(number: int) -> Delta:
    return Delta(number, number << 16, f"c{number}", catalog={"step": str(number)})


def opened(chain: object, tmp_path: Path) -> tuple[Hummock, CountingStore]:
    counted = CountingStore(chain)  # type: ignore[arg-type]
    return Hummock.open("file:///virtual", cache_dir=tmp_path, object_store=counted), counted


@pytest.mark.parametrize("newest", [100_000, 99_999, 99_968, 100_063])
@pytest.mark.parametrize("tails", [True, False])
def test_a_store_of_a_hundred_thousand_commits_opens_in_a_few_requests(
    newest: int, tails: bool, tmp_path: Path
) -> None:
    chain = LongChain(newest, hint=newest - newest % HINT_EVERY, tails=tails)
    store, counted = opened(chain, tmp_path)
    assert (store.version.number, store.version.catalog) == (newest, {"step": str(newest)})
    assert counted.counts["list"] == 1
    if tails:
        assert counted.counts.total() <= 6


@pytest.mark.parametrize("hint", [None, 640, 10 * HINT_EVERY])
def test_without_a_fresh_hint_the_newest_is_found_by_growing_steps(hint: int | None, tmp_path: Path) -> None:
    store, counted = opened(LongChain(100_037, hint=hint), tmp_path)
    assert store.version.number == 100_037
    assert counted.counts["list"] == 1
    assert counted.counts["head"] <= 22
    assert counted.counts.total() <= 40


def test_a_hint_beyond_the_newest_is_ignored(tmp_path: Path) -> None:
    store, _ = opened(LongChain(70, hint=6400), tmp_path)
    assert store.version.number == 70


def test_an_idle_poll_is_one_get(tmp_path: Path) -> None:
    store, counted = opened(LongChain(1000), tmp_path)
    counted.reset()
    store.refresh()
    assert counted.counts == {"get": 1}


def test_a_poll_after_a_long_silence_asks_for_the_boundary_and_lists_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, counted = opened(LongChain(1000), tmp_path)
    monkeypatch.setattr("engine.hummock.manifests.chain.UNWATCHED_SECONDS", -1.0)
    counted.reset()
    store.refresh()
    assert counted.counts == {"get": 2}


def test_a_process_that_is_far_behind_catches_up_in_few_gets(tmp_path: Path) -> None:
    chain = LongChain(1000)
    store, counted = opened(chain, tmp_path)
    for newest, most in ((1001, 2), (1003, 4), (1050, 14), (5000, 28)):
        chain.newest = newest
        counted.reset()
        store.refresh()
        assert store.version.catalog == {"step": str(newest)}
        assert set(counted.counts) == {"get"}
        assert counted.counts.total() <= most


def test_commits_leave_a_hint_now_and_then(tmp_path: Path) -> None:
    chain = LongChain(HINT_EVERY - 2)
    store, counted = opened(chain, tmp_path)
    counted.reset()
    for step in range(3):
        store.commit(Commit(catalog={"mine": str(step)}))
    assert chain.written[HINT_PATH] == str(HINT_EVERY).encode()
    assert counted.counts == {"put": 4}


def test_an_epoch_over_three_tables_is_two_puts_two_gets_at_most_and_no_list(
    tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountingStore(LocalObjectStore(tmp_path / "store"))
    store = Hummock.open("file:///counted", cache_dir=tmp_path / "cache", object_store=counted)
    for name in "abc":
        store.create_table(name, SCHEMA, ["id"], ["id"])
    for trusted in (5.0, -1.0):
        monkeypatch.setattr("engine.hummock.manifests.chain.TRUSTED_SECONDS", trusted)
        counted.reset()
        store.refresh()
        store.ingest_batch({name: Put(rows({1: name})) for name in "abc"})
        assert counted.counts["put"] == 2
        assert counted.counts["get"] <= 2
        assert set(counted.counts) <= {"put", "get"}


def test_manifests_of_two_stores_in_one_folder_are_told(tmp_path: Path) -> None:
    chain = LongChain(10)
    store, _ = opened(chain, tmp_path)
    foreign = Delta(11, 5 << 16, "other", catalog={"step": "other"})
    chain.written[manifest_path(11)] = encode_manifest([foreign], Version(11, 5 << 16))
    with pytest.raises(CorruptObject, match="does not follow"):
        store.refresh()
