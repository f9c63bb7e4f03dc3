"""What a consumer of changes has: a bag that each change must fit, compared with what SELECT gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from engine.arrow import as_rows
from engine.session import Session
from tests.session_rows import rows

Row = tuple[Any, ...]


def describe(row: Row) -> str:
    """Return a row as it is compared: to the store -0.0 is 0.0, so a change between them is none."""
    return repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row))


class Bag:
    """The rows of a consumer, each as often as it has come and not gone, as `describe` gives it."""

    def __init__(self, held: Iterable[Row] = ()) -> None:
        self.rows = Counter(map(describe, held))

    def apply(self, changes: pa.Table) -> None:
        """Take changes: what goes must be there, and each row before an update is followed by the new one."""
        told = as_rows(changes)
        for at, change in enumerate(told):
            operation = change.pop("op")
            row = describe(tuple(change.values()))
            if operation in ("Insert", "UpdateInsert"):
                self.rows[row] += 1
            else:
                assert self.rows[row] > 0, f"{row} goes and is not there"
                self.rows[row] -= 1
                if operation == "UpdateDelete":
                    assert told[at + 1]["op"] == "UpdateInsert"
        self.rows += Counter()  # without those that are gone

    def listed(self) -> list[str]:
        """Return the rows as `shown` gives them."""
        return sorted(self.rows.elements())


def shown(session: Session, name: str, epoch: int | None = None) -> list[str]:
    """Return the rows of a table or view at an epoch, None: now."""
    at = "" if epoch is None else f" FOR SYSTEM_TIME AS OF {epoch}"
    return sorted(map(describe, rows(session, f"SELECT * FROM {name}{at}")))


def told(session: Session, name: str, **options: Any) -> list[tuple[str, Row]]:
    """Return what a subscriber gets now, as operations and rows."""
    found = []
    for item in session.subscribe(name, **options):
        for change in as_rows(item.changes):
            operation = change.pop("op")
            found.append((operation, tuple(change.values())))
    return found
