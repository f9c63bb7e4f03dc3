"""Net changes as sinks take them: one row a key, with its operation and, of an update, the row before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock.reads.change_log import NetChanges
from engine.hummock.version import OP

INSERT, UPDATE, DELETE = 0, 1, 2
OPERATIONS = pa.array(["insert", "update", "delete"])
ROW_OPERATIONS = pa.array(["Insert", "UpdateDelete", "UpdateInsert", "Delete"])
"""What becomes of a row where an update is two: what it took away, and what it put there."""


@dataclass(frozen=True)
class Changes:
    """Changes in the order of (hash, key): `operations` are INSERT, UPDATE or DELETE.

    `rows` are the new rows, or what a deletion took away; `old` are the rows before, null for an insertion.
    """

    operations: np.ndarray
    rows: pa.Table
    old: pa.Table

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, of old rows as well."""
        return int(self.operations.nbytes) + self.rows.nbytes + self.old.nbytes

    @classmethod
    def from_inserts(cls, rows: pa.Table) -> Changes:
        """Return the changes of a table that begins with these rows."""
        nothing = pa.table([pa.nulls(rows.num_rows, f.type) for f in rows.schema], names=rows.column_names)
        return cls(np.zeros(rows.num_rows, np.int8), rows, nothing)

    @classmethod
    def of(cls, change: NetChanges, columns: Sequence[str]) -> Changes:
        """Return net changes seen through some columns."""
        count = change.rows.num_rows
        gone = change.rows.column(OP).to_numpy() != 0
        known = np.zeros(count, dtype=bool)
        known[change.index] = True
        place = np.full(count, -1, dtype=np.int64)
        place[change.index] = np.arange(len(change.index))
        old = change.old.select(list(columns))
        both = pa.concat_tables([change.rows.select(list(columns)), old], promote_options="permissive")
        rows = both.take(to_positions(np.where(gone, count + place, np.arange(count))))
        operations = np.where(gone, DELETE, np.where(known, UPDATE, INSERT)).astype(np.int8)
        return cls(operations, rows, old.take(to_positions(place, absent=place < 0)))

    def filter(self, mask: np.ndarray) -> Changes:
        """Return some of the changes."""
        places = to_positions(np.flatnonzero(mask))
        return Changes(self.operations[mask], self.rows.take(places), self.old.take(places))

    def pack(self) -> pa.Table:
        """Return the changes as one table, which `unpacked` reads."""
        columns = [pa.array(self.operations), *self.rows.columns, *self.old.columns]
        names = [
            "_op",
            *(f"new:{n}" for n in self.rows.column_names),
            *(f"old:{n}" for n in self.old.column_names),
        ]
        return pa.Table.from_arrays(columns, names=names)

    @classmethod
    def unpack(cls, packed: pa.Table) -> Changes:
        """Return the changes of a packed table."""
        names = [name[4:] for name in packed.column_names if name.startswith("new:")]
        new, old = (
            packed.select([f"{side}:{name}" for name in names]).rename_columns(names)
            for side in ("new", "old")
        )
        return cls(packed.column("_op").to_numpy(), new, old)

    def name_operations(self) -> pa.Array[Any]:
        """Return the operations as words."""
        return OPERATIONS.take(pa.array(self.operations))

    def split_updates(self) -> tuple[pa.Array[Any], pa.Table]:
        """Return what became of each row as a word, and the rows: an update is two, the row before and the new one."""
        count, updated = len(self), self.operations == UPDATE
        last = np.cumsum(1 + updated) - 1  # where each change's own row comes
        size = count + int(updated.sum())
        places, words = np.zeros(size, np.int64), np.zeros(size, np.int64)
        places[last] = count + np.arange(count)
        words[last] = np.where(updated, 2, np.where(self.operations == DELETE, 3, 0))
        before = last[updated] - 1
        places[before], words[before] = np.flatnonzero(updated), 1
        both = pa.concat_tables([self.old, self.rows], promote_options="permissive")
        return ROW_OPERATIONS.take(to_positions(words)), both.take(to_positions(places))


def split_rows(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of all tables in pieces of just `rows`, so that their bounds depend on nothing but the rows."""
    parts: list[pa.Table] = []
    count = 0
    for table in tables:
        parts.append(table)
        count += table.num_rows
        while count >= rows:
            whole = pa.concat_tables(parts)
            yield whole.slice(0, rows)
            parts, count = [whole.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(parts)
