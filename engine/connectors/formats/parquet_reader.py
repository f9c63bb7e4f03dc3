"""Parquet files in batches, column by column and page by page; a file that would not fit into memory is told, not read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.arrow import make_nulls, to_positions
from engine.connectors.formats.file_format import BadLine, FileOptions, FileRows, MalformedFile, format_raw
from engine.connectors.formats.read_limits import SETTING, ReadLimits, format_bytes
from engine.hummock.rows.ordering import one_chunk

ROWS_AT_ONCE = 65_536
_ROWS_OF_PREFIXES = 4_096
"""Of texts of which each begins with as much as it likes of the one before: few bytes of them can be many."""
_BUFFER = 1 << 20
_LEVEL_BYTES = 32
"""What an element of a list takes while it is read: its levels and its value."""
_NO_COLUMN = "\0"
"""Stands in for the columns of a file that has none of those that are asked for."""
_FAR = "\0far"
"""Names the column of a row whose time of 12 bytes is further away than Arrow's 64 bits of microseconds reach."""
_IN_DICTIONARIES = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""How texts are encoded that Arrow reads as dictionaries; others it only reads written out."""
_PREFIXED = "DELTA_BYTE_ARRAY"
_REFUSED = (pa.ArrowException, OSError, ValueError)


def read_parquet(
    file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0
) -> Iterator[FileRows]:
    """Yield the rows of a Parquet file from row `skip` on; raises MalformedFile where it can't be read, or is too large."""
    try:
        yield from _read_groups(file, options, limits, skip)
    except MalformedFile:
        raise
    except _REFUSED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, not of Arrow
        raise MalformedFile(f"not a Parquet file that can be read: {_extract_first_line(error)}") from None


def _read_groups(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int) -> Iterator[FileRows]:
    opened = _open_parquet(file, [])
    schema = opened.schema_arrow
    columns = [schema.names[at] for at in options.locate_columns(schema.names, "the file has a column")]
    _check_size(opened.metadata, schema, set(columns), file, limits)
    handles = _GroupHandles(file, opened, columns)
    row = decoded = 0
    stored = max(opened.metadata.serialized_size, _measure_length(file))
    for group in range(opened.metadata.num_row_groups):
        rows = opened.metadata.row_group(group).num_rows
        if skip - row >= rows or (options.row_groups and group not in options.row_groups):
            row += rows
            continue
        end = row + rows
        for batch in _read_batches(handles, group, row):
            passed = min(max(skip - row, 0), batch.num_rows)
            row += passed
            for part in _split_batch(batch.slice(passed), row, tuple(schema.names), limits):
                row += part.records
                decoded += sum(column.nbytes for column in part.columns.values())
                if limits.is_bomb(decoded, stored):
                    raise MalformedFile(limits.describe_bomb(decoded, stored))
                yield part
        if row != end:
            raise MalformedFile(_explain_shortfall(handles, group, rows, rows - (end - row)))
    if row != opened.metadata.num_rows:
        reason = f"the file has {opened.metadata.num_rows} rows by its footer, but its row groups have {row}"
        raise MalformedFile(f"{reason}: it is damaged")


def _open_parquet(file: BinaryIO, dictionaries: Sequence[str], unit: str = "us") -> pq.ParquetFile:
    file.seek(0)
    return pq.ParquetFile(
        file,
        buffer_size=_BUFFER,
        pre_buffer=False,
        read_dictionary=list(dictionaries),
        coerce_int96_timestamp_unit=unit,  # nanoseconds end in the year 2262
    )


