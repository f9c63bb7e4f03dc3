"""The files that a process has open: the least recently used go first, by number and by bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.hummock.sorted_files import file_set
from engine.hummock.sorted_files.arrow_cache import MAPPED_FROM_BYTES
from engine.hummock.sorted_files.file_set import IDLE_SECONDS, OpenFiles, RecentAnswers, SortedFile
from engine.hummock.version import HASH, OP


def make_file(rows: int) -> SortedFile:
    zeros = pa.array([0] * rows, pa.int64())
    return SortedFile.of(pa.table({HASH: zeros, OP: zeros.cast(pa.uint8())}))


def test_the_least_recently_used_file_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_set, "OPEN_FILES", 2)
    files = OpenFiles()
    for name in "ab":
        files.add(name, make_file(1))
    assert files.find("a") is not None
    files.add("c", make_file(1))
    assert ["a" in files, "b" in files, "c" in files] == [True, False, True]


def test_what_nobody_has_used_for_a_while_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    files = OpenFiles()
    for name in "abc":
        files.add(name, make_file(1))
    now[0] = IDLE_SECONDS
    assert files.find("b") is not None
    now[0] += 1
    files.add("d", make_file(1))
    assert [name for name in "abcd" if name in files] == ["b", "d"]
    now[0] += 2 * IDLE_SECONDS
    assert files.find("d") is not None  # who asks for it gets it, however late


def test_what_is_held_in_memory_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size = make_file(100).held_bytes
    monkeypatch.setattr(file_set, "HELD_BYTES", 3 * size)
    files = OpenFiles()
    for n in range(10):
        files.add(str(n), make_file(100))
    files.add("9", make_file(100))  # again: counted once
    assert [name for name in map(str, range(10)) if name in files] == ["7", "8", "9"]
    large = make_file(MAPPED_FROM_BYTES // 8)
    assert large.held_bytes == 0
    files.add("mapped", large)
    assert "7" in files and "mapped" in files
    files.clear()
    assert "mapped" not in files


def test_recent_answers_are_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_set, "RECENT_ANSWERS", 3)
    monkeypatch.setattr(file_set, "RECENT_BYTES", 100)
    answers = RecentAnswers()

    def list_kept() -> list[int]:
        return [n for n in range(10) if answers.find(n) is not None]

    for n in range(5):
        answers.add(n, f"answer {n}", 10)
    assert list_kept() == [2, 3, 4]
    answers.add(4, "again", 10)  # counted once
    answers.add(5, "large", 81)
    assert list_kept() == [4, 5] and answers.find(4) == "again"
    answers.add(6, "too large", 101)
    assert list_kept() == [4, 5]
    answers.clear()
    answers.add(7, "after", 100)
    assert list_kept() == [7]
