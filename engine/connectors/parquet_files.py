"""Parquet files in batches, column by column and page by page; a file that would not fit into memory is told, not read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.arrow import positions
from engine.connectors.file_formats import BadLine, FileOptions, FileRows, MalformedFile, shown
from engine.connectors.read_limits import SETTING, ReadLimits, shown_bytes

ROWS_AT_ONCE = 65_536
_BUFFER = 1 << 20
_LEVEL_BYTES = 32
"""What an element of a list takes while it is read: its levels and its value."""
_NO_COLUMN = "\0"
"""Stands in for the columns of a file that has none of those that are asked for."""
_REFUSED = (pa.ArrowException, OSError, ValueError)


def read(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0) -> Iterator[FileRows]:
    """Yield the rows of a Parquet file from row `skip` on; raises MalformedFile where it can't be read, or is too large."""
    try:
        yield from _read(file, options, limits, skip)
    except MalformedFile:
        raise
    except _REFUSED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, not of Arrow
        raise MalformedFile(f"not a Parquet file that can be read: {_first_line(error)}") from None


def _read(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int) -> Iterator[FileRows]:
    opened = _opened(file, [])
    schema = opened.schema_arrow
    wanted = [schema.names[at] for at in options.places(schema.names, "the file has a column")]
    _check_size(opened.metadata, schema, set(wanted), file, limits)
    texts = [name for name in wanted if _is_text(schema.field(name).type)]
    if texts:
        file.seek(0)
        opened = _opened(file, texts)  # a text that stands in a dictionary once may be in many rows
    row = decoded = 0
    stored = max(opened.metadata.serialized_size, _length(file))
    for group in range(opened.metadata.num_row_groups):
        rows = opened.metadata.row_group(group).num_rows
        if skip - row >= rows or (options.row_groups and group not in options.row_groups):
            row += rows
            continue
        for batch in _batches(opened, group, wanted, row):
            passed = min(max(skip - row, 0), batch.num_rows)
            row += passed
            for part in _parts(batch.slice(passed), row, tuple(schema.names), limits):
                row += part.records
                decoded += sum(column.nbytes for column in part.columns.values())
                if limits.too_expanded(decoded, stored):
                    raise MalformedFile(limits.bomb(decoded, stored))
                yield part


def _opened(file: BinaryIO, dictionaries: list[str]) -> pq.ParquetFile:
    return pq.ParquetFile(
        file,
        buffer_size=_BUFFER,
        pre_buffer=False,
        read_dictionary=dictionaries,
        coerce_int96_timestamp_unit="us",  # nanoseconds end in the year 2262
    )


def _length(file: BinaryIO) -> int:
    at = file.tell()
    length = file.seek(0, 2)
    file.seek(at)
    return length


def _check_size(
    metadata: pq.FileMetaData, schema: pa.Schema, wanted: set[str], file: BinaryIO, limits: ReadLimits
) -> None:
    """Refuse a column of a row group that is too large to be read, and a file that is far smaller than its rows."""
    widths = {name: _width(schema.field(name).type) for name in wanted}
    decoded = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            path = column.path_in_schema
            name = next((name for name in wanted if path == name or path.startswith(f"{name}.")), None)
            if name is None:
                continue
            nested = pa.types.is_nested(schema.field(name).type)
            size = max(column.total_uncompressed_size, column.num_values * _LEVEL_BYTES if nested else 0)
            if size > limits.column_chunk:
                raise MalformedFile(
                    f"column {name} of row group {number} takes {shown_bytes(size)}, more than "
                    f"{shown_bytes(limits.column_chunk)}: write smaller row groups, or raise {SETTING}"
                )
            decoded += max(column.num_values, group.num_rows) * widths[name]
    stored = _length(file)
    if limits.too_expanded(decoded, stored):
        raise MalformedFile(limits.bomb(decoded, stored))


