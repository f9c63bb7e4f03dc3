"""Requests are sent again until the deadline, creations never."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from engine.errors import StorageFull, Unavailable
from engine.hummock.metrics import Counters
from engine.hummock.object_store.local import LocalObjectStore
from engine.hummock.object_store.retrying import RETRY_SECONDS, RetryingObjectStore, wrap_with_retries
from engine.testing.faulty import FaultPlan, FaultyObjectStore, RequestFault
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore


def retrying(
    rate: float, *faults: RequestFault, seed: int = 0
) -> tuple[RetryingObjectStore, Counters, ManualClock]:
    clock, counters = ManualClock(seed), Counters()
    store = FaultyObjectStore(MemoryObjectStore(clock), FaultPlan(seed, rate, kinds=frozenset(faults)), clock)
    return wrap_with_retries(store, counters, clock), counters, clock  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(5))
def test_what_fails_now_and_then_succeeds_in_the_end(seed: int) -> None:
    store, counters, _ = retrying(0.3, *RequestFault, seed=seed)
    for step in range(20):
        store.put(f"a/{step:02d}", bytes([step]))
    assert [store.get(f"a/{step:02d}") for step in range(20)] == [bytes([step]) for step in range(20)]
    assert counters.values()["retries"] > 0


def test_a_store_that_never_answers_is_unavailable_after_the_deadline() -> None:
    store, _, clock = retrying(1.0, RequestFault.busy)
    start = clock()
    with pytest.raises(Unavailable, match="gave up after"):
        store.get("a")
    assert RETRY_SECONDS <= clock() - start < 2 * RETRY_SECONDS


def test_a_creation_is_never_repeated() -> None:
    store, counters, _ = retrying(1.0, RequestFault.before)
    assert store.put_if_absent("m", b"x") is None
    assert counters.values()["requests.put_if_absent"] == 1


class BreaksAfterTwo(MemoryObjectStore):
    """A listing that breaks off once behind its second entry."""

    broken = False

    def list(self, prefix, start_after=""):  # type: ignore[no-untyped-def]
        for at, info in enumerate(super().list(prefix, start_after)):
            if at == 2 and not self.broken:
                self.broken = True
                raise Unavailable("the connection broke")
            yield info


def test_a_listing_that_breaks_off_goes_on_behind_its_last_entry() -> None:
    inner = BreaksAfterTwo()
    for name in "abcde":
        inner.put(name, b"")
    assert [info.path for info in wrap_with_retries(inner, Counters(), ManualClock()).list("")] == list(
        "abcde"
    )


def test_a_full_disk_is_told_with_the_file_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = Counters()
    store = wrap_with_retries(LocalObjectStore(tmp_path), counters, ManualClock())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        StorageFull, match=r"sst/a cannot be written: No space left.* MB free of .*Make room there"
    ):
        store.put("sst/a", b"x")
    assert counters.values()["requests.put"] == 1


def test_a_silence_is_warned_of_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    until = clock.monotonic() + 20

    class Silent(MemoryObjectStore):
        def get(self, path: str) -> bytes | None:
            if clock.monotonic() < until:
                raise Unavailable("no answer")
            return super().get(path)

    store = wrap_with_retries(Silent(), Counters(), clock)
    with caplog.at_level("WARNING"):
        for _ in range(2):
            assert store.get("a") is None
    assert caplog.messages == ["no answer; it is asked again for 60 s", "the store answers again"]
