"""CSV files in batches: records are found first, then Arrow reads the columns that are asked for."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from engine.arrow import Column, build_arrow_table
from engine.connectors.formats.csv_dialect import CsvDialect, FoldedBlocks
from engine.connectors.formats.csv_records import NEWLINE, WRONG_QUOTE, CsvRecords, find_records
from engine.connectors.formats.file_format import (
    OTHER_ENCODING,
    BadLine,
    FileOptions,
    FileRows,
    MalformedFile,
    format_raw,
)
from engine.connectors.formats.read_limits import SETTING, ReadLimits, format_bytes
from engine.connectors.formats.text_blocks import CR, CRLF, TextBlocks

_RETURN = ord("\r")
_ESCAPES_NOTHING = -2


@dataclass(frozen=True)
class _CsvLayout:
    """What every batch of a file has in common."""

    names: tuple[str, ...]
    requested: tuple[int, ...]
    options: FileOptions
    limits: ReadLimits
    dialect: CsvDialect
    headed: bool

    def explain_bad_byte(self, byte: int) -> str:
        """Return why a line is no text."""
        if self.options.encoding is not None:
            return f"the line is not {self.options.encoding}"
        return f"the line is not UTF-8: it holds the byte {byte:#04x}; {OTHER_ENCODING}"


def read_csv(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0) -> Iterator[FileRows]:
    """Yield the rows of a CSV file from record `skip` on; raises MalformedFile for a header that can't be used."""
    dialect = CsvDialect.of_options(options)
    text = FoldedBlocks(TextBlocks(file, limits.block, limits.row * dialect.delimiter_size), dialect)
    layout, data, breaks, line = _read_layout(text, dialect, options, limits)
    started = False
    while True:
        block = text.read_block()
        final = not block
        data += block
        breaks = breaks if final else np.concatenate([breaks, text.breaks])
        found = _find_records(data, len(layout.names), dialect, limits, final=final)
        passed, skip = min(skip, len(found)), max(skip - len(found), 0)
        if len(found) > passed or (
            final and not started
        ):  # a header alone may be a row of a file without one
            yield _read_batch(data, found.skip_first(passed), breaks, line, layout)
            started = True
        lines = data.count(b"\n", 0, found.used)
        line, breaks, data = line + lines, breaks[lines:], data[found.used :]
        if final:
            return


def _find_records(
    data: bytes, width: int, dialect: CsvDialect, limits: ReadLimits, *, final: bool
) -> CsvRecords:
    """Find the records of a text."""
    plain = dialect.normalize(data, final=final)
    found = find_records(plain, width, dialect.delimiter_byte, limits.row, final)
    if dialect.escape:  # escaped line breaks count as lines
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE)
        found = replace(found, lines=np.searchsorted(breaks, found.starts))
        if final and len(found) and found.ends[-1] == len(data) - 1 and dialect.ends_in_escape(data):
            found.fields[-1] = _ESCAPES_NOTHING
    return found


def _read_layout(
    text: FoldedBlocks, dialect: CsvDialect, options: FileOptions, limits: ReadLimits
) -> tuple[_CsvLayout, bytes, np.ndarray, int]:
    """Return the layout, the text behind the header, what its lines end with, and the number of its first line."""
    data, breaks = b"", text.breaks
    if options.fields is not None:
        requested = options.locate_columns(options.fields, "the fields' names have")
        return (
            _CsvLayout(options.fields, tuple(requested), options, limits, dialect, headed=False),
            data,
            breaks,
            1,
        )
    while True:
        block = text.read_block()
        data += block
        breaks = np.concatenate([breaks, text.breaks]) if block else breaks
        found = _find_records(data, 0, dialect, limits, final=not block)
        if len(found):
            break
        if not block:
            raise MalformedFile("the file has no header line")
    start, end, line = (int(part[0]) for part in (found.starts, found.ends, found.lines))
    names = _parse_header(data[start:end], line + 1, dialect, options) if found.fields[0] > 0 else None
    if names is None or end - start > limits.row:
        raise MalformedFile(f"line {line + 1}, the header, can't be read")
    requested = options.locate_columns(names, "the header names")
    lines = data.count(b"\n", 0, end + 1)
    layout = _CsvLayout(tuple(names), tuple(requested), options, limits, dialect, headed=True)
    return layout, data[end + 1 :], breaks[lines:], 1 + lines


