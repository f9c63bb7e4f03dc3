"""The rows of a table in the order of their hashes, some at a time: each once in a pass, in an order that nobody has chosen."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from engine.hummock.reads.merge import HASHES, HIGHEST, LOWEST
from engine.runtime.answers.tables_read import StoreTables

CROWDED = 20
"""A range with so many times the rows that were asked for is one of few hashes: some of its rows are chosen then."""


def read_next_rows(
    tables: StoreTables, name: str, columns: Sequence[str], start: int, count: int
) -> tuple[pa.Table, int | None]:
    """Return about so many next rows of a table from a hash on, and the hash behind them, None at the end.

    Where all rows have one hash, as those of a table without a distribution key, some of them are chosen.
    """
    table = tables.version.tables[name]
    width = max(1, HASHES * count // max(table.row_count, 1))
    low, schema = start, pa.schema([table.schema.field(c) for c in columns])
    found = schema.empty_table()
    while True:
        high = min(low + width - 1, HIGHEST)
        batches = tables.store.reader.scan(
            table, tables.epochs[name], columns=list(columns), hash_range=(low, high)
        )
        rows = pa.Table.from_batches(batches, schema)
        if rows.num_rows > CROWDED * count:
            rows = rows.take(sorted(random.sample(range(rows.num_rows), count)))
        found = pa.concat_tables([found, rows])
        if high == HIGHEST:
            return found, None
        if found.num_rows >= count // 2:
            return found, high + 1
        low, width = high + 1, width * 2


def measure_progress(start: int | None) -> float:
    """Return which share of all hashes lies below one, all of them for None."""
    return 1.0 if start is None else (start - LOWEST) / HASHES
