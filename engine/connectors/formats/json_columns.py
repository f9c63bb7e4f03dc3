"""Objects of JSON as columns at once, where none of them asks for more care than that: the quick road beside `json_reader`.

What it reads it reads as `read_objects` does, but for the types of numbers. Whatever might differ is left to that.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from engine.arrow import to_mask
from engine.connectors.formats.debezium import CHANGE, describe_operation
from engine.connectors.formats.file_format import FileRows, format_raw
from engine.hummock.rows.ordering import one_chunk

_NUMBERS_OF_TEXTS = (b"NaN", b"Infinity")
_ABSENT = msgspec.Raw(b"")
_MOST_OPENED = 100
"""Of a text with more lists and objects than so many it is not known how deep they are: Arrow's reader has no end to that but
that of its stack, which ends the process."""


def are_flat(kinds: Mapping[str, pa.DataType]) -> bool:
    """Tell whether objects may be read at once for columns of these types; not without any."""
    return bool(kinds) and all(_choose_kind(kind) is not None for kind in kinds.values())


def read_flat_objects(
    texts: Sequence[bytes], places: Sequence[int], kinds: Mapping[str, pa.DataType]
) -> FileRows | None:
    """Return the rows of texts that hold an object each, None if they are to be read one by one.

    `kinds` are the types that the table has for the columns that are asked for; texts stay texts, numbers become numbers.
    """
    read = {name: chosen for name, kind in kinds.items() if (chosen := _choose_kind(kind)) is not None}
    if not texts or not are_flat(kinds):
        return None
    data = b"\n".join(texts)
    if not _are_braced(data, texts):
        return None
    if any(word in data for word in _NUMBERS_OF_TEXTS) or not _is_utf8(data) or _may_be_deep(data, texts):
        return None
    table = _read_table(data, pa.schema(list(read.items())))
    if table is None or table.num_rows != len(texts):
        return None
    columns = {name: one_chunk(table.column(name)) for name in read}
    others = tuple(name for name in table.column_names if name not in read)
    if {name.lower() for name in others} & {name.lower() for name in read}:
        return None
    if not all(_is_exact(columns[name], kinds[name]) for name in read):
        return None
    empty = np.logical_and.reduce([to_mask(column.is_null()) for column in columns.values()])
    if empty.any():
        return None  # whether such a row has no column of the table, or nulls in them, is not known here
    return FileRows(
        columns,
        len(texts),
        lambda row: (places[row], format_raw(texts[row])),
        names=(*columns, *others),
        records=len(texts),
        lines=np.asarray(places, dtype=np.int64),
        by_row=True,
    )


class _Change(msgspec.Struct, gc=False):
    """What Debezium tells of a change."""

    op: Literal["c", "r", "u", "d"]
    before: msgspec.Raw = _ABSENT
    after: msgspec.Raw = _ABSENT


class _Envelope(msgspec.Struct, gc=False):
    """A change, or a schema around one."""

    op: Literal["c", "r", "u", "d"] | msgspec.UnsetType = msgspec.UNSET
    before: msgspec.Raw = _ABSENT
    after: msgspec.Raw = _ABSENT
    payload: _Change | msgspec.UnsetType = msgspec.UNSET


_ENVELOPES = msgspec.json.Decoder(_Envelope)


def read_flat_changes(
    texts: Sequence[bytes], places: Sequence[int], kinds: Mapping[str, pa.DataType]
) -> FileRows | None:
    """Return the rows of texts that hold a change of Debezium each, None if they are to be read one by one."""
    data = b"\n".join(texts)
    if not _is_utf8(data) or _may_be_deep(data, texts):
        return None
    rows, words = list[bytes](), list[str]()
    try:
        for envelope in map(_ENVELOPES.decode, texts):
            change = envelope if envelope.payload is msgspec.UNSET else envelope.payload
            if change is not envelope and envelope.op is not msgspec.UNSET:
                return None
            is_delete, word = describe_operation(change.op)
            rows.append(bytes(change.before if is_delete else change.after))
            words.append(word)
    except (msgspec.MsgspecError, RecursionError, KeyError):
        return None
    found = read_flat_objects(rows, places, kinds)
    if found is None:
        return None
    return replace(
        found,
        columns={**found.columns, CHANGE: pa.array(words, pa.string())},
        names=(*found.names, CHANGE),
        locate_row=lambda row: (places[row], format_raw(texts[row])),
    )


def _are_braced(data: bytes, texts: Sequence[bytes]) -> bool:
    """Tell whether each text, of which `data` are the lines, begins and ends with a brace."""
    breaks = len(texts) - 1
    if data.count(b"\n") == breaks:  # they are those between texts
        return data[:1] == b"{" and data[-1:] == b"}" and data.count(b"}\n{") == breaks
    return all(text[:1] == b"{" and text[-1:] == b"}" for text in texts)


def _choose_kind(kind: pa.DataType) -> pa.DataType | None:
    """Return as what values of a column are read, None for one of which each value is looked at."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_float64(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return kind
    is_time = pa.types.is_temporal(kind) and not pa.types.is_duration(kind)
    return pa.string() if is_time else None


def _may_be_deep(data: bytes, texts: Sequence[bytes]) -> bool:
    """Tell whether lists and objects of a text may be nested deeper than is read here."""
    if data.count(b"[") + data.count(b"{") - len(texts) < _MOST_OPENED:
        return False
    return any(text.count(b"[") + text.count(b"{") > _MOST_OPENED for text in texts)


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _read_table(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """Return the objects as Arrow reads them, None where it does not."""
    try:
        return pa_json.read_json(
            io.BytesIO(data),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _is_exact(column: pa.Array[Any], kind: pa.DataType) -> bool:
    """Tell whether numbers are what their texts say, and fit into the table's type."""
    if pa.types.is_floating(column.type):
        return bool(np.isfinite(column.drop_null().to_numpy(zero_copy_only=False)).all())
    if pa.types.is_integer(column.type) and kind != pa.int64():
        try:
            column.cast(kind)
        except pa.ArrowInvalid:
            return False
    return True
