"""How many rows the landed files leave in each table, counted from the files alone: the second proof at the end of the demo."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RowCount:
    """The rows of one table as its files give them, and as the store holds them."""

    table: str
    files: int
    landed: int
    held: int

    @property
    def is_equal(self) -> bool:
        """Whether no row was lost and none came twice."""
        return self.landed == self.held


def count_rows(table: str, folder: Path, key: Sequence[str], held: int) -> RowCount:
    """Return the count of one table whose CSV files lie in `folder`, the later of two rows with one key winning."""
    paths = sorted(folder.glob("*.csv"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    keys: set[tuple[str, ...]] = set()
    for path in paths:
        _apply(path, key, keys)
    return RowCount(table, len(paths), len(keys), held)


def _apply(path: Path, key: Sequence[str], keys: set[tuple[str, ...]]) -> None:
    """Bring `keys` to what a file leaves of them; a line that is not as long as the header is nobody's row."""
    with path.open(newline="") as file:
        lines = csv.reader(file)
        header = next(lines)
        at = [header.index(name) for name in key]
        op = header.index("_op") if "_op" in header else None
        for line in lines:
            if len(line) != len(header):
                continue
            row = tuple(line[k] for k in at)
            if op is not None and line[op] == "delete":
                keys.discard(row)
            else:
                keys.add(row)
