"""Turns at a folder of this machine: processes that commit to one local store go one after another.

Only a courtesy: what is right rests on create-if-absent alone. Without turns the losers of each race write, sync and
throw away a manifest, and who is slow can lose for long.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from engine.hummock.clock import Clock

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]  # the module is asked for before it is used

LOCK_SECONDS = 2.0
"""How long to wait for a turn; a process that was stopped in its own must not hold up the others."""


@contextlib.contextmanager
def acquire_commit_lock(folder: Path | None, clock: Clock, pause: float) -> Iterator[bool]:
    """Wait for the turn at a folder; gives whether others were before, so that there is news to read.

    Asks again after random times up to `pause` seconds, so that all who wait have the same chance, and goes on without
    a turn after TURN_SECONDS, or where there is no folder or no lock.
    """
    descriptor = _open_folder(folder)
    if descriptor is None:
        yield False
        return
    try:
        waited = False
        deadline = clock.monotonic() + LOCK_SECONDS
        while not try_lock(descriptor) and clock.monotonic() < deadline:
            waited = True
            clock.sleep(clock.jitter(pause))
        yield waited
    finally:
        os.close(descriptor)


def _open_folder(folder: Path | None) -> int | None:
    if folder is None or fcntl is None:
        return None
    try:
        return os.open(folder, os.O_RDONLY)
    except OSError:
        return None


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open folder if nobody has it, and tell whether it is taken; without locks it is."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks: go on without
        return True
    return True
