"""What is changed of the process for some calls: made by the first that comes in, undone by the last that leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ProcessChange:
    """A change of what all threads share, such as another library's attribute: it is there while anybody is inside.

    `make` makes it and returns what undoes it.
    """

    def __init__(self, make: Callable[[], Callable[[], None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0
        self._undo: Callable[[], None] | None = None

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Let the change be there for the `with` block."""
        with self._lock:
            if self._inside == 0:
                self._undo = self._make()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._undo is not None:
                    self._undo()
                    self._undo = None
