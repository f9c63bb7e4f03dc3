"""Sorted files: Parquet with `_hash`, the primary key, `_op` and the other columns, in row groups of 64 k
rows, zstd.
"""

from __future__ import annotations

import bisect
import itertools
import struct
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from engine.arrow import Column, as_rows
from engine.errors import CorruptObject, DuplicateKey, InvalidRow
from engine.hummock.epoch import ORIGIN_MS
from engine.hummock.object_store import ObjectStore
from engine.hummock.rows.ordering import normalize_key, one_chunk, order_by_key
from engine.hummock.rows.row_hash import xxhash64
from engine.hummock.sorted_files.range_file import SectionFile
from engine.hummock.version import HASH, OP, SstInfo, Table

ROW_GROUP_ROWS = 65_536
MAX_ROWS = 2_000_000
MAX_BYTES = 1 << 29
FILES = "sst/"
"""The folder of a store's files."""
PLAIN, BUNDLE = ".parquet", ".bundle"
"""How the names of objects end that are one Parquet file, and several back to back."""
_TAIL = struct.Struct("<I4s")
"""How a Parquet file ends: the length of the footer, and what it begins with."""
DICTIONARY_ROWS = 4_096
"""Of fewer rows no dictionary is made: it saves 6 % of the bytes and costs as much as all else."""
_DICTIONARY_SAMPLE = 2_000
_TEXTS = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)


def build_file_schema(table: Table) -> pa.Schema:
    """Return the columns of a table's files in their order; all of them nullable, since a deletion has no
    values.
    """
    columns = {name: table.schema.field(name).with_nullable(True) for name in table.schema.names}
    keys = [columns[name] for name in table.primary_key]
    values = [columns[name] for name in table.value_columns]
    return pa.schema([pa.field(HASH, pa.int64()), *keys, pa.field(OP, pa.uint8()), *values])


