"""Rows as files: Parquet or JSON lines, named by what they hold, so that writing them again changes nothing."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import io
import json
import math
from collections.abc import Container, Mapping
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from engine.arrow import Column, as_rows
from engine.connectors.sinks.address import check_reachable
from engine.connectors.sinks.contract import DeliveryResult, SinkBatch, SinkConnector, TargetContext
from engine.connectors.sinks.option_parsing import build_option_error, check_place, parse_address, parse_count
from engine.connectors.sinks.options import (
    COMPRESSIONS,
    FORMATS,
    ROWS_PER_FILE,
    Compression,
    SinkOptions,
    default_compression,
)
from engine.errors import SinkError
from engine.hummock.object_store import ObjectStore
from engine.log_store.changes import DELETE, Changes, split_rows
from engine.log_store.sink import LogRange, VnodeGroup
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.typing.json_documents import is_document
from engine.sql.typing.types import to_arrow

MOST_BYTES = 160
"""So long a sink's name may be in its files' names, of which file systems take 255 bytes: epochs and numbers follow it."""


class FileSink:
    """Writes a range of the log as files `<sink>-<start>-<after>-<upto>-v<first>-<last>-<part>.<format>`.

    Name and rows of a file follow from the log, and from where the sink began, alone: a delivery that was cut off is repeated
    with the same files, and those that are there already are left as they are. A sink that begins anew has a higher `start`, so
    its files come after all that were written before, and whoever reads them knows from where the rows come again.
    """

    each_epoch = True
    promises = False

    def __init__(self, relation: Relation, objects: ObjectStore, start: int) -> None:
        self.start = start
        self.name, self.options = relation.name, SinkOptions.of(relation.options)
        self._schema = pa.schema([(column.name, to_arrow(column.type)) for column in relation.columns])
        self._documents = frozenset(column.name for column in relation.columns if is_document(column))
        self._objects = objects
        form, compression = self.options.format, self.options.compression
        self._suffix = form if form == "parquet" else form + COMPRESSIONS[compression]

    def take(self, portion: SinkBatch) -> DeliveryResult:
        """Write the files of a range; durable when it returns. Raises SinkError if another sink's file is in the way."""
        part, group = portion.log_range, portion.group
        tables = (table for one in portion.changes if (table := self._build_rows(one, part.upto)).num_rows)
        rows = files = size = 0
        for number, piece in enumerate(split_rows(tables, self.options.rows_per_file)):
            data = encode_rows(piece, self.options.format, self.options.compression, self._documents)
            name = build_file_prefix(self.name, self.start)
            self._put_file(build_file_name(name, part, group, number, self._suffix), data)
            rows, files, size = rows + piece.num_rows, files + 1, size + len(data)
        return DeliveryResult(rows, files, size)

    def _build_rows(self, changes: Changes, epoch: int) -> pa.Table:
        if not self.options.upsert:
            # What is no insertion is here by force_append_only: new versions of a row are rows, deletions are not.
            rows = changes.filter(changes.operations != DELETE).rows
            return pa.Table.from_arrays(rows.columns, schema=self._schema)
        epochs = pa.repeat(pa.scalar(epoch, pa.int64()), len(changes))
        columns: list[Column] = [changes.name_operations(), *changes.rows.columns, epochs]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _put_file(self, path: str, data: bytes) -> None:
        if self._objects.put_if_absent(path, data):
            return
        there = self._objects.get(path)
        if there is None:
            raise SinkError(
                f"{self.options.url}/{path} could not be written: the answer was lost; it is tried again"
            )
        if there != data and not has_same_rows(there, data, self.options):
            raise SinkError(
                f"{self.options.url}/{path} is there with other rows: something else writes there under the name of sink "
                f"{self.name}; DROP SINK {self.name}, and create it with another name or path"
            )


FILE_OPTIONS: Mapping[str, str] = {
    "path": "the folder for the files; a relative one starts at TIDELINE_HOME",
    "url": "instead of path: file:///folder or s3://bucket/prefix",
    "format": "parquet (without it) or jsonl",
    "compression": "none, gzip or zstd; without it zstd for parquet, and none for jsonl, whose names end in .gz or .zst else",
    "rows_per_file": f"the most rows of one file; {ROWS_PER_FILE:,} without it",
}


