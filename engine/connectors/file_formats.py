"""CSV, JSON lines and Parquet files as columns of raw values, with the line and the text of every row that is asked for.

What a file's format says of a row (too few fields, no JSON object) is told here; what a table says of it is not known here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from engine.errors import SourceError

SUFFIXES = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}
FORMATS = ("csv", "json", "parquet")
LONGEST_QUOTED_LINES = 1000


@dataclass(frozen=True)
class BadLine:
    """A line that the format refuses; line 0 stands for the whole file."""

    line: int
    reason: str
    raw: str


@dataclass(frozen=True)
class FileRows:
    """The rows of one file; `place(i)` is the line (Parquet: the row, from 1) and the text of row i."""

    columns: dict[str, pa.Array | pa.ChunkedArray]
    rows: int
    place: Callable[[int], tuple[int, str]]
    bad: tuple[BadLine, ...] = field(default=())


class MalformedFile(SourceError):
    """A file as a whole can't be read; its message is the reason of its dead letter."""


@dataclass(frozen=True)
class FileOptions:
    """How a file is read: its format (None: by its suffix), the texts that mean null, and the CSV delimiter."""

    format: str | None = None
    nulls: tuple[str, ...] = ("",)
    delimiter: str = ","


def format_of(path: Path, options: FileOptions) -> str | None:
    """Return the format of a file, or None if its suffix is none that is read."""
    found = SUFFIXES.get(path.suffix.lower())
    if options.format is None or found is None:
        return found
    return found if found == options.format else None


def read_file(path: Path, options: FileOptions) -> FileRows:
    """Read one file; raises MalformedFile if nothing of it can be read, OSError if it can't be opened."""
    match format_of(path, options):
        case "csv":
            return _read_csv(_text(path), options)
        case "json":
            return _read_json(_text(path))
        case "parquet":
            return _read_parquet(path)
        case _:
            raise MalformedFile(f"files ending in {path.suffix or 'nothing'} are not read")


