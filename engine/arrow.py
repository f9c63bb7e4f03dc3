"""What Arrow does and its type stubs do not tell: columns of any type, made, taken apart and asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FIRST_DAY, _END_DAY = -719_162, 2_932_897
"""Python's dates as days since 1970: from the first of the year 1 to the one before the year 10000."""
_DAY = 86_400_000_000
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


def make_nulls(rows: int, kind: pa.DataType) -> pa.Array[Any]:
    """Return `rows` nulls of a type."""
    made: pa.Array[Any] = pa.nulls(rows, kind)  # type: ignore[call-overload]  # the stubs list types, not their base
    return made


def repeat_value(value: pa.Scalar[Any], rows: int) -> pa.Array[Any]:
    """Return a value `rows` times; unlike `pa.array` it loads no pandas."""
    made: pa.Array[Any] = pa.repeat(value, rows)  # type: ignore[call-overload]  # the stubs list types, not their base
    return made


def to_positions(indices: np.ndarray, absent: np.ndarray | None = None) -> pa.Int64Array:
    """Return row numbers for `take`; those that are `absent` are null and take a null."""
    return pa.array(indices, pa.int64(), mask=absent)


def decode_dictionary(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a column with its values in place, if it is encoded by a dictionary."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def as_values(column: Column) -> list[Any]:
    """Return a column's values as Python has them; dates and times of years that it has not are texts, in UTC."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:  # as before the year 1 and behind 9999
        return [_as_value(scalar) for scalar in column]
    return values


def as_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as Python has them, their values as `as_values` gives them."""
    try:
        return rows.to_pylist()
    except OverflowError:
        columns = [as_values(column) for column in rows.columns]
        return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def has_far_times(column: Column) -> bool:
    """Tell whether a column holds dates or times of years that Python has not, before 1 or behind 9999."""
    kind = column.type
    if pa.types.is_date32(kind):
        numbers: Column = column.cast(pa.int32())
        first, end = _FIRST_DAY, _END_DAY
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        numbers = column.cast(pa.int64())
        first, end = _FIRST_DAY * _DAY, _END_DAY * _DAY
    else:
        return False
    least, most = (number.as_py() for number in (pc.min(numbers), pc.max(numbers)))
    return least is not None and not first <= least <= most < end


def _as_value(scalar: pa.Scalar[Any]) -> Any:
    try:
        return scalar.as_py()
    except OverflowError:
        if isinstance(scalar, pa.MapScalar):
            return [tuple(_as_value(part) for part in pair.values()) for pair in scalar.values or ()]
        if isinstance(scalar, pa.StructScalar):
            return {name: _as_value(part) for name, part in scalar.items()}
        if isinstance(scalar, pa.ListScalar):
            return [_as_value(part) for part in scalar.values or ()]
        return _format_far_time(scalar)


def _format_far_time(scalar: pa.Scalar[Any]) -> str:
    """Return a date or a time that Python has not; Arrow's own texts are wrong beyond the year 32767."""
    kind = scalar.type
    if pa.types.is_date32(kind):
        return format_day(scalar.cast(pa.int32()).as_py())
    assert pa.types.is_timestamp(kind) and kind.unit == "us", kind
    return format_moment(scalar.cast(pa.int64()).as_py()) + ("" if kind.tz is None else "+00:00")


def format_day(days: int) -> str:
    """Return a date by its days since 1970, of any year, as Spark writes it.

    >>> format_day(0), format_day(2_932_897), format_day(-719_529)
    ('1970-01-01', '+10000-01-01', '-0001-12-31')
    """
    month = np.datetime64(days, "D").astype("datetime64[M]")
    years, months = divmod(int(month.astype(np.int64)), 12)
    day = days - int(month.astype("datetime64[D]").astype(np.int64)) + 1
    year = years + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{months + 1:02}-{day:02}"


def format_moment(micros: int) -> str:
    """Return a time by its microseconds since 1970, of any year, as Spark writes it in UTC.

    >>> format_moment(1_500_000), format_moment(2**63 - 1)
    ('1970-01-01 00:00:01.5', '+294247-01-10 04:00:54.775807')
    """
    seconds, fraction = divmod(micros, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    behind = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{format_day(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{behind}"


def to_mask(mask: Column) -> np.ndarray:
    """Return where a boolean column is true; null is not."""
    known: Column = mask.fill_null(pa.scalar(False)) if mask.null_count else mask
    return known.to_numpy(zero_copy_only=False)


def as_numbers(column: pa.Array[Any]) -> np.ndarray:
    """Return numbers as NumPy has them, of their own type; nulls are 0."""
    filled = column.fill_null(pa.scalar(0, column.type)) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False)


def intersect_masks(left: Column, right: Column) -> np.ndarray:
    """Return where two boolean columns are true."""
    found: np.ndarray = to_mask(left) & to_mask(right)
    return found


def add_scalar(column: Column, value: pa.Scalar[Any]) -> Column:
    """Return a column of numbers with a value added to each."""
    made: Column = pc.add(column, value)
    return made


def compute_sort_indices(rows: pa.Table, by: Sequence[tuple[str, str, str]]) -> pa.UInt64Array:
    """Return the order of rows by (column, ascending | descending, at_start | at_end: where nulls and NaN go)."""
    return pc.sort_indices(rows, sort_keys=by)  # type: ignore[arg-type]  # the stubs don't know a place per column


def choose_values(
    mask: Column, then: Column | pa.Scalar[Any], otherwise: Column | pa.Scalar[Any]
) -> pa.Array[Any]:
    """Return `then` where an array of booleans is true, `otherwise` where it is false, null where it is null."""
    made: pa.Array[Any] = pc.if_else(mask, then, otherwise)
    return made


def join_texts(*texts: Column | pa.Scalar[Any], by: str) -> pa.Array[Any]:
    """Return texts row by row as one; null where one of them is null."""
    made: pa.Array[Any] = pc.binary_join_element_wise(*texts, by)  # type: ignore[call-overload]  # the stubs know no mixture
    return made


def as_stream(rows: pa.Table) -> bytes:
    """Return rows as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def from_stream(data: bytes | pa.Buffer) -> pa.Table:
    """Return the rows of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def group_batches(
    batches: Iterable[pa.RecordBatch], rows: int, size: int | None = None
) -> Iterator[pa.Table]:
    """Yield batches as tables of at least so many rows, or of `size` bytes; what is left over as a last one."""
    gathered: list[pa.RecordBatch] = []
    row_count = byte_count = 0
    for batch in batches:
        gathered.append(batch)
        row_count, byte_count = row_count + batch.num_rows, byte_count + batch.nbytes
        if row_count >= rows or (size is not None and byte_count >= size):
            yield pa.Table.from_batches(gathered)
            gathered, row_count, byte_count = [], 0, 0
    if row_count:
        yield pa.Table.from_batches(gathered)


def build_arrow_table(columns: Mapping[str, Column]) -> pa.Table:
    """Return named columns as a table."""
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))