class FileSinkConnector(SinkConnector):
    """Files in a folder or bucket, an epoch after the other."""

    name = "file"
    options = FILE_OPTIONS
    title = "Of files"
    each_epoch = FileSink.each_epoch

    def resolve_options(self, statement: CreateSink) -> dict[str, str]:
        """Return address, format and size of the files."""
        form = statement.options.get("format", FORMATS[0]).lower()
        if form not in FORMATS:
            message = f'format "{form}" is not offered'
            raise build_option_error(statement, "format", message, f"choose {' or '.join(FORMATS)}")
        rows = parse_count(statement, "rows_per_file", ROWS_PER_FILE, 1 << 31)
        compression = statement.options.get("compression", default_compression(form)).lower()
        if compression not in COMPRESSIONS:
            message = f'compression "{compression}" is not offered'
            raise build_option_error(statement, "compression", message, f"choose {', '.join(COMPRESSIONS)}")
        url = parse_address(statement)
        check_place(statement, url)
        return {
            "connector": self.name,
            "url": url,
            "format": form,
            "rows_per_file": str(rows),
            "compression": compression,
        }

    def open_target(self, opening: TargetContext) -> FileSink:
        """Open the folder."""
        url = opening.relation.options.get("url", "")
        check_reachable(url)  # a link may lead elsewhere since CREATE SINK
        return FileSink(opening.relation, opening.objects(url), opening.start)


def build_file_prefix(sink: str, start: int) -> str:
    """Return how the names of a sink's files begin; sinks from before there were beginnings have no number of one."""
    return f"{as_file_name(sink)}-{start:020d}" if start else as_file_name(sink)


def as_file_name(name: str) -> str:
    """Return a name as a part of a file's name: letters, digits, `_`, `-` and `.` stand for themselves, others as %XX.

    A name that is too long for a file's is cut, and ends in a hash of the whole. No two names give the same.
    """
    parts = (char if char.isalnum() or char in "_-" else quote(char, safe=".") for char in name)
    text = "".join(parts) if not name.startswith(".") else "%2E" + "".join(parts)[1:]
    encoded = text.encode()
    if len(encoded) <= MOST_BYTES:
        return text
    stem = encoded[: MOST_BYTES - 34].decode(errors="ignore").rstrip("%")
    return f"{stem}=={hashlib.sha256(name.encode()).hexdigest()[:32]}"


def build_file_name(sink: str, part: LogRange, group: VnodeGroup, number: int, suffix: str) -> str:
    """Return the name of a file; the names of a group are in the order of their epochs."""
    return (
        f"{sink}-{part.after:020d}-{part.upto:020d}-v{group.first:03d}-{group.last:03d}-{number:05d}.{suffix}"
    )


def encode_rows(
    rows: pa.Table, form: str, compression: Compression, documents: Container[str] = frozenset()
) -> bytes:
    """Return rows as a Parquet file or as JSON lines; the same rows give the same bytes.

    Texts of `documents`, which are json or jsonb, are values of the lines.
    """
    if form == "parquet":
        sink = io.BytesIO()
        pq.write_table(rows.combine_chunks(), sink, compression=compression)
        return sink.getvalue()
    lines = [_format_line(row, documents) for row in as_rows(rows)]
    text = ("\n".join(lines) + "\n").encode()
    if compression == "none":
        return text
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, compression) as stream:
        stream.write(text)
    return packed.getvalue().to_pybytes()


def _format_line(row: Mapping[str, Any], documents: Container[str]) -> str:
    pairs = (
        f"{_encode_json(name)}: {_flatten_document(value) if name in documents else _encode_json(to_json_value(value))}"
        for name, value in row.items()
    )
    return "{" + ", ".join(pairs) + "}"


def _encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _flatten_document(value: Any) -> str:
    """Write a text of JSON, or a list of such, in one line: within texts of it there is no line break."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flatten_document, value)) + "]"
    text = str(value)
    return text.replace("\r", " ").replace("\n", " ")


def to_json_value(value: Any) -> Any:
    """Return a value as JSON has it: decimals, dates, times and NaN as text, bytes as base64."""
    match value:
        case dict():
            return {str(name): to_json_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case decimal.Decimal():
            return format(value, "f")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return _to_seconds(value)
    return value


def _to_seconds(value: datetime.timedelta) -> int | float | str:
    """Return an interval in seconds, as text where a float is not exact."""
    micros = value // datetime.timedelta(microseconds=1)
    if micros % 1_000_000 == 0:
        return micros // 1_000_000
    exact = format(decimal.Decimal(micros).scaleb(-6).normalize(), "f")
    return float(exact) if repr(float(exact)) == exact else exact


def has_same_rows(one: bytes, other: bytes, options: SinkOptions) -> bool:
    """Tell whether two files hold the same rows: another version of the writer may lay the same rows out in another way."""
    if options.format != "parquet":
        return _decompress(one, options.compression) == _decompress(other, options.compression)
    try:
        return bool(pq.read_table(io.BytesIO(one)).equals(pq.read_table(io.BytesIO(other))))
    except pa.ArrowInvalid:
        return False


def _decompress(data: bytes, compression: Compression) -> bytes | None:
    """Return what a file of lines holds; None for one that nobody can unpack."""
    if compression == "none":
        return data
    try:
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), compression).read())
    except OSError:
        return None