class _GroupHandles:
    """A file opened as each of its row groups is to be read."""

    def __init__(self, file: BinaryIO, plain: pq.ParquetFile, columns: list[str]) -> None:
        self.plain, self.columns = plain, columns
        self._file, self._names = file, frozenset(columns)
        self._opened: dict[tuple[str, ...], pq.ParquetFile] = {(): plain}

    def with_texts(self, encodings: Mapping[str, set[str]]) -> pq.ParquetFile:
        """Return the file with the texts as dictionaries whose encoding allows it: a text in one may be in many rows."""
        schema = self.plain.schema_arrow
        texts = tuple(
            name
            for name, used in encodings.items()
            if _is_text(schema.field(name).type) and used and used <= _IN_DICTIONARIES
        )
        if texts not in self._opened:
            self._opened[texts] = _open_parquet(self._file, texts)
        return self._opened[texts]

    def find_encodings(self, group: int) -> dict[str, set[str]]:
        """Return how each wanted column is encoded in a group, all that it is made of together."""
        found: dict[str, set[str]] = {name: set() for name in self.columns}
        for name, column in _list_chunks(self.plain.metadata.row_group(group), self._names):
            found[name] |= set(column.encodings)
        return found

    def read_seconds(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns that hold times of 12 bytes, in whole seconds, which reach as far as those do."""
        chunks = _list_chunks(self.plain.metadata.row_group(group), self._names)
        names = list(dict.fromkeys(name for name, column in chunks if column.physical_type == "INT96"))
        if names:
            opened = _open_parquet(self._file, (), "s")
            yield from opened.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=names)


def _list_chunks(
    group: pq.RowGroupMetaData, names: Collection[str]
) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    """Yield the column chunks of a row group that these columns are made of."""
    for index in range(group.num_columns):
        column = group.column(index)
        name = column.path_in_schema
        while name not in names and "." in name:
            name = name.rpartition(".")[0]
        if name in names:
            yield name, column


def _explain_shortfall(handles: _GroupHandles, group: int, rows: int, read: int) -> str:
    """Say that a row group holds other than the footer says, and which columns it is."""
    chunks = _list_chunks(handles.plain.metadata.row_group(group), frozenset(handles.columns))
    nested = {
        name for name in handles.columns if pa.types.is_nested(handles.plain.schema_arrow.field(name).type)
    }
    short = {name: one.num_values for name, one in chunks if name not in nested and one.num_values != rows}
    which = "".join(f"; column {format_raw(name)} holds {count} values" for name, count in short.items())
    return f"row group {group} has {rows} rows by its footer, but only {read} can be read{which}: the file is damaged"


def _measure_length(file: BinaryIO) -> int:
    at = file.tell()
    length = file.seek(0, 2)
    file.seek(at)
    return length


def _check_size(
    metadata: pq.FileMetaData, schema: pa.Schema, columns: set[str], file: BinaryIO, limits: ReadLimits
) -> None:
    """Refuse a column of a row group that is too large to be read, and a file that is far smaller than its rows."""
    widths = {name: _estimate_width(schema.field(name).type) for name in columns}
    decoded = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for name, column in _list_chunks(group, columns):
            nested = pa.types.is_nested(schema.field(name).type)
            size = max(column.total_uncompressed_size, column.num_values * _LEVEL_BYTES if nested else 0)
            if size > limits.column_chunk:
                raise MalformedFile(
                    f"column {name} of row group {number} takes {format_bytes(size)}, more than "
                    f"{format_bytes(limits.column_chunk)}: write smaller row groups, or raise {SETTING}"
                )
            decoded += max(column.num_values, group.num_rows) * widths[name]
    stored = _measure_length(file)
    if limits.is_bomb(decoded, stored):
        raise MalformedFile(limits.describe_bomb(decoded, stored))


def _estimate_width(kind: pa.DataType) -> int:
    """Return how many bytes a value takes at least."""
    try:
        return max(kind.bit_width // 8, 1)
    except ValueError:
        return 4


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _read_batches(handles: _GroupHandles, group: int, row: int) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of a row group; a file without any of them has batches without columns."""
    if not handles.columns:
        rows = handles.plain.metadata.row_group(group).num_rows
        for start in range(0, rows, ROWS_AT_ONCE):
            yield pa.record_batch([pa.nulls(min(ROWS_AT_ONCE, rows - start))], names=[_NO_COLUMN])
        return
    encodings = handles.find_encodings(group)
    at_once = _ROWS_OF_PREFIXES if any(_PREFIXED in used for used in encodings.values()) else ROWS_AT_ONCE
    try:
        opened = handles.with_texts(encodings)
        batches = opened.iter_batches(at_once, row_groups=[group], columns=handles.columns)
        yield from _mark_far_times(batches, handles.read_seconds(group))
    except _REFUSED as error:
        raise MalformedFile(
            f"from row {row + 1} on it cannot be read: {_extract_first_line(error)}"
        ) from None


def _mark_far_times(
    batches: Iterable[pa.RecordBatch], seconds: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield batches, where times of 12 bytes are told that microseconds do not hold: Arrow makes other times of them."""
    exact: pa.Table | None = None
    for batch in batches:
        while (exact is None or exact.num_rows < batch.num_rows) and (
            more := next(seconds, None)
        ) is not None:
            exact = pa.Table.from_batches([more] if exact is None else [*exact.to_batches(), more])
        if exact is None:
            yield batch
            continue
        far: dict[int, str] = {}
        for name in exact.schema.names:
            stored = one_chunk(exact.column(name).slice(0, batch.num_rows))
            far |= dict.fromkeys(_find_unequal(batch.column(name), stored), name)
        exact = exact.slice(batch.num_rows)
        reasons = make_nulls(batch.num_rows, pa.string())
        if far:
            reasons = pa.array([far.get(at) for at in range(batch.num_rows)], pa.string())
        yield batch.append_column(_FAR, reasons)


def _find_unequal(times: pa.Array[Any], seconds: pa.Array[Any]) -> list[int]:
    """Return the rows in which a time is not the same in whole seconds, found by halves."""
    found: list[int] = []
    waiting = [(0, len(times))]
    while waiting:
        start, count = waiting.pop()
        pairs = zip(
            _list_times(times.slice(start, count)), _list_times(seconds.slice(start, count)), strict=True
        )
        if all(map(_has_same_seconds, *zip(*pairs, strict=True))):
            continue
        if count <= 1:
            found.append(start)
        else:
            half = count // 2
            waiting += [(start, half), (start + half, count - half)]
    return found


def _list_times(column: pa.Array[Any]) -> Iterator[pa.Array[Any]]:
    """Yield the times in a column, those in its lists, maps and structs."""
    if isinstance(column, pa.StructArray):
        for part in column.flatten():
            yield from _list_times(part)
    elif isinstance(column, pa.MapArray):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        for part in (column.keys, column.items):
            yield from _list_times(part.slice(first, last - first))
    elif isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _list_times(column.flatten())
    elif pa.types.is_timestamp(column.type):
        yield column


def _has_same_seconds(times: pa.Array[Any], seconds: pa.Array[Any]) -> bool:
    if times.type.unit != "us" or seconds.type.unit != "s":
        return True  # not of 12 bytes
    numbers, whole = (each.drop_null().cast(pa.int64()).to_numpy() for each in (times, seconds))
    return bool(np.array_equal(numbers // 1_000_000, whole))


def _split_batch(
    batch: pa.RecordBatch, row: int, names: tuple[str, ...], limits: ReadLimits
) -> Iterator[FileRows]:
    """Yield a batch in parts that are not too large once their texts are written out; a row that is, is reported."""
    sizes = _measure_rows(batch)
    most = limits.memory // 8
    start = 0
    total = np.concatenate([[0], np.cumsum(sizes)])
    while start < batch.num_rows:
        if sizes[start] > limits.row:
            reason = (
                f"the row takes {format_bytes(int(sizes[start]))}, more than {format_bytes(limits.row)}, a share of "
                f"{SETTING}"
            )
            yield FileRows({}, 0, lambda _: (0, ""), (BadLine(row + start + 1, reason, ""),), names, 1)
            start += 1
            continue
        end = int(np.searchsorted(total, total[start] + max(most, limits.row), side="right")) - 1
        large = np.flatnonzero(sizes[start:end] > limits.row)
        end = start + int(large[0]) if len(large) else max(end, start + 1)
        yield _build_rows(batch.slice(start, end - start), row + start, names)
        start = end


def _measure_rows(batch: pa.RecordBatch) -> np.ndarray:
    """Return about how many bytes each row takes, texts written out."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            texts = column.dictionary.cast(pa.binary())
            lengths: pa.Int32Array = pc.binary_length(texts)  # type: ignore[call-overload]  # the stubs lose what a cast gives
            sizes += lengths.take(column.indices).fill_null(0).to_numpy(zero_copy_only=False)
        elif _is_text(column.type) or column.type in (pa.large_string(), pa.large_binary()):
            text_lengths: pa.Array[Any] = pc.binary_length(column)  # type: ignore[call-overload]  # the stubs know no mixture
            sizes += text_lengths.fill_null(0).to_numpy(zero_copy_only=False)
        elif pa.types.is_nested(column.type) or pa.types.is_string_view(column.type):
            sizes += column.nbytes // max(batch.num_rows, 1)
        else:
            sizes += _estimate_width(column.type)
    return sizes


def _build_rows(batch: pa.RecordBatch, row: int, names: tuple[str, ...]) -> FileRows:
    """Return a part of a batch as rows; texts that are not UTF-8 are reported with their row."""
    columns: dict[str, pa.Array[Any]] = {}
    wrong: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == _NO_COLUMN:
            continue
        if name == _FAR:
            for index in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist():
                reason = f"column {format_raw(column[index].as_py())}: the time is beyond all that a TIMESTAMP holds"
                wrong.setdefault(index, reason)
            continue
        plain = _expand_dictionary(column)
        for index in _find_invalid(plain):
            wrong.setdefault(
                index, f"column {format_raw(name)}: the value is damaged, or a text that is not UTF-8"
            )
        columns[name] = plain
    good = np.setdiff1d(np.arange(batch.num_rows), list(wrong))
    if wrong:
        columns = {name: column.take(to_positions(good)) for name, column in columns.items()}

    def locate_row(index: int) -> tuple[int, str]:
        return row + int(good[index]) + 1, format_raw(format_row(columns, index))

    bad = tuple(BadLine(row + index + 1, wrong[index], "") for index in sorted(wrong))
    return FileRows(columns, len(good), locate_row, bad, names, batch.num_rows, lines=good + row + 1)


def format_row(columns: Mapping[str, pa.Array[Any]], index: int) -> str:
    """Return a row as JSON."""
    return json.dumps({name: _format_value(column, index) for name, column in columns.items()}, default=str)


def _expand_dictionary(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a dictionary's values written out, by way of binary and unchecked: what is no UTF-8 is found afterwards."""
    if not isinstance(column, pa.DictionaryArray):
        return column
    kind = column.type.value_type
    values = _cast_to_binary(column)
    return pa.Array.from_buffers(kind, len(values), values.buffers(), values.null_count, values.offset)


def _cast_to_binary(column: pa.DictionaryArray[Any, Any]) -> pa.Array[Any]:
    values: pa.Array[Any] = column.dictionary.cast(pa.binary()).take(column.indices)
    return values


def _find_invalid(column: pa.Array[Any]) -> list[int]:
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


def _format_value(column: pa.Array[Any], index: int) -> object:
    try:
        return column[index].as_py()
    except (ValueError, OverflowError):  # a date beyond what Python has
        return str(column[index].cast(pa.string()))


def _extract_first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