def _width(kind: pa.DataType) -> int:
    """Return how many bytes a value takes at least."""
    try:
        return max(kind.bit_width // 8, 1)
    except ValueError:
        return 4


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _batches(opened: pq.ParquetFile, group: int, wanted: list[str], row: int) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of a row group; a file without any of them has batches without columns."""
    if not wanted:
        rows = opened.metadata.row_group(group).num_rows
        for start in range(0, rows, ROWS_AT_ONCE):
            yield pa.record_batch([pa.nulls(min(ROWS_AT_ONCE, rows - start))], names=[_NO_COLUMN])
        return
    try:
        yield from opened.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=wanted)
    except _REFUSED as error:
        raise MalformedFile(f"from row {row + 1} on not to be read: {_first_line(error)}") from None


def _parts(batch: pa.RecordBatch, row: int, names: tuple[str, ...], limits: ReadLimits) -> Iterator[FileRows]:
    """Yield a batch in parts that are not too large once their texts are written out; a row that is, is told."""
    sizes = _row_bytes(batch)
    most = limits.memory // 8
    start = 0
    total = np.concatenate([[0], np.cumsum(sizes)])
    while start < batch.num_rows:
        if sizes[start] > limits.row:
            reason = f"the row takes {shown_bytes(int(sizes[start]))}, more than {shown_bytes(limits.row)}, a share of {SETTING}"
            yield FileRows({}, 0, lambda _: (0, ""), (BadLine(row + start + 1, reason, ""),), names, 1)
            start += 1
            continue
        end = int(np.searchsorted(total, total[start] + max(most, limits.row), side="right")) - 1
        large = np.flatnonzero(sizes[start:end] > limits.row)
        end = start + int(large[0]) if len(large) else max(end, start + 1)
        yield _rows(batch.slice(start, end - start), row + start, names)
        start = end


def _row_bytes(batch: pa.RecordBatch) -> np.ndarray:
    """Return about how many bytes each row takes, texts written out."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            texts = column.dictionary.cast(pa.binary())
            lengths: pa.Int32Array = pc.binary_length(texts)  # type: ignore[call-overload]  # the stubs lose what a cast gives
            sizes += lengths.take(column.indices).fill_null(0).to_numpy(zero_copy_only=False)
        elif pa.types.is_nested(column.type):
            sizes += column.nbytes // max(batch.num_rows, 1)
        else:
            sizes += _width(column.type)
    return sizes


def _rows(batch: pa.RecordBatch, row: int, names: tuple[str, ...]) -> FileRows:
    """Return a part of a batch as rows; texts that are not UTF-8 are told with their row."""
    columns: dict[str, pa.Array[Any]] = {}
    wrong: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == _NO_COLUMN:
            continue
        plain = _plain(column)
        for index in _invalid(plain):
            wrong.setdefault(
                index, f"column {shown(name)}: the value is damaged, or a text that is not UTF-8"
            )
        columns[name] = plain
    good = np.setdiff1d(np.arange(batch.num_rows), list(wrong))
    if wrong:
        columns = {name: column.take(positions(good)) for name, column in columns.items()}

    def place(index: int) -> tuple[int, str]:
        return row + int(good[index]) + 1, shown(shown_row(columns, index))

    bad = tuple(BadLine(row + index + 1, wrong[index], "") for index in sorted(wrong))
    return FileRows(columns, len(good), place, bad, names, batch.num_rows, lines=good + row + 1)


def shown_row(columns: Mapping[str, pa.Array[Any]], index: int) -> str:
    """Return a row as JSON."""
    return json.dumps({name: _shown_value(column, index) for name, column in columns.items()}, default=str)


def _plain(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a dictionary's values written out, by way of binary and unchecked: what is no UTF-8 is found afterwards."""
    if not isinstance(column, pa.DictionaryArray):
        return column
    kind = column.type.value_type
    values = _in_binary(column)
    return pa.Array.from_buffers(kind, len(values), values.buffers(), values.null_count, values.offset)


def _in_binary(column: pa.DictionaryArray[Any, Any]) -> pa.Array[Any]:
    values: pa.Array[Any] = column.dictionary.cast(pa.binary()).take(column.indices)
    return values


def _invalid(column: pa.Array[Any]) -> list[int]:
    """Return which values Arrow calls invalid, found by halves."""
    found: list[int] = []
    waiting = [(0, len(column))]
    while waiting:
        start, count = waiting.pop()
        part = column.slice(start, count)
        try:
            part.validate(full=True)
        except pa.ArrowInvalid:
            if count <= 1:
                found.append(start)
            else:
                half = count // 2
                waiting += [(start, half), (start + half, count - half)]
    return found


def _shown_value(column: pa.Array[Any], index: int) -> object:
    try:
        return column[index].as_py()
    except (ValueError, OverflowError):  # a date beyond what Python has
        return str(column[index].cast(pa.string()))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
