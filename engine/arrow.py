"""What Arrow does and its type stubs do not tell: columns of any type, made, taken apart and asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


def nulls(rows: int, kind: pa.DataType) -> pa.Array[Any]:
    """Return `rows` nulls of a type."""
    made: pa.Array[Any] = pa.nulls(rows, kind)  # type: ignore[call-overload]  # the stubs list types, not their base
    return made


def repeated(value: pa.Scalar[Any], rows: int) -> pa.Array[Any]:
    """Return a value `rows` times; unlike `pa.array` it loads no pandas."""
    made: pa.Array[Any] = pa.repeat(value, rows)  # type: ignore[call-overload]  # the stubs list types, not their base
    return made


def positions(indices: np.ndarray, absent: np.ndarray | None = None) -> pa.Int64Array:
    """Return row numbers for `take`; those that are `absent` are null and take a null."""
    return pa.array(indices, pa.int64(), mask=absent)


def decoded(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a column with its values in place, if it is encoded by a dictionary."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def as_values(column: Column) -> list[Any]:
    """Return a column's values as Python has them."""
    values: list[Any] = column.to_pylist()
    return values


def holds(mask: Column) -> np.ndarray:
    """Return where a boolean column is true; null is not."""
    known: Column = mask.fill_null(pa.scalar(False)) if mask.null_count else mask
    return known.to_numpy(zero_copy_only=False)


def both(left: Column, right: Column) -> np.ndarray:
    """Return where two boolean columns are true."""
    found: np.ndarray = holds(left) & holds(right)
    return found


def added(column: Column, value: pa.Scalar[Any]) -> Column:
    """Return a column of numbers with a value added to each."""
    made: Column = pc.add(column, value)
    return made


def sorted_indices(rows: pa.Table, by: Sequence[tuple[str, str, str]]) -> pa.UInt64Array:
    """Return the order of rows by (column, ascending | descending, at_start | at_end: where nulls and NaN go)."""
    return pc.sort_indices(rows, sort_keys=by)  # type: ignore[arg-type]  # the stubs don't know a place per column


def either(mask: Column, then: Column | pa.Scalar[Any], otherwise: Column | pa.Scalar[Any]) -> pa.Array[Any]:
    """Return `then` where an array of booleans is true, `otherwise` where it is false, null where it is null."""
    made: pa.Array[Any] = pc.if_else(mask, then, otherwise)
    return made


def joined(*texts: Column | pa.Scalar[Any], by: str) -> pa.Array[Any]:
    """Return texts row by row as one; null where one of them is null."""
    made: pa.Array[Any] = pc.binary_join_element_wise(*texts, by)  # type: ignore[call-overload]  # the stubs know no mixture
    return made


def in_bytes(rows: pa.Table) -> bytes:
    """Return rows as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def table_of(columns: Mapping[str, Column]) -> pa.Table:
    """Return named columns as a table."""
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))