def _text(path: Path) -> str:
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise MalformedFile("the file is UTF-16: write it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise MalformedFile(
            f"the file is not UTF-8: line {line} holds the byte {data[error.start]:#04x}"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


# ---- CSV


def _read_csv(text: str, options: FileOptions) -> FileRows:
    header = next(_records(text.split("\n", LONGEST_QUOTED_LINES), 0, options.delimiter), None)
    if header is None:
        raise MalformedFile("the file has no header line")
    first, fields, _ = header
    if fields is None:
        raise MalformedFile(f"line {first}, the header, can't be read")
    names = [name.strip() for name in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MalformedFile(f"the header names {', '.join(twice)} twice")
    columns = None if text.count('"') % 2 else _parse_fast(text, names, options)
    if columns is not None:
        places = _LazyPlaces(text, len(names), options.delimiter)
        rows = len(next(iter(columns.values())))
        return FileRows(columns, rows, places)
    return _parse_line_by_line(text, names, options)


def _parse_fast(
    text: str, names: Sequence[str], options: FileOptions
) -> dict[str, pa.Array | pa.ChunkedArray] | None:
    """Parse the file as text columns by Arrow; None if a line has too few or too many fields."""
    data = text.encode()
    raw_names = [f"c{index}" for index in range(len(names))]
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                column_names=raw_names, block_size=max(1 << 20, _longest_block(data))
            ),
            parse_options=pacsv.ParseOptions(delimiter=options.delimiter, newlines_in_values='"' in text),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(raw_names, pa.string()),
                null_values=list(options.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    table = table.slice(1)  # the header
    return dict(zip(names, table.columns, strict=True))


def _longest_block(data: bytes) -> int:
    """Arrow wants a row in one block; a file with quotes may hold long ones, so small files are one block."""
    return len(data) + 1 if len(data) < 64 << 20 else 16 << 20


def _parse_line_by_line(text: str, names: Sequence[str], options: FileOptions) -> FileRows:
    """Parse a file with malformed lines: those are told, the rest is kept."""
    lines = text.split("\n")
    width = len(names)
    values: list[list[str | None]] = [[] for _ in names]
    places: list[tuple[int, str]] = []
    bad: list[BadLine] = []
    nulls = set(options.nulls)
    records = _records(lines, width, options.delimiter)
    next(records)  # the header
    for line, fields, raw in records:
        if fields is None:
            bad.append(BadLine(line, "a quote is not closed, or stands in the middle of a field", raw))
        elif len(fields) != width:
            bad.append(BadLine(line, f"{len(fields)} fields, but the header names {width}", raw))
        else:
            places.append((line, raw))
            for column, value in zip(values, fields, strict=True):
                column.append(None if value in nulls else value)
    columns = {name: pa.array(column, pa.string()) for name, column in zip(names, values, strict=True)}
    return FileRows(columns, len(places), places.__getitem__, tuple(bad))


def _records(lines: Sequence[str], width: int, delimiter: str) -> Iterator[tuple[int, list[str] | None, str]]:
    """Yield (line, fields, text) of each record; fields are None where quotes are wrong.

    A quote that is never closed costs one line, not the rest of the file. `width` 0 does not check the number of fields.
    """
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not line:
            continue
        raw, fields, end = line, _fields(line, delimiter), at
        while fields is None and end < len(lines) and end - at < LONGEST_QUOTED_LINES:
            raw += "\n" + lines[end]
            end += 1
            if '"' in lines[end - 1]:
                fields = _fields(raw, delimiter)
        if fields is None or (end > at and width and len(fields) != width):
            raw, fields = line, None  # the quote was a stray one: go on behind its line
        else:
            at = end
        yield number, fields, raw


def _fields(raw: str, delimiter: str) -> list[str] | None:
    try:
        return next(csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


class _LazyPlaces:
    """Line and text of a CSV file's rows, worked out when the first is asked for."""

    def __init__(self, text: str, width: int, delimiter: str) -> None:
        self._source = (text, width, delimiter)
        self._places: list[tuple[int, str]] | None = None

    def __call__(self, index: int) -> tuple[int, str]:
        if self._places is None:
            text, width, delimiter = self._source
            records = _records(text.split("\n"), width, delimiter)
            next(records)
            self._places = [(line, raw) for line, _, raw in records]
        return self._places[index] if index < len(self._places) else (0, "")


# ---- JSON lines


def _read_json(text: str) -> FileRows:
    """Read objects, one a line, or one array of them; numbers stay the text that they were written as."""
    rows: list[dict[str, Any]] = []
    places: list[tuple[int, str]] = []
    bad: list[BadLine] = []
    for line, raw, item in _json_items(text):
        if isinstance(item, dict):
            rows.append(_with_nested_text(item, raw))
            places.append((line, raw))
        else:
            bad.append(BadLine(line, item if isinstance(item, str) else "not a JSON object", raw))
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pa.array([_json_text(row.get(name)) for row in rows], pa.string()) for name in names}
    return FileRows(columns, len(rows), places.__getitem__, tuple(bad))


def _json_items(text: str) -> Iterator[tuple[int, str, object]]:
    if text.lstrip().startswith("["):
        try:
            items = json.loads(text, parse_float=str, parse_int=str)
        except json.JSONDecodeError as error:
            raise MalformedFile(f"not a JSON array: {error}") from None
        plain = json.loads(text)
        for number, item in enumerate(items, start=1):
            yield number, json.dumps(plain[number - 1]), item if isinstance(item, dict) else None
        return
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    for number, raw in enumerate(text.split("\n"), start=1):
        if not raw.strip():
            continue
        try:
            item = decoder.decode(raw)
        except (json.JSONDecodeError, RecursionError) as error:
            yield number, raw, f"not JSON: {error}"
        else:
            yield number, raw, item if isinstance(item, dict) else None


def _with_nested_text(item: dict[str, Any], raw: str) -> dict[str, Any]:
    """Keep lists and objects as JSON text whose numbers are numbers."""
    nested = [name for name, value in item.items() if isinstance(value, dict | list)]
    if not nested:
        return item
    plain = json.loads(raw)
    return item | {name: json.dumps(plain[name]) for name in nested}


def _json_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# ---- Parquet


def _read_parquet(path: Path) -> FileRows:
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowIOError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise MalformedFile(f"not a Parquet file that can be read: {str(error).splitlines()[0]}") from None
    names = table.column_names
    if len(set(names)) != len(names):
        raise MalformedFile("the file holds a column name twice")

    def place(index: int) -> tuple[int, str]:
        return index + 1, json.dumps(table.slice(index, 1).to_pylist()[0], default=str)

    return FileRows(dict(zip(names, table.columns, strict=True)), table.num_rows, place)
