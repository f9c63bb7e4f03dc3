"""Columns and types of texts, by what a sample of them holds; Arrow tells the types."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from engine.connectors.formats.debezium import DebeziumChange, parse_change
from engine.connectors.formats.file_format import FileOptions, MalformedFile

_DELIMITERS = ",;\t|"


def find_delimiter(data: bytes) -> str:
    """Return the delimiter of a CSV text in UTF-8: the one that its first line has most."""
    first = data.partition(b"\n")[0].decode()
    return max(_DELIMITERS, key=first.count)


def infer_csv_schema(data: bytes, options: FileOptions) -> pa.Schema:
    """Return the columns of a CSV text in UTF-8; raises MalformedFile or ArrowInvalid for what cannot be read."""
    if options.fields == ():
        raise MalformedFile("without a header nothing names its fields: say columns = 'a, b'")
    if options.quote != '"' or options.escape or len(options.delimiter) > 1:
        raise MalformedFile(
            "it is written in a way of its own, in which its types cannot be told: list the columns"
        )
    names = None if options.fields is None else list(options.fields)
    read = pyarrow.csv.ReadOptions(block_size=len(data) + 1, column_names=names)
    parse = pyarrow.csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True)
    convert = pyarrow.csv.ConvertOptions(null_values=list(options.nulls), strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(data), read, parse, convert).schema


def infer_json_schema(texts: Sequence[bytes]) -> tuple[pa.Schema, bool]:
    """Return the columns of objects of JSON, and whether they are changes of Debezium, whose rows count.

    Raises ValueError, of which ArrowInvalid is one, for what is no object, or has no type that all share.
    """
    try:
        return _infer_json_schema([json.loads(text) for text in texts if text.strip()])
    except RecursionError as error:
        raise ValueError("its values are nested too deep to tell their types") from error


def _infer_json_schema(objects: Sequence[Any]) -> tuple[pa.Schema, bool]:
    if not objects or any(not isinstance(one, dict) for one in objects):
        raise ValueError("it holds no objects of JSON")
    changes = [parse_change(one) for one in objects if "op" in one or isinstance(one.get("payload"), dict)]
    rows = [one.row for one in changes if isinstance(one, DebeziumChange)]
    is_debezium = len(rows) == len(objects)
    lines = b"\n".join(json.dumps(one).encode() for one in (rows if is_debezium else objects))
    block = pyarrow.json.ReadOptions(block_size=len(lines) + 1)
    return pyarrow.json.read_json(io.BytesIO(lines), read_options=block).schema, is_debezium
