"""Bounds that change from epoch to epoch: the number that one row of a table tells, as it stands at an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

import pyarrow as pa

from engine.arrow import as_values
from engine.errors import EpochFailed
from engine.hummock import Reader, TableVersion
from engine.hummock.rows.expiry import to_int64
from engine.sql.expression.monotone_steps import GREATEST, LEAST, Number, apply_steps
from engine.sql.plan import Bound

Find = Callable[[str], TableVersion | None]


def read_bound(reader: Reader, find: Find, bounds: Iterable[Bound], epoch: int) -> int | None:
    """Return the least of some bounds at an epoch, None while one of them is not known, or is below all numbers of 64 bits.

    One that was rounded may be the number beyond these, on either side. Raises EpochFailed for several rows.
    """
    bounds = tuple(bounds)
    found: list[int] = []
    for bound in bounds:
        table = find(bound.scan.table)
        number = None if table is None else _read_number(reader, table, bound.column, epoch)
        if number is None:
            return None
        found.append(apply_steps(bound.steps, number))
    least = min(found, default=None)
    if any(step.rounds for bound in bounds for step in bound.steps):
        return least
    return None if least is None or least < LEAST else min(least, GREATEST)


def _read_number(reader: Reader, table: TableVersion, column: str, epoch: int) -> Number | None:
    batches = [batch for batch in reader.scan(table, epoch, columns=[column]) if batch.num_rows]
    rows = pa.Table.from_batches(batches).column(0) if batches else pa.chunked_array([], pa.int64())
    if len(rows) > 1:
        raise EpochFailed("a subquery that a column is compared with gave more than one row")
    if len(rows) == 0 or not rows[0].is_valid:
        return None
    if pa.types.is_decimal(rows.type) or pa.types.is_floating(rows.type):
        exact: float | Decimal = as_values(rows)[0]
        return exact
    number: int = to_int64(rows.combine_chunks())[0].as_py()
    return number
