"""A second process of the machine that works on a store when it is told to, and may be killed at it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

from engine.errors import Conflict, UnknownTable
from engine.hummock import Hummock
from engine.hummock.clock import Clock
from engine.hummock.compaction.worker import CompactionWorker
from tests.hummock.dated import DatedObjectStore
from tests.hummock.small import small_sizes

CONTEXT = multiprocessing.get_context("spawn")


class AheadClock(Clock):
    """The machine's clock, ahead by `ahead` seconds; all of its times agree."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def __call__(self) -> float:
        return super().__call__() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def serve(pipe) -> None:  # type: ignore[no-untyped-def]
    """The process: (folder, cache, ahead, verb, arguments) in, None or the name of a refusal out."""
    with small_sizes():
        while (order := pipe.recv()) is not None:
            pipe.send(_obeyed(order))


def _obeyed(order: tuple[str, str, float, str, dict[str, Any]]) -> str | None:
    folder, cache, ahead, verb, arguments = order
    clock = AheadClock(ahead)
    objects = DatedObjectStore(Path(folder), clock)
    with Hummock.open("file://" + folder, cache_dir=cache, object_store=objects, clock=clock) as store:
        try:
            if verb == "compactor":
                CompactionWorker(store).run_once()
            else:
                getattr(store, verb)(**arguments)
        except (Conflict, UnknownTable) as error:
            return type(error).__name__
    return None


class OtherProcess:
    """Started at its first order; started anew after it was killed."""

    def __init__(self) -> None:
        self._process = None

    def order(self, folder: Path, cache: Path, ahead: float, verb: str, **arguments: object) -> None:
        """Give it something to do."""
        if self._process is None:
            self._pipe, theirs = CONTEXT.Pipe()
            self._process = CONTEXT.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send((str(folder), str(cache), ahead, verb, arguments))

    def wait(self) -> None:
        """Wait until it is done."""
        if not self._pipe.poll(120):
            raise TimeoutError("the other process does not answer")
        self._pipe.recv()

    def kill(self) -> None:
        """Kill it, at whatever it is."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
