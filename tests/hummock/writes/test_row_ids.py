"""Ids of rows without a key: no two writers give the same one, whatever their clocks and their chance."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from engine.errors import StorageError
from engine.hummock import Hummock
from engine.hummock.writes import row_ids


def test_two_handles_never_give_the_same_id(open_store: Callable[..., Hummock]) -> None:
    one, two = open_store(), open_store()
    given = np.concatenate([store.row_ids(100) for _ in range(5) for store in (one, two)])
    assert len(set(given.tolist())) == 1000
    assert given.dtype == np.int64


def test_ids_ascend_and_cost_one_commit_a_process(store: Hummock) -> None:
    first = store.row_ids(3)
    number = store.version.number
    more = store.row_ids(1000)
    assert (np.diff(np.concatenate([first, more])) == 1).all()
    assert store.version.number == number


def test_a_block_that_is_used_up_is_followed_by_another(
    store: Hummock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_ids, "BLOCK_BITS", 2)
    given = store.row_ids(11)
    assert len(set(given.tolist())) == 11 and (np.diff(given) > 0).all()


def test_ids_never_meet_those_that_were_made_of_the_time(store: Hummock) -> None:
    assert store.row_ids(1)[0] < 0


def test_threads_share_a_block(store: Hummock) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: [found.extend(store.row_ids(7).tolist()) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 4 * 50 * 7


def test_a_forked_process_takes_a_block_of_its_own(store: Hummock, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = store.row_ids(1)[0]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    theirs = store.row_ids(1)[0]
    assert theirs - mine >= 1 << 31


def test_when_all_blocks_are_given_it_is_told(store: Hummock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ids, "MOST_BLOCKS", 2)
    ids = row_ids.RowIds(lambda writer: 2)
    with pytest.raises(StorageError, match="PRIMARY KEY"):
        ids.allocate(1)
