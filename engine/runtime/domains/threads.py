"""The threads of one run, and how they end where the run is broken off: Ctrl-C, a cancelled job, services that are ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, TypeVar

BREAK_OFF_SECONDS = 10.0
"""What stops no sooner, as it waits for a store that does not answer, ends by itself."""

T = TypeVar("T")


class RunThreads(ThreadPoolExecutor):
    """Threads that leaving the `with` block waits for; if that is interrupted no work goes on that nobody waits for.

    `stop` ends what is computed. `broken_off` is true by then: a thread begins nothing any more, and what fails in it is no
    failure of a view's.
    """

    def __init__(self, most: int, stop: Callable[[], None]) -> None:
        super().__init__(most)
        self.broken_off = False
        self._stop = stop
        self._given: list[Future[Any]] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Let a thread call a function."""
        given = super().submit(fn, *args, **kwargs)
        self._given.append(given)
        return given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None or isinstance(error, Exception):
                self.shutdown(wait=True)
        except BaseException:
            self._break_off()
            raise
        if error is not None and not isinstance(error, Exception):
            self._break_off()

    def _break_off(self) -> None:
        self.broken_off = True
        self.shutdown(wait=False)
        self._stop()
        wait(self._given, BREAK_OFF_SECONDS)