def _parse_header(raw: bytes, line: int, dialect: CsvDialect, options: FileOptions) -> list[str] | None:
    try:
        return dialect.parse_header(raw)
    except UnicodeDecodeError as error:
        if options.encoding is not None:
            raise MalformedFile(f"the file is not {options.encoding} (line {line})") from None
        raise MalformedFile(
            f"the file is not UTF-8: line {line} holds the byte {raw[error.start]:#04x}; {OTHER_ENCODING}"
        ) from None


def _read_batch(
    data: bytes, found: CsvRecords, breaks: np.ndarray, line: int, layout: _CsvLayout
) -> FileRows:
    """Read the records of a text whose first line has this number, and whose lines end with these breaks."""
    too_long = (found.ends - found.starts) > layout.limits.row
    good = np.flatnonzero((found.fields == len(layout.names)) & ~too_long)
    columns, refused = _read_columns(*_restore_line_breaks(data, found, breaks, layout.dialect), good, layout)
    if refused:
        good = good[~np.isin(good, list(refused))]

    def locate_row(row: int) -> tuple[int, str]:
        at = good[row]
        return line + int(found.lines[at]), format_raw(
            layout.dialect.restore_bytes(data[found.starts[at] : found.ends[at]])
        )

    bad = np.ones(len(found), dtype=bool)
    bad[good] = False
    bad_lines = tuple(_list_bad_lines(data, found, np.flatnonzero(bad), refused, line, layout))
    return FileRows(columns, len(good), locate_row, bad_lines, layout.names, len(found))


def _restore_line_breaks(
    data: bytes, found: CsvRecords, breaks: np.ndarray, dialect: CsvDialect
) -> tuple[bytes, CsvRecords]:
    """Return a text and its records with the line breaks within records as they stand in the file, escaped where they were."""
    if not breaks.any() or not len(found):
        return data, found
    codes = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(codes[: found.used] == NEWLINE)
    kinds = breaks[: len(newlines)]
    record = np.minimum(np.searchsorted(found.ends, newlines), len(found) - 1)
    inside = (found.starts[record] < newlines) & (newlines < found.ends[record])
    alone, paired = newlines[inside & (kinds == CR)], newlines[inside & (kinds == CRLF)]
    if not len(alone) and not len(paired):
        return data, found
    codes = codes.copy()
    codes[alone] = _RETURN
    escaped = paired[np.isin(paired, dialect.find_escaped(data))]
    places = np.concatenate([paired, escaped])
    marks = np.repeat(np.array([_RETURN, ord(dialect.escape or " ")], np.uint8), [len(paired), len(escaped)])
    whole = np.insert(codes, places, marks).tobytes()  # those at one place stay in this order
    places.sort()
    starts, ends = (at + np.searchsorted(places, at) for at in (found.starts, found.ends))
    return whole, replace(found, starts=starts, ends=ends, used=found.used + len(places))


def _list_bad_lines(
    data: bytes, found: CsvRecords, bad: np.ndarray, refused: dict[int, str], line: int, layout: _CsvLayout
) -> Iterator[BadLine]:
    longest = layout.limits.row
    columns = (part[bad].tolist() for part in (found.starts, found.ends, found.lines, found.fields))
    for index, start, end, behind, fields in zip(bad.tolist(), *columns, strict=True):
        if end - start > longest:
            reason = f"the line is longer than {format_bytes(longest)}, a share of {SETTING}"
        elif fields < 0:
            reason = WRONG_QUOTE if fields != _ESCAPES_NOTHING else "nothing follows the escape at its end"
        else:
            due = f"but {'the header names' if layout.headed else 'there are names for'} {len(layout.names)}"
            reason = refused.get(index) or f"{fields} fields, {due}"
        yield BadLine(line + behind, reason, format_raw(layout.dialect.restore_bytes(data[start:end])))


