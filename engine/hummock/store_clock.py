"""The time that a store's decisions go by: two clocks have to agree before anything hides, ends or is deleted.

One is the machine's; the other is the object store's, which all machines share: what S3 dates its answers with, what a
directory dates a new file with.
"""

from __future__ import annotations

import contextlib
import logging
import threading

from engine.errors import StorageError
from engine.hummock.clock import Clock
from engine.hummock.object_store import ObjectStore

AGREE_SECONDS = 2.0
"""Two clocks that differ by no more agree: answers are dated in whole seconds and take time."""
LOOK_AGAIN_SECONDS = 60.0
SET_SECONDS = 0.5
"""The machine's clock was set if it went so much farther, or less far, than a timer."""
WARN_SECONDS = 60.0

_log = logging.getLogger(__name__)


class StoreClock(Clock):
    """A machine's clock `own`, held to the time of the object store; safe for threads.

    Called, it gives the earlier of the two, in seconds since 1970: what is decided by it comes late where one of them is
    wrong, and never early. An object store that does not tell the time leaves the machine's.
    """

    def __init__(self, own: Clock, objects: ObjectStore) -> None:
        self._own, self._objects = own, objects
        self._lock = threading.Lock()
        self._seen: tuple[float, float, float] | None = None
        """Of the last look: the timer, the machine's clock, and the object store's."""
        self._warned = False

    def __call__(self) -> float:
        """Return the seconds since 1970 that both clocks have reached."""
        own, theirs = self._read_both()
        return own if theirs is None else min(own, theirs + AGREE_SECONDS)

    def stamp(self) -> float:
        """Return the seconds since 1970 to date a new file with: the object store's time, that of all machines."""
        own, theirs = self._read_both()
        return own if theirs is None or abs(own - theirs) <= AGREE_SECONDS else theirs

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return self._own.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._own.sleep(seconds)

    def jitter(self, most: float) -> float:
        """Return a random number of seconds from 0 to `most`."""
        return self._own.jitter(most)

    def _read_both(self) -> tuple[float, float | None]:
        """The machine's clock, and the object store's as it must be by now."""
        timer, own = self._own.monotonic(), self._own()
        with self._lock:
            seen = self._seen
            if seen is None or self._is_stale(seen, timer, own):
                seen = self._seen = self._read_store_time(timer, own) or seen
        if seen is None:
            return own, None
        theirs = seen[2] + max(0.0, timer - seen[0])
        self._warn_of_skew(own - theirs)
        return own, theirs

    def _is_stale(self, seen: tuple[float, float, float], timer: float, own: float) -> bool:
        passed = timer - seen[0]
        return not 0 <= passed <= LOOK_AGAIN_SECONDS or abs(own - seen[1] - passed) > SET_SECONDS

    def _read_store_time(self, timer: float, own: float) -> tuple[float, float, float] | None:
        with contextlib.suppress(StorageError, OSError):  # it is asked again at the next look
            theirs = self._objects.now()
            if theirs is not None:
                return timer, own, theirs
        return None

    def _warn_of_skew(self, ahead: float) -> None:
        if abs(ahead) > WARN_SECONDS and not self._warned:
            self._warned = True
            _log.warning(
                "the clock of this machine is %.0f s %s the object store's: set it by NTP; until then the earlier of "
                "both counts, so that rows expire and history is cut later",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )
