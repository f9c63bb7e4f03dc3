"""Parquet files as all writers make them: every encoding, times of 12 bytes, and row groups that hold less than they say."""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.formats import parquet_reader
from engine.connectors.formats.file_format import BadLine, FileOptions, MalformedFile
from engine.connectors.formats.read_limits import ReadLimits

LIMITS = ReadLimits()
ENCODINGS = ("PLAIN", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT", "RLE")  # fmt: skip
COLUMNS: Mapping[str, pa.Array[Any]] = {
    "truth": pa.array([True, None, False]),
    "small": pa.array([1, None, -3], pa.int32()),
    "large": pa.array([1, None, -(2**62)], pa.int64()),
    "half": pa.array([0.5, None, -1.0], pa.float32()),
    "real": pa.array([0.5, None, -1e300]),
    "text": pa.array(["one", None, "once"]),
    "longer": pa.array(["one", None, "once"], pa.large_string()),
    "view": pa.array(["one", None, "once"], pa.string_view()),
    "bytes": pa.array([b"\0", None, b"\xff"]),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "price": pa.array([1, None, -3]).cast(pa.decimal128(30, 2)),
    "at": pa.array([1, None, -3], pa.timestamp("us")),
}
EPOCH_DAY = 2_440_588


def read(data: bytes, wanted: str | None = None, skip: int = 0) -> tuple[dict[str, list[Any]], list[BadLine]]:
    """Return the columns of a file and what was set aside."""
    options = FileOptions(columns=None if wanted is None else frozenset({wanted}))
    columns: dict[str, list[Any]] = {}
    bad: list[BadLine] = []
    for rows in parquet_reader.read_parquet(io.BytesIO(data), options, LIMITS, skip):
        bad += rows.bad
        for name, column in rows.columns.items():
            columns.setdefault(name, []).extend(column.to_pylist())
    return columns, bad


def written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_of_every_type_is_read(encoding: str) -> None:
    tried = 0
    for name, column in COLUMNS.items():
        for table in (pa.table({name: column}), pa.table({name: pa.array([[one] for one in column])})):
            if table.schema.field(0).type == pa.list_(column.type):
                path = f"{name}.list.element"
            elif pa.types.is_list(table.schema.field(0).type):
                continue  # Arrow made another type of it
            else:
                path = name
            for version in ("1.0", "2.0"):
                try:
                    data = written(
                        table,
                        use_dictionary=False,
                        column_encoding={path: encoding},
                        data_page_version=version,
                    )
                except (OSError, pa.ArrowException):
                    continue  # the encoding is none of the type
                assert read(data) == (table.to_pydict(), []), (name, version)
                tried += 1
    assert tried >= 2


def test_texts_are_read_from_any_row_on_however_they_are_encoded() -> None:
    texts = [f"text {at % 7}" for at in range(40)]
    sinks = []
    for encoding in (
        {"use_dictionary": True},
        {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}},
    ):
        sinks.append(written(pa.table({"v": texts}), row_group_size=10, **encoding))
    for data in sinks:
        assert read(data) == ({"v": texts}, [])
        assert read(data, skip=25) == ({"v": texts[25:]}, [])


def test_a_long_text_of_which_others_begin_with_all_is_told_row_by_row() -> None:
    longest = LIMITS.row + 1
    data = written(
        pa.table({"v": ["x" * longest, "x" * longest + "y", "z"]}),
        use_dictionary=False,
        column_encoding={"v": "DELTA_BYTE_ARRAY"},
    )
    columns, bad = read(data)
    assert (columns, [one.line for one in bad]) == ({"v": ["z"]}, [1, 2])


def footer_with(data: bytes, at: int, old: int, new: int) -> bytes:
    """Return a file whose footer has another number in place of the one with this place among all that are alike."""
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    needle, held = varint(old), data[start:-8]
    places = [place for place in range(len(held)) if held.startswith(needle, place)]
    place = places[at]
    changed = held[:place] + varint(new) + held[place + len(needle) :]
    return data[:start] + changed + data[-8:]


def varint(number: int) -> bytes:
    """Return a number of two bytes as a footer holds it."""
    zigzag = number * 2
    return bytes([zigzag & 0x7F | 0x80, zigzag >> 7])


