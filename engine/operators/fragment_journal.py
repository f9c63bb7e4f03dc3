"""Which fragments of a call its tasks have begun with and how they ended: a file of one machine that all tasks append to.

Method: list scheduling (Graham 1969) while the tasks run. A task that is free takes the first fragment in the call's order of
which all inputs are there; who gets it is decided under a lock of the file. What others have written is staged before that.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

import msgspec

from engine.hummock import SstInfo

WAIT_SECONDS = 0.0005
"""How often a task that has nothing to do looks whether another one has ended a fragment."""
_LENGTH = 4


class State(IntEnum):
    """How far a fragment is: begun, without a change, left out of the action, or with files that it has written."""

    BEGUN = 0
    UNCHANGED = 1
    LEFT_OUT = 2
    WRITTEN = 3


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """That the fragment of a number in the call's order has come to a state, with the files of `WRITTEN`."""

    number: int
    state: State
    ssts: tuple[SstInfo, ...] = ()


_decode: Callable[[bytes], JournalEntry] = msgspec.msgpack.Decoder(JournalEntry).decode


class FragmentJournal:
    """The journal at `path` for fragments of which each needs those with the numbers in `inputs`."""

    def __init__(self, path: str, inputs: Sequence[frozenset[int]]) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND)
        self._inputs = inputs
        self._waiting = dict.fromkeys(range(len(inputs)))
        self._ended: set[int] = set()
        self._own: set[int] = set()
        self._read = 0

    def __enter__(self) -> FragmentJournal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def take(self, stage: Callable[[JournalEntry], None], has_time: Callable[[], bool]) -> Iterator[int]:
        """Yield the numbers of the fragments that this task has to run, each when its inputs are there.

        How fragments of other tasks ended goes to `stage` before. It ends when all are taken, or when there is no time left.
        """
        while has_time():
            with self._lock():
                ended = self._read_entries()
                ready = (one for one in self._waiting if self._inputs[one] <= self._ended)
                if (number := next(ready, None)) is not None:
                    self._own.add(number)
                    self._append(JournalEntry(number, State.BEGUN))
            for entry in ended:
                stage(entry)
            if number is not None:
                yield number
            elif not self._waiting:
                return
            else:
                self._wait(has_time)

    def take_rest(self) -> Sequence[int]:
        """Take the fragments that no task has taken yet, for a task whose time is over: they are left out."""
        with self._lock():
            self._read_entries()
            rest = tuple(self._waiting)
            for number in rest:
                self._append(JournalEntry(number, State.LEFT_OUT))
        return rest

    def end(self, number: int, state: State, ssts: tuple[SstInfo, ...] = ()) -> None:
        """Record how a fragment has ended that this task has taken."""
        with self._lock():
            self._append(JournalEntry(number, state, ssts))

    def _read_entries(self) -> list[JournalEntry]:
        """Read on, and return how the fragments of other tasks ended."""
        found = os.pread(self._file, os.fstat(self._file).st_size - self._read, self._read)
        self._read += len(found)
        entries, at = [], 0
        while at < len(found):
            begin = at + _LENGTH
            at = begin + int.from_bytes(found[at:begin], "little")
            entry = _decode(found[begin:at])
            self._waiting.pop(entry.number, None)
            if entry.state != State.BEGUN:
                self._ended.add(entry.number)
                if entry.number not in self._own:
                    entries.append(entry)
        return entries

    def _wait(self, has_time: Callable[[], bool]) -> None:
        """Wait until there are entries that were not read."""
        while os.fstat(self._file).st_size == self._read and has_time():
            time.sleep(WAIT_SECONDS)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _append(self, entry: JournalEntry) -> None:
        """Append an entry; raises OSError, so that the task fails, where not all of it can be written."""
        encoded = msgspec.msgpack.encode(entry)
        framed = len(encoded).to_bytes(_LENGTH, "little") + encoded
        if os.write(self._file, framed) != len(framed):
            raise OSError(errno.ENOSPC, "the journal of a shared action could not be written as a whole")