def to_file_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Return `rows` (the table's columns and `_op`) in the form of the table's files, one chunk a column,
    unsorted.

    Raises InvalidRow for a missing column or a value that does not fit its type.
    """
    schema = build_file_schema(table)
    arrays = {}
    for field in schema:
        if field.name == HASH:
            continue
        if field.name not in rows.column_names:
            raise InvalidRow(
                f"table {table.name}: rows have no column {field.name}; they have {rows.column_names}"
            )
        column: Column = rows.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidRow(f"table {table.name}: column {field.name} does not fit: {error}") from error
        if field.name in table.primary_key:
            column = normalize_key(column)
        arrays[field.name] = one_chunk(column)
    arrays[HASH] = pa.array(compute_hashes(table, arrays, rows.num_rows))
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def compute_hashes(table: Table, columns: dict[str, pa.Array[Any]], rows: int) -> np.ndarray:
    """Return the `_hash` of each row: over the distribution key, or 0 for a table without one."""
    if not table.distribution_key:
        return np.zeros(rows, dtype=np.int64)
    return xxhash64([columns[name] for name in table.distribution_key])


def sort_rows(table: Table, rows: pa.Table, *, last_wins: bool) -> pa.Table:
    """Return stored rows in the files' order, one row a key: the last of each, or DuplicateKey if there are
    several.
    """
    hashes = one_chunk(rows.column(HASH)).to_numpy()
    keys = rows.select(list(table.primary_key))
    order, first = order_by_key(hashes, keys)
    if not first.all():
        if not last_wins:
            bad = as_rows(keys.take(pa.array(order[np.flatnonzero(~first)[:1]])))[0]
            raise DuplicateKey(f"table {table.name}: the key {bad} occurs more than once in one run")
        order = order[np.append(first[1:], True)]
    elif (order[1:] > order[:-1]).all():
        return rows
    return rows.take(pa.array(order)).combine_chunks()


def split_pieces(rows: pa.Table) -> list[pa.Table]:
    """Cut sorted rows into the parts that become files."""
    width = max(1, rows.nbytes // max(rows.num_rows, 1))
    size = max(ROW_GROUP_ROWS, min(MAX_ROWS, MAX_BYTES // width))
    return [rows.slice(start, size) for start in range(0, rows.num_rows, size)]


def generate_path(seconds: float, kind: str = PLAIN, folder: str = FILES) -> str:
    """Return a name for an object made at `seconds`: the time of naming, by which the collector judges it, and a random part."""
    return f"{folder}{int(seconds * 1000) - ORIGIN_MS:013d}-{uuid.uuid4().hex}{kind}"


def build_sst_info(rows: pa.Table, data: pa.Buffer, path: str, offset: int = 0) -> SstInfo:
    """Return what the manifest needs to know of sorted rows that are encoded as `data` at `offset` of an object."""
    hashes = one_chunk(rows.column(HASH))
    return SstInfo(
        path=path,
        offset=offset,
        length=len(data),
        rows=rows.num_rows,
        min_hash=hashes[0].as_py(),
        max_hash=hashes[-1].as_py(),
        tombstones=int(pc.sum(rows.column(OP)).as_py() or 0),
        checksum=xxhash.xxh3_64_intdigest(data),
        size=rows.nbytes,
        sections=list_sections(data) if rows.num_rows > ROW_GROUP_ROWS else (),
    )


def encode_sst(rows: pa.Table) -> pa.Buffer:
    """Return sorted rows as a Parquet file."""
    sink = pa.BufferOutputStream()
    few = rows.num_rows < DICTIONARY_ROWS
    repeating = [name for name in rows.column_names if not few and _has_repeats(rows.column(name))]
    plain = [field for field in rows.schema if field.name not in repeating and "." not in field.name]
    packed = {
        field.name: _choose_encoding(field.type) for field in plain
    }  # a dot would mean a field of a struct, too
    pq.write_table(
        rows,
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=repeating,  # type: ignore[arg-type]  # a list of columns is right, too
        column_encoding={name: encoding for name, encoding in packed.items() if encoding} or None,
        write_statistics=rows.column_names[
            :2
        ],  # the hash and the first column of the key, to find row groups by
        write_page_checksum=True,
        data_page_size=1 << 18,
    )
    return sink.getvalue()


def _choose_encoding(kind: pa.DataType) -> str | None:
    """Numbers as differences, texts with their lengths apart: both are smaller, and zstd has less to search."""
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return "DELTA_BINARY_PACKED"
    if any(test(kind) for test in _TEXTS):
        return "DELTA_LENGTH_BYTE_ARRAY"
    return None


def _has_repeats(column: pa.ChunkedArray[Any]) -> bool:
    """Whether a dictionary pays, by a sample: few different values."""
    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return False
    sample = column.slice(max(0, (len(column) - _DICTIONARY_SAMPLE) // 2), _DICTIONARY_SAMPLE)
    return pc.count_distinct(sample).as_py() * 4 <= len(sample)


def read_sst(store: ObjectStore, info: SstInfo, columns: list[str] | None = None) -> pa.Table:
    """Return a file's rows as one chunk a column; raises CorruptObject if it is missing or damaged."""
    local = store.local_path(info.path)
    if local is not None and local.exists():
        data = _map_file(local, info)
    else:
        whole = (
            store.get_range(info.path, info.offset, info.length)
            if info.path.endswith(BUNDLE)
            else store.get(info.path)
        )
        if whole is None:
            raise CorruptObject(f"{info.path} is missing from the store; restore it from a copy")
        data = pa.py_buffer(whole).slice(0, info.length)
    if len(data) != info.length or xxhash.xxh3_64_intdigest(data) != info.checksum:
        raise CorruptObject(f"{info.path} is damaged: its checksum does not match; restore it from a copy")
    return _combine_chunks(pq.ParquetFile(pa.BufferReader(data)).read(columns=columns))


def _map_file(path: Path, info: SstInfo) -> pa.Buffer:
    try:
        with pa.memory_map(str(path)) as file:
            file.seek(info.offset)
            return file.read_buffer(info.length)
    except (OSError, pa.ArrowInvalid):  # it was cut off, or is gone by now
        return pa.py_buffer(b"")


SortedValues: TypeAlias = "Sequence[Any] | np.ndarray"


def read_row_groups(
    store: ObjectStore,
    info: SstInfo,
    by: str,
    sought: SortedValues,
    share: float,
    ranges: Executor | None = None,
) -> pa.Table | None:
    """Return only the row groups whose range of column `by` holds one of the sorted `wanted` values, or None if that is
    more than `share` of the file, or the file does not tell. The threads of `ranges` fetch them at the same time.

    What is read is held against the checksums of its sections; a file without them is read as a whole, under its own. Raises
    CorruptObject.
    """
    if not info.sections:
        return None
    file = SectionFile(store, info)
    metadata = file.read_metadata()
    groups = []
    for group in range(metadata.num_row_groups):
        bounds = _read_bounds(metadata.row_group(group), by)
        if bounds is None:
            return None
        at = bisect.bisect_left(sought, bounds[0])
        if at < len(sought) and sought[at] <= bounds[1]:
            groups.append(group)
    if len(groups) > share * metadata.num_row_groups:
        return None
    if not groups:
        return metadata.schema.to_arrow_schema().empty_table()
    if ranges is not None:
        file.fetch(groups, ranges)
    source = pa.PythonFile(file, mode="r")
    return _combine_chunks(pq.ParquetFile(source, metadata=metadata).read_row_groups(groups))


def read_by_row_group(store: ObjectStore, info: SstInfo, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield those of `columns` that a file has, a row group at a time, each read when it is asked for.

    A file without sections is read as a whole: it has one row group, or is of an older release. Raises CorruptObject.
    """
    if not info.sections:
        yield read_sst(store, info, list(columns))
        return
    file = SectionFile(store, info)
    metadata = file.read_metadata()
    parquet = pq.ParquetFile(pa.PythonFile(file, mode="r"), metadata=metadata)
    known = set(parquet.schema_arrow.names)
    for group in range(metadata.num_row_groups):
        yield _combine_chunks(parquet.read_row_group(group, [name for name in columns if name in known]))
        file.forget()


def read_hash_range(
    store: ObjectStore, info: SstInfo, columns: Sequence[str], hash_range: tuple[int, int]
) -> pa.Table:
    """Return those of `columns` that a file with sections has, of the row groups that reach into a range of hashes: by two
    requests, however many they are. Raises CorruptObject.
    """
    file = SectionFile(store, info)
    metadata = file.read_metadata()
    groups = [n for n in range(metadata.num_row_groups) if _is_in_range(metadata.row_group(n), hash_range)]
    schema = metadata.schema.to_arrow_schema()
    known = [name for name in columns if name in schema.names]
    if not groups:
        return schema.empty_table().select(known)
    file.fetch_between(groups[0], groups[-1])
    parquet = pq.ParquetFile(pa.PythonFile(file, mode="r"), metadata=metadata)
    return _combine_chunks(parquet.read_row_groups(groups, known))


def _is_in_range(group: pq.RowGroupMetaData, hash_range: tuple[int, int]) -> bool:
    bounds = _read_bounds(group, HASH)
    return bounds is None or (bounds[0] <= hash_range[1] and bounds[1] >= hash_range[0])


def _read_bounds(group: pq.RowGroupMetaData, name: str) -> tuple[Any, Any] | None:
    for column in range(group.num_columns):
        chunk = group.column(column)
        if chunk.path_in_schema == name and chunk.statistics is not None and chunk.statistics.has_min_max:
            if chunk.statistics.null_count:
                return None
            return chunk.statistics.min, chunk.statistics.max
    return None


def _combine_chunks(rows: pa.Table) -> pa.Table:
    return pa.Table.from_arrays([one_chunk(column) for column in rows.columns], schema=rows.schema)


def list_sections(data: pa.Buffer) -> tuple[tuple[int, int], ...]:
    """Return where each row group of a Parquet file ends, and the footer, each with its checksum; none for a single group."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    if metadata.num_row_groups < 2:
        return ()
    starts = [_find_start(metadata.row_group(group)) for group in range(1, metadata.num_row_groups)]
    footer = len(data) - _TAIL.size - _TAIL.unpack_from(data, len(data) - _TAIL.size)[0]
    ends = [*starts, footer, len(data)]
    view = memoryview(data)
    return tuple(
        (end, xxhash.xxh3_64_intdigest(view[start:end])) for start, end in itertools.pairwise([0, *ends])
    )


def _find_start(group: pq.RowGroupMetaData) -> int:
    chunks = [group.column(column) for column in range(group.num_columns)]
    return min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