ROWS = 77
PAGE_OF = b",\x15"
"""Before the number of a data page's values."""


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A file of two columns and one row group."""
    table = pa.table({"a": list(range(ROWS)), "b": [f"b{at}" for at in range(ROWS)]})
    data = written(table, compression="none", write_statistics=False, use_dictionary=False)
    assert len(read(data)[0]["a"]) == ROWS
    return data


def test_a_row_group_with_fewer_rows_than_its_footer_says_is_told(whole: bytes) -> None:
    more = footer_with(whole, -1, ROWS, ROWS + 1)
    assert pq.read_metadata(io.BytesIO(more)).row_group(0).num_rows == ROWS + 1
    with pytest.raises(
        MalformedFile, match=r"row group 0 has 78 rows by its footer, but only 77 can be read"
    ):
        read(more)


def test_a_file_whose_row_groups_have_fewer_rows_than_it_says_is_told(whole: bytes) -> None:
    with pytest.raises(MalformedFile, match="the file has 78 rows by its footer, but its row groups have 77"):
        read(footer_with(whole, 0, ROWS, ROWS + 1))


@pytest.mark.parametrize("values", [0, ROWS - 1])
def test_a_row_group_with_a_short_column_is_told_and_the_others_may_be_read(
    whole: bytes, values: int
) -> None:
    page = whole.replace(PAGE_OF + varint(ROWS), PAGE_OF + varint(values), 1)
    short = footer_with(page, 1, ROWS, values)
    group = pq.read_metadata(io.BytesIO(short)).row_group(0)
    assert (group.num_rows, group.column(0).num_values, group.column(1).num_values) == (ROWS, values, ROWS)
    for wanted in (None, "a"):
        with pytest.raises(MalformedFile):
            read(short, wanted)
    assert len(read(short, "b")[0]["b"]) == ROWS


TIMES = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1000, 1, 1),
    datetime.datetime(1677, 9, 21, 0, 12, 43),
    datetime.datetime(1816, 3, 30, 5, 56, 8, 66278),
    datetime.datetime(2024, 5, 6, 7, 8, 9, 123456),
    datetime.datetime(2262, 4, 11, 23, 47, 17),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
]


@pytest.mark.parametrize("stored", [True, False])
def test_times_of_12_bytes_are_right_over_all_years_alone_and_in_lists_structs_and_maps(stored: bool) -> None:
    kind = pa.timestamp("us")
    times = pa.array(TIMES, kind)
    table = pa.table(
        {
            "t": times,
            "l": pa.array([[one, None, one] for one in TIMES], pa.list_(kind)),
            "s": pa.array([{"a": one, "b": 1} for one in TIMES], pa.struct([("a", kind), ("b", pa.int32())])),
            "m": pa.array([[(1, one)] for one in TIMES], pa.map_(pa.int32(), kind)),
        }
    )
    data = written(table, use_deprecated_int96_timestamps=True, store_schema=stored, row_group_size=3)
    assert read(data) == (table.to_pydict(), [])
    assert read(data, skip=5)[0]["t"] == TIMES[5:]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("day", [-105_862_232, 2**31 - 1, -(2**31), 120_000_000])
def test_a_time_of_12_bytes_beyond_microseconds_is_told_and_the_rows_beside_it_are_read(
    day: int, nested: bool
) -> None:
    times = pa.array([TIMES[4], TIMES[1], TIMES[4]], pa.timestamp("us"))
    columns = {"t": pa.array([[one] for one in times.to_pylist()], pa.list_(times.type)) if nested else times}
    data = written(
        pa.table({"id": [1, 2, 3], **columns}),
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    days = EPOCH_DAY + (TIMES[1] - datetime.datetime(1970, 1, 1)).days  # type: ignore[operator]
    early = struct.pack("<qi", 0, days)
    assert data.count(early) == 1
    columns_read, bad = read(data.replace(early, struct.pack("<qi", 0, day)))
    assert columns_read["id"] == [1, 3]
    assert [(one.line, "column t" in one.reason) for one in bad] == [(2, True)]
