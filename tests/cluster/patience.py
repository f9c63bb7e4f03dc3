"""What a user of a store does that is away for a while: the same again, later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import pyarrow as pa

from engine.errors import StorageError
from engine.session import Session

ATTEMPTS = 5
T = TypeVar("T")


class Patient:
    """A session whose writes are repeated, which upserts and deletions may be; its flushes say what failed and go on."""

    def __init__(self, session: Session) -> None:
        self.session, self.failures = session, 0

    def write(self, table: str, rows: pa.Table, mode: Literal["upsert", "delete"] = "upsert") -> int:
        """Write, again if the store did not answer."""
        return self.again(lambda: self.session.write(table, rows, mode=mode))

    def flush(self) -> int:
        """Flush once and return how many views failed."""
        try:
            failed = [(view.view, view.error) for view in self.session.flush().failed]
        except StorageError as error:
            failed = [("all", error)]
        for view, error in failed:
            print(f"failed {view}: {error}".replace("\n", " ")[:600], flush=True)
        self.failures += len(failed)
        return len(failed)

    def settle(self) -> None:
        """Flush until nothing fails; raises what fails in the end."""
        for _ in range(ATTEMPTS):
            if not self.flush():
                return
        self.session.flush().raise_for_errors()

    def again(self, act: Callable[[], T]) -> T:
        """Do something until the store lets it, a few times at most."""
        for attempt in range(ATTEMPTS):
            try:
                return act()
            except StorageError as error:
                print(f"again: {type(error).__name__}: {error}".replace("\n", " ")[:300], flush=True)
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError
