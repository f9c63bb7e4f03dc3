"""What a column that was added to a table has in the rows that were written before."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from engine.arrow import make_nulls, repeat_value
from engine.hummock.version import DEFAULT


def with_default(field: pa.Field[Any], value: pa.Scalar[Any]) -> pa.Field[Any]:
    """Return a column that is added to a table, with the value that it has in rows written before."""
    batch = pa.record_batch([repeat_value(value, 1).cast(field.type)], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return field.with_metadata({DEFAULT: sink.getvalue().to_pybytes()})


def build_default_values(field: pa.Field[Any], rows: int) -> pa.Array[Any]:
    """Return what rows that were written before their table got a column have in it: its default, else null."""
    stored = (field.metadata or {}).get(DEFAULT)
    if stored is None:
        return make_nulls(rows, field.type)
    return repeat_value(pa.ipc.open_stream(stored).read_all().column(0)[0], rows)
