"""Bounds that change from epoch to epoch: the number that one row of a table tells, as it stands at an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from engine.errors import EpochFailed
from engine.hummock import Reader, TableVersion
from engine.hummock.rows.expiry import to_int64
from engine.sql.expression.monotone_steps import apply_steps
from engine.sql.plan import Bound

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
Find = Callable[[str], TableVersion | None]


def read_bound(reader: Reader, find: Find, bounds: Iterable[Bound], epoch: int) -> int | None:
    """Return the least of some bounds at an epoch, None while one of them is not known, or is below all numbers of 64 bits.

    Raises EpochFailed for several rows.
    """
    found: list[int] = []
    for bound in bounds:
        table = find(bound.scan.table)
        number = None if table is None else _read_number(reader, table, bound.column, epoch)
        if number is None:
            return None
        found.append(apply_steps(bound.steps, number))
    least = min(found, default=None)
    return None if least is None or least < _LEAST else min(least, _GREATEST)


def _read_number(reader: Reader, table: TableVersion, column: str, epoch: int) -> int | None:
    batches = [batch for batch in reader.scan(table, epoch, columns=[column]) if batch.num_rows]
    rows = pa.Table.from_batches(batches).column(0) if batches else pa.chunked_array([], pa.int64())
    if len(rows) > 1:
        raise EpochFailed("a subquery that a column is compared with gave more than one row")
    if len(rows) == 0 or not rows[0].is_valid:
        return None
    number: int = to_int64(rows.combine_chunks())[0].as_py()
    return number