def _read_columns(
    data: bytes, found: CsvRecords, good: np.ndarray, layout: _CsvLayout
) -> tuple[dict[str, Column], dict[int, str]]:
    """Read the columns of the good records; also return why some of them can't be read after all."""
    refused: dict[int, str] = {}
    try:
        return _parse_columns(data, found, good, layout), refused
    except pa.ArrowInvalid:
        for index in good.tolist():
            try:
                raw = layout.dialect.restore_bytes(data[found.starts[index] : found.ends[index]])
                raw.decode()
            except UnicodeDecodeError as error:
                refused[index] = layout.explain_bad_byte(raw[error.start])
    good = good[~np.isin(good, list(refused))]
    tables = list(_parse_halves(data, found, good, layout, refused))
    table = pa.concat_tables([build_arrow_table(columns) for columns in tables]) if tables else None
    if table is None:
        table = build_arrow_table(_parse_columns(data, found, good[:0], layout))
    return dict(zip(table.column_names, table.columns, strict=True)), refused


def _parse_halves(
    data: bytes, found: CsvRecords, good: np.ndarray, layout: _CsvLayout, refused: dict[int, str]
) -> Iterator[Mapping[str, Column]]:
    """Parse; where that fails, halve until the records that can't be read stand alone."""
    if not len(good):
        return
    try:
        yield _parse_columns(data, found, good, layout)
        return
    except pa.ArrowInvalid as error:
        if len(good) == 1:
            refused[int(good[0])] = f"not a CSV record: {error}"
            return
    half = len(good) // 2
    yield from _parse_halves(data, found, good[:half], layout, refused)
    yield from _parse_halves(data, found, good[half:], layout, refused)


def _parse_columns(data: bytes, found: CsvRecords, good: np.ndarray, layout: _CsvLayout) -> dict[str, Column]:
    """Return the columns that are asked for as texts; raises ArrowInvalid if a record can't be read."""
    raw_names = [f"c{index}" for index in range(len(layout.names))]
    requested = layout.requested
    text = _join_records(data, found, good)
    if not requested or not text:
        return {layout.names[at]: pa.nulls(len(good), pa.string()) for at in requested}
    dialect, nulls = layout.dialect, layout.options.nulls
    text, delimiter = dialect.prepare_for_arrow(text, nulls)
    table = pacsv.read_csv(
        io.BytesIO(text),
        read_options=pacsv.ReadOptions(column_names=raw_names, block_size=len(text) + 1, use_threads=False),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter,
            quote_char=dialect.quote or False,
            escape_char=dialect.escape or False,
            newlines_in_values=bool(dialect.escape or (dialect.quote and dialect.quote.encode() in text)),
            ignore_empty_lines=False,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types={raw_names[at]: pa.string() for at in requested},
            include_columns=[raw_names[at] for at in requested],
            null_values=dialect.select_nulls(nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )
    if table.num_rows != len(good):
        raise pa.ArrowInvalid(f"{table.num_rows} rows were found in {len(good)} records")
    columns = (dialect.restore_delimiters(column, delimiter) for column in table.columns)
    return {layout.names[at]: column for at, column in zip(requested, columns, strict=True)}


def _join_records(data: bytes, found: CsvRecords, good: np.ndarray) -> bytes:
    """Return the text of some records; those that follow each other are copied in one."""
    if not len(good):
        return b""
    touching = np.flatnonzero(found.starts[good[1:]] != found.ends[good[:-1]] + 1) + 1
    firsts: Sequence[int] = [0, *touching.tolist()]
    lasts = [*(touching - 1).tolist(), len(good) - 1]
    return b"".join(
        data[found.starts[good[first]] : found.ends[good[last]] + 1]
        for first, last in zip(firsts, lasts, strict=True)
    )
