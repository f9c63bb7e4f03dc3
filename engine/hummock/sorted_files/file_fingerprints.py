"""The fingerprints of files: of the rows that one puts, and of those that it replaces, which move that of its table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from engine.hummock.rows.fingerprint import compute_fingerprint, encode_fingerprint
from engine.hummock.rows.ordering import normalize_key, one_chunk
from engine.hummock.version import OP, SstInfo, Table

NOTHING = encode_fingerprint(0)


def with_fingerprint(table: Table, sst: SstInfo, rows: pa.Table) -> SstInfo:
    """Return a file with the fingerprint of the rows that it puts, if its table has one."""
    if not table.has_fingerprint:
        return sst
    value = encode_fingerprint(compute_put_fingerprint(table, rows))
    return msgspec.structs.replace(sst, fingerprint=table.form + value)


def with_replaced(table: Table, ssts: Sequence[SstInfo], old: pa.Table) -> list[SstInfo]:
    """Return files that were written together with the fingerprint of the `old` rows that they replace, which the first names."""
    if not table.has_fingerprint:
        return list(ssts)
    replaced = encode_fingerprint(compute_row_fingerprint(table, old)) if old.num_rows else NOTHING
    return [
        msgspec.structs.replace(sst, replaced=replaced if place == 0 else NOTHING)
        for place, sst in enumerate(ssts)
    ]


def compute_row_fingerprint(table: Table, rows: pa.Table | pa.RecordBatch) -> int:
    """Return the fingerprint of rows of a table, their keys as they are stored; raises InvalidRow for columns that it lacks."""
    names = table.schema.names
    columns = [
        normalize_key(rows.column(name)) if name in table.primary_key else rows.column(name) for name in names
    ]
    return compute_fingerprint(pa.Table.from_arrays(columns, names=names), names)


def compute_put_fingerprint(table: Table, rows: pa.Table) -> int:
    """Return the fingerprint of those rows of a file that are no deletions."""
    deleted = one_chunk(rows.column(OP)).to_numpy() != 0
    puts = rows.filter(pa.array(~deleted)) if np.any(deleted) else rows
    return compute_fingerprint(puts, table.schema.names)
