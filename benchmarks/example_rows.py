"""Random rows of tables, by example rows of theirs: keys are new, numbers and times near to those of the examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.sql.catalog import Relation

NULLS = 0.06
"""How many values of a column that may be null are null."""


@dataclass(frozen=True)
class Pools:
    """Random rows of a store's tables, by the `examples` of each; keys of texts are key-0, key-1, …"""

    examples: Mapping[str, pa.Table]
    made: np.random.Generator

    def draw(self, relation: Relation, count: int, first: int) -> pa.Table:
        """Return some rows with keys that count on from `first`."""
        pool = self.examples[relation.name]
        columns = []
        for column, values in zip(relation.visible_columns, pool.columns, strict=True):
            if column.storage_name in relation.primary_key:
                columns.append(_number_keys(values, first, count))
                continue
            some = _shift(self._take(values, count), self.made)
            if column.nullable:
                some = pc.if_else(pa.array(self.made.random(count) < NULLS), pa.scalar(None, some.type), some)
            columns.append(some.cast(values.type))
        return pa.table(columns, schema=pool.schema)

    def choose(self, rows: pa.Table, share: float) -> pa.Table:
        """Return a share of some rows."""
        return rows.filter(pa.array(self.made.random(rows.num_rows) < share))

    def _take(self, values: pa.ChunkedArray, count: int) -> pa.Array:
        return values.combine_chunks().take(pa.array(self.made.integers(0, len(values), count)))


def _number_keys(values: pa.ChunkedArray, first: int, count: int) -> pa.Array:
    numbers = pa.array(range(first, first + count))
    if not pa.types.is_string(values.type):
        return pc.add(numbers, 1_000).cast(values.type)
    return pc.binary_join_element_wise("key", numbers.cast(pa.string()), "-")


def _shift(values: pa.Array, made: np.random.Generator) -> pa.Array:
    """Return numbers and times near to others; all else as it is."""
    kind, count = values.type, len(values)
    if pa.types.is_floating(kind):
        return pc.round(pc.multiply(values, pa.array(made.uniform(0.5, 1.5, count))), 2).cast(kind)
    if pa.types.is_integer(kind):
        return pc.add(values, pa.array(made.integers(-1, 2, count)).cast(kind))
    if pa.types.is_date32(kind):
        return pc.add(values.cast(pa.int32()), pa.array(made.integers(-3, 4, count), pa.int32())).cast(kind)
    if pa.types.is_timestamp(kind):
        return pc.add(values.cast(pa.int64()), pa.array(made.integers(0, 10**10, count))).cast(kind)
    return values
