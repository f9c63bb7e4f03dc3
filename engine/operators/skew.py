"""Keys of which one task gets far more rows than a task is meant to have: they are reported, since more executors do not help."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_rows
from engine.hummock import Table
from engine.hummock.rows.row_hash import xxhash64
from engine.operators.context import ROWS_PER_PARTITION

SKEWED_ROWS = 2 * ROWS_PER_PARTITION
"""Rows of one key that are more than two tasks are meant to have."""
_MOST_CHARACTERS = 100
"""Characters of a key that are shown."""


class WriteLoad(msgspec.Struct, frozen=True):
    """How many rows came to a task and, if one key has very many of them, how many and which."""

    rows: int = 0
    key_rows: int = 0
    key: str = ""


NO_LOAD = WriteLoad()


def measure_load(rows: pa.Table, table: Table) -> WriteLoad:
    """Return what came to a task that writes a table."""
    if rows.num_rows < SKEWED_ROWS:
        return WriteLoad(rows.num_rows)
    by = table.distribution_key or table.primary_key
    hashes = pa.table({"hash": pa.array(xxhash64([rows.column(name) for name in by]))})
    counted = hashes.group_by("hash").aggregate([("hash", "count")])
    most = pc.max(counted.column("hash_count")).as_py()
    if most < SKEWED_ROWS:
        return WriteLoad(rows.num_rows)
    heaviest = counted.column("hash").filter(pc.equal(counted.column("hash_count"), pa.scalar(most)))[0]
    (row,) = as_rows(rows.select(list(by)).filter(pc.equal(hashes.column("hash"), heaviest)).slice(0, 1))
    key = ", ".join(f"{name} = {value!r}" for name, value in row.items())
    return WriteLoad(
        rows.num_rows, most, key if len(key) <= _MOST_CHARACTERS else f"{key[:_MOST_CHARACTERS]}…"
    )


def describe_skew(table: str, loads: Iterable[WriteLoad]) -> str | None:
    """Return in words which key has so many of a change's rows that one task works for it alone, None if there is none."""
    loads = list(loads)
    heaviest = max(loads, key=lambda load: load.key_rows, default=NO_LOAD)
    if not heaviest.key_rows:
        return None
    rows = sum(load.rows for load in loads)
    return (
        f"{table}: {heaviest.key_rows:,} of {rows:,} rows have {heaviest.key}, and one task writes them, however many "
        "executors there are; what is joined by, or kept for, this value is better filtered, or split by one more column"
    )
