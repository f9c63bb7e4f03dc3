"""The rule of retries: what others were faster with is worked out anew, for as long as the policy says, and no longer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import Conflict, GroundLost, SourceError, UnknownTable, WriteStopped
from engine.hummock import Commit, Hummock
from engine.hummock.manifests.preconditions import require
from engine.hummock.transact import RetryPolicy, commit_once, commit_with_retry
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore


class Moved(Conflict):
    pass


@pytest.fixture
def store() -> Hummock:
    return Hummock.open("memory:", object_store=MemoryObjectStore(), clock=ManualClock(1_000_000.0))


def _fail(times: int, error: Callable[[], Exception]) -> tuple[Callable[[], int], list[int]]:
    """Return an attempt that raises so many times before it succeeds, and the list that it counts its calls in."""
    calls: list[int] = []

    def attempt() -> int:
        calls.append(len(calls))
        if len(calls) <= times:
            raise error()
        return len(calls)

    return attempt, calls


def test_an_attempt_is_repeated_over_the_store_as_it_is_by_then(store: Hummock) -> None:
    def count_up() -> int:
        seen = store.version.catalog.get("count")
        if seen is None:  # another writer is faster than the first attempt
            store.commit(Commit(catalog={"count": "41"}))
        same = require(lambda version: version.catalog.get("count") == seen, "counted by another")
        text = str(int(seen or "0") + 1)
        return int(store.commit(Commit(catalog={"count": text}, precondition=same)).catalog["count"])

    assert commit_with_retry(store, count_up, RetryPolicy(2)) == 42


def test_attempts_and_time_both_have_to_be_over(store: Hummock) -> None:
    lost, calls = _fail(10**6, lambda: Conflict("faster"))
    with pytest.raises(Conflict, match="faster"):
        commit_with_retry(store, lost, RetryPolicy(5))
    assert len(calls) == 5
    lost, calls = _fail(10**6, lambda: Conflict("faster"))
    began = store.clock.monotonic()
    with pytest.raises(SourceError, match="lost"):
        commit_with_retry(
            store, lost, RetryPolicy(2, seconds=1.0), build_error=lambda n: SourceError(f"lost {n} times")
        )
    assert store.clock.monotonic() - began >= 1.0 and len(calls) > 2


def test_a_conflict_of_another_kind_and_a_lost_ground_are_not_repeated(store: Hummock) -> None:
    for error, policy in (
        (Conflict("other"), RetryPolicy(5, among=Moved)),
        (GroundLost("begin anew"), RetryPolicy(5)),
    ):
        lost, calls = _fail(1, lambda error=error: error)  # type: ignore[misc]
        with pytest.raises(type(error)):
            commit_with_retry(store, lost, policy)
        assert len(calls) == 1
    lost, calls = _fail(3, lambda: Moved("on"))
    prepared: list[int] = []
    policy = RetryPolicy(5, among=Moved)
    assert commit_with_retry(store, lost, policy, prepare=lambda: prepared.append(len(calls))) == 4
    assert prepared == [1, 2, 3]


def test_a_stopped_table_is_merged_as_often_as_the_policy_says(
    store: Hummock, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[str] = []
    monkeypatch.setattr(store, "compact_l0", merged.append)
    stopped, _ = _fail(2, lambda: WriteStopped("t", "too many runs"))
    assert commit_with_retry(store, stopped, RetryPolicy(1, merges=2)) == 3 and merged == ["t", "t"]
    stopped, calls = _fail(1, lambda: WriteStopped("t", "too many runs"))
    with pytest.raises(WriteStopped):
        commit_with_retry(store, stopped, RetryPolicy(9))
    assert len(calls) == 1


def test_commit_once_tells_by_nothing_that_another_was_faster(store: Hummock) -> None:
    assert commit_once(store, lambda: 1) == 1
    assert commit_once(store, _fail(1, lambda: Conflict("faster"))[0]) is None
    assert commit_once(store, _fail(1, lambda: UnknownTable("gone"))[0], UnknownTable) is None
    with pytest.raises(UnknownTable):
        commit_once(store, _fail(1, lambda: UnknownTable("gone"))[0])
    with pytest.raises(GroundLost):
        commit_once(store, _fail(1, lambda: GroundLost("anew"))[0])
    assert commit_once(store, _fail(1, lambda: GroundLost("anew"))[0], GroundLost) is None
