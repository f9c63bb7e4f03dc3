"""Rows that hide by themselves: past the time to live of their table, or below its watermark.

What is hidden at an epoch is a function of the table version and that epoch, so that a retained epoch reads the same for
ever. Hiding comes after newest-wins: a hidden row does not uncover an older one of its key.
"""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import to_mask
from engine.errors import InvalidRow
from engine.hummock.rows.ordering import one_chunk
from engine.hummock.version import OP, ROW_EPOCH, Table, TableVersion

COUNTER_BITS = 16
NEVER_NAMED_MS = 1 << 62


@dataclass(frozen=True)
class RowExpiry:
    """What a table hides at one epoch: rows born at `born_upto_ms` or before, and those with less than `least` in
    `column`; None hides nothing.
    """

    born_upto_ms: int | None = None
    column: str | None = None
    least: int | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that `hides` looks at."""
        born = [] if self.born_upto_ms is None else [ROW_EPOCH]
        return born if self.column is None else [*born, self.column]

    def mark_hidden(self, rows: pa.Table) -> np.ndarray:
        """Return per row whether it is hidden; a null in the watermark's column never is."""
        hidden = np.zeros(rows.num_rows, dtype=bool)
        if self.born_upto_ms is not None:
            hidden |= one_chunk(rows.column(ROW_EPOCH)).to_numpy() <= self.born_upto_ms
        if self.column is not None:
            numbers = to_int64(one_chunk(rows.column(self.column)))
            hidden |= to_mask(pc.less(numbers, pa.scalar(self.least, pa.int64())))
        return hidden

    def as_deletions(self, rows: pa.Table) -> pa.Table:
        """Return the rows with those that are hidden turned to deletions; values stay where they are."""
        hidden = self.mark_hidden(rows)
        if not hidden.any():
            return rows
        operations = np.where(hidden, np.uint8(1), one_chunk(rows.column(OP)).to_numpy())
        at = rows.column_names.index(OP)
        return rows.set_column(at, rows.schema.field(OP), pa.array(operations, pa.uint8()))


def expiry_at(table: TableVersion, epoch: int) -> RowExpiry | None:
    """Return what a table hides at an epoch, or None."""
    options = table.table.options
    born = None
    if options.ttl_seconds is not None:
        born = (epoch >> COUNTER_BITS) - int(options.ttl_seconds * 1000)
    least = table.watermark_at(epoch)
    if born is None and least is None:
        return None
    return RowExpiry(born, None if least is None else options.watermark_column, least)


def disable_expiry(table: TableVersion) -> TableVersion:
    """Return a version of a table in which no row is hidden, by its age or a watermark: what its files and its log hold."""
    options = table.table.options
    if options.ttl_seconds is None and options.watermark_column is None:
        return table
    plain = replace(
        table.table, options=msgspec.structs.replace(options, ttl_seconds=None, watermark_column=None)
    )
    return replace(table, table=plain, watermarks=())


def parse_birth_ms(path: str) -> int:
    """Return when a file was named, in ms of epoch time: the birth of rows that carry no row epoch. What is only in
    memory is not born yet.
    """
    folder, _, name = path.rpartition("/")
    number = name.partition("-")[0]
    return int(number) if folder.rpartition("/")[2] == "sst" and number.isdigit() else NEVER_NAMED_MS


def can_have_watermark(kind: pa.DataType) -> bool:
    """Whether a column of this type can carry a watermark: its values are whole numbers or moments."""
    return pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)


def to_int64(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return whole numbers or moments as int64."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return values.cast(pa.int64())


def encode_watermark(
    table: Table, value: int | datetime.date | datetime.datetime | decimal.Decimal | Any
) -> int:
    """Return a watermark as the number that it is stored as; raises InvalidRow if it does not fit its column."""
    column = table.options.watermark_column
    if column is None:
        raise InvalidRow(f"table {table.name} has no watermark column: name one with alter_table first")
    kind = table.schema.field(column).type
    try:
        number = to_int64(pa.array([value], kind))[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidRow(f"table {table.name}: {value!r} is no {kind} for column {column}") from error
    if number is None:
        raise InvalidRow(f"table {table.name}: a watermark is a value of column {column}, not null")
    return int(number)
