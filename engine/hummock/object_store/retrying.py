"""An object store that sends a request again when the store did not answer: exponential back-off, jitter, a deadline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.errors import Unavailable
from engine.hummock.back_off import BackOff
from engine.hummock.clock import Clock, system_clock
from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectInfo, ObjectStore
from engine.hummock.object_store.counting import CountingObjectStore
from engine.hummock.object_store.delayed import delay_requests

_LOG = logging.getLogger(__name__)
RETRY_SECONDS = 60.0
REPORT_AFTER_SECONDS = 3.0
"""A request that has been repeated for so long is worth a word; most outages are shorter."""
PAUSES = BackOff(0.05, 5.0)

T = TypeVar("T")


class RetryingObjectStore:
    """Repeats what may be repeated: an object's bytes never change under its path, so all requests but creations are
    the same the second time.

    A creation whose answer is lost returns None and is never repeated here: the caller reads back whose it is.
    Raises Unavailable when the deadline has passed.
    """

    def __init__(
        self, inner: ObjectStore, clock: Clock, counters: Counters, seconds: float = RETRY_SECONDS
    ) -> None:
        self.inner, self._clock, self._counters, self._seconds = inner, clock, counters, seconds
        self._outage = Outage()

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object; None if the answer was lost."""
        try:
            return self.inner.put_if_absent(path, data)
        except Unavailable:
            return None

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object; the same bytes each time."""
        self._retry(lambda: self.inner.put(path, data))

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        return self._retry(lambda: self.inner.get(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        return self._retry(lambda: self.inner.get_range(path, offset, length))

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a prefix; after a failure it goes on behind the last one."""
        after = start_after
        entries = iter(self.inner.list(prefix, after))

        def read_next() -> ObjectInfo | None:
            nonlocal entries
            try:
                return next(entries, None)
            except Unavailable:
                entries = iter(self.inner.list(prefix, after))
                raise

        while (info := self._retry(read_next)) is not None:
            after = info.path
            yield info

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those that are gone already are no error."""
        doomed = tuple(paths)
        self._retry(lambda: self.inner.delete(doomed))

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        return self._retry(lambda: self.inner.head(path))

    def local_path(self, path: str) -> Path | None:
        """Return where an object can be mapped."""
        return self.inner.local_path(path)

    def now(self) -> float | None:
        """Return the store's own time, or None."""
        return self.inner.now()

    def _retry(self, request: Callable[[], T]) -> T:
        return retry_until_answered(request, self._clock, self._counters, self._seconds, self._outage)


@dataclass
class Outage:
    """Whether it has reported that a store does not answer."""

    reported: bool = False


def retry_until_answered(
    request: Callable[[], T],
    clock: Clock = system_clock,
    counters: Counters | None = None,
    seconds: float = RETRY_SECONDS,
    outage: Outage | None = None,
    on: type[Unavailable] = Unavailable,
) -> T:
    """Return what a request returns, repeated for so long while it raises Unavailable, or this kind of it."""
    outage = outage or Outage()
    started, sent = clock.monotonic(), 0
    while True:
        try:
            answer = request()
            if outage.reported:
                outage.reported = False
                _LOG.warning("the store answers again")
            return answer
        except on as error:
            sent += 1
            lasted = clock.monotonic() - started
            if lasted > seconds:
                raise Unavailable(f"{error}; gave up after {sent} requests in {seconds:.0f} s") from error
            if lasted > REPORT_AFTER_SECONDS and not outage.reported:
                outage.reported = True
                _LOG.warning("%s; it is asked again for %.0f s", error, seconds)
        if counters is not None:
            counters.add("retries")
        clock.sleep(clock.jitter(PAUSES.find_wait(sent)))


def wrap_with_retries(
    inner: ObjectStore, counters: Counters, clock: Clock = system_clock, seconds: float = RETRY_SECONDS
) -> ObjectStore:
    """Return `inner` with every request counted, and repeated for so long where the store does not answer."""
    return RetryingObjectStore(CountingObjectStore(delay_requests(inner), counters), clock, counters, seconds)
