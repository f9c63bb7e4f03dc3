"""Rows of a table, or values in them, in the order of their hashes, some at a time: in an order that nobody has chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.hummock import TableVersion
from engine.hummock.reads.merge import HASHES, HIGHEST, LOWEST, HashRange
from engine.hummock.rows.key_numbers import deduplicate
from engine.hummock.rows.ordering import normalize_key, one_chunk
from engine.hummock.rows.row_hash import xxhash64
from engine.operators.arrow.map_in_arrow import map_in_arrow
from engine.runtime.answers.narrow_evaluation import NarrowRows
from engine.runtime.answers.tables_read import StoreTables, as_plain


def read_next(
    tables: StoreTables, name: str, columns: Sequence[str], start: int, count: int
) -> tuple[pa.Table, int | None]:
    """Return the values in some columns of about so many next rows of a table, and the hash behind them, None at the end.

    Where these are its key, the order is that of the rows' own hashes, so that only these rows are read. Else it is that of the
    hashes of the values: each value comes once in a pass, however many rows have it.
    """
    table = tables.version.tables[name]
    if not is_key(table, columns):
        return read_next_values(tables, name, columns, start, count)
    low, width = start, max(1, HASHES * count // max(table.row_count, 1))
    while True:
        high = min(low + width - 1, HIGHEST)
        rows = _read_rows(tables, name, columns, (low, high))
        if high == HIGHEST:
            return rows, None
        if rows.num_rows:
            return rows, high + 1
        low, width = high + 1, width * 2


def read_next_values(
    tables: StoreTables, name: str, columns: Sequence[str], start: int, count: int
) -> tuple[pa.Table, int | None]:
    """Return so many next values in the order of their hashes, each once, and the hash behind them; all rows are read once."""
    table = tables.version.tables[name]
    schema = _select_schema(table, columns)
    found, high, size = [schema.empty_table()], HIGHEST, 0
    for batch in tables.store.reader.scan(table, tables.epochs[name], columns=list(columns)):
        rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        rows = deduplicate(KeptHashes(schema, (start, high)).keep(rows))
        found, size = [*found, rows], size + rows.num_rows
        if size > 4 * count:
            values, high = _keep_lowest(found, high, count)
            found, size = [values], 0
    values, high = _keep_lowest(found, high, count)
    return values, None if high == HIGHEST else high + 1


def _keep_lowest(found: Sequence[pa.Table], high: int, count: int) -> tuple[pa.Table, int]:
    """Return so many values of the lowest hashes, each once, and the highest hash of which all values are there."""
    values = deduplicate(pa.concat_tables(found))
    hashes = _hash_values(values)
    if len(hashes) > count:
        high = min(high, int(np.partition(hashes, count - 1)[count - 1]))
    return values.filter(pa.array(hashes <= high)), high


def _hash_values(rows: pa.Table) -> np.ndarray:
    return xxhash64([normalize_key(one_chunk(as_plain(column))) for column in rows.columns])


def is_key(table: TableVersion, columns: Collection[str]) -> bool:
    """Tell whether each row of a table has values of its own in some columns, which say what its hash is."""
    distribution = table.distribution_key
    return bool(distribution) and set(columns) >= {*table.primary_key, *distribution}


def _read_rows(tables: StoreTables, name: str, columns: Sequence[str], within: HashRange) -> pa.Table:
    """Return the rows whose hashes are in a range."""
    table = tables.version.tables[name]
    batches = tables.store.reader.scan(table, tables.epochs[name], columns=list(columns), hash_range=within)
    return pa.Table.from_batches(batches, _select_schema(table, columns))


@dataclass(frozen=True)
class KeptHashes:
    """Keeps the rows of which the values have a hash in a range, each column as one of the type that the schema says."""

    schema: pa.Schema
    within: HashRange

    def keep(self, rows: pa.Table) -> pa.Table:
        """Return those of some rows."""
        low, high = self.within
        hashes = _hash_values(rows.select(self.schema.names).cast(self.schema))
        return rows.filter(pa.array((hashes >= low) & (hashes <= high)))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self.keep(pa.Table.from_batches([batch])).to_batches()


def keep_hashed(rows: NarrowRows, schema: pa.Schema, within: HashRange) -> pa.Table:
    """Return the computed rows whose values in the columns of a schema have hashes in a range."""
    kept = KeptHashes(schema, within)
    if rows.rows is not None:
        return kept.keep(rows.rows)
    frame = rows.frame
    return map_in_arrow(frame, kept, frame.schema).toArrow()


def _select_schema(table: TableVersion, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([table.schema.field(column) for column in columns])


def measure_progress(start: int | None) -> float:
    """Return which share of all hashes lies below one, all of them for None."""
    return 1.0 if start is None else (start - LOWEST) / HASHES
