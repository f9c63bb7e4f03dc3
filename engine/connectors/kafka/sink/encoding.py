"""Changes of rows as messages: keys, values and what follows them, in JSON that Kafka as a source reads back to the same rows.

Method: a column becomes a list of what JSON has for its values, a whole column at once where that is quick; a row is then one
object of them. The key of a row is the same bytes whenever it is written, since partitions and compaction compare bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute

from engine.arrow import as_values, has_far_times
from engine.connectors.sinks.files import to_json_value
from engine.hummock.epoch import micros_of
from engine.log_store.changes import DELETE, INSERT, Changes
from engine.sql.catalog import RelationColumn
from engine.sql.typing.json_documents import is_document

_compute: Any = pyarrow.compute
_ENCODER = msgspec.json.Encoder()
PIECE_ROWS = 20_000
"""So many rows become messages at once."""
_ODD_IN_NAMES = frozenset('"\\')
_NESTED = ("array<", "map<", "struct<")


class EncodedMessage(NamedTuple):
    """A message: None as its key is none, None as its value is a tombstone."""

    key: bytes | None
    value: bytes | None


class NullKey(Exception):
    """A key that is a text has a null."""


class MessageShape(NamedTuple):
    """What the messages of a sink look like; `upsert`: changes and deletions are told, else rows are only added."""

    sink: str
    source: str
    columns: tuple[RelationColumn, ...]
    key: tuple[str, ...]
    format: Literal["json", "debezium"]
    key_format: Literal["json", "text"]
    upsert: bool
    tombstones: bool


def explain_key_column(column: RelationColumn) -> str | None:
    """Return why a column cannot be in the key of messages, None if it can."""
    if is_document(column) or column.type.startswith(_NESTED):
        return f"column {column.name} is {column.visible_type}, of which one value may be written in several ways"
    return None


class MessageEncoder:
    """Makes messages of changes."""

    def __init__(self, shape: MessageShape) -> None:
        self.shape = shape
        self._names = [column.name for column in shape.columns]
        self._build_row, self._build_key = _bind_names(self._names), _bind_names(shape.key)
        self._documents = frozenset(
            c.name
            for c in shape.columns
            if is_document(c) and (shape.format == "json" or c.type.startswith("array<"))
        )

    def encode(self, changes: Changes, epoch: int, *, snapshot: bool = False) -> Iterator[EncodedMessage]:
        """Yield the messages of changes in their order; raises NullKey."""
        for first in range(0, len(changes), PIECE_ROWS):
            part = slice(first, first + PIECE_ROWS)
            piece = Changes(
                changes.operations[part],
                changes.rows.slice(first, PIECE_ROWS).rename_columns(self._names),
                changes.old.slice(first, PIECE_ROWS).rename_columns(self._names),
            )
            if not self.shape.upsert:
                piece = piece.filter(piece.operations != DELETE)
            yield from self._encode_piece(piece, epoch, snapshot)

    def _encode_piece(self, changes: Changes, epoch: int, snapshot: bool) -> Iterator[EncodedMessage]:
        operations = changes.operations.tolist()
        keys = self._encode_keys(changes.rows)
        debezium = self.shape.format == "debezium"
        rows = self._encode_rows(changes.rows)
        before: Sequence[bytes] = ()
        before_keys: Sequence[bytes | None] = keys
        if self.shape.upsert and (changes.operations != INSERT).any():
            before_keys = self._encode_keys(changes.old, changes.operations == INSERT)
            before = self._encode_rows(changes.old) if debezium else ()
        envelope = _Envelope(self.shape, epoch, snapshot) if debezium else None
        if envelope is None and (not self.shape.upsert or (changes.operations == INSERT).all()):
            yield from map(EncodedMessage._make, zip(keys, rows, strict=True))
            return
        for n, (operation, key, row) in enumerate(zip(operations, keys, rows, strict=True)):
            if not self.shape.upsert:
                yield EncodedMessage(key, envelope.wrap("c", None, row) if envelope else row)
                continue
            if operation == DELETE:
                yield from self._delete(key, row, envelope)
                continue
            moved = operation != INSERT and before_keys[n] != key
            if moved:
                yield from self._delete(before_keys[n], before[n] if before else b"", envelope)
            if envelope is None:
                yield EncodedMessage(key, row)
            elif operation == INSERT or moved:
                yield EncodedMessage(key, envelope.wrap("r" if snapshot else "c", None, row))
            else:
                yield EncodedMessage(key, envelope.wrap("u", before[n], row))

    def _delete(self, key: bytes | None, row: bytes, envelope: _Envelope | None) -> Iterator[EncodedMessage]:
        if envelope is not None:
            yield EncodedMessage(key, envelope.wrap("d", row, None))
        if self.shape.tombstones and key is not None:
            yield EncodedMessage(key, None)

    def _encode_rows(self, rows: pa.Table) -> list[bytes]:
        columns = [
            to_json_column(rows.column(name), document=name in self._documents) for name in self._names
        ]
        return _encode_objects(map(self._build_row, *columns), lines=not self._documents)

    def _encode_keys(self, rows: pa.Table, absent: np.ndarray | None = None) -> list[bytes | None]:
        """Return the key of each row; of rows that are `absent` it is none. Raises NullKey."""
        names = list(self.shape.key)
        if not names:
            return [None] * rows.num_rows
        columns = [to_json_column(_unify_zeros(rows.column(name))) for name in names]
        if self.shape.key_format == "json":
            return list(_encode_objects(map(self._build_key, *columns)))
        (values,) = columns
        gone = absent if absent is not None else np.zeros(len(values), bool)
        found: list[bytes | None] = []
        for value, is_absent in zip(values, gone.tolist(), strict=True):
            if value is None and not is_absent:
                raise NullKey(names[0])
            found.append(None if value is None else _to_text(value))
        return found


def _bind_names(names: Sequence[str]) -> Callable[..., Any]:
    """Return what makes an object of values under names; one of a class is quicker written than a dictionary."""
    if not names or any(character in _ODD_IN_NAMES or character < " " for character in "".join(names)):
        return lambda *values: dict(zip(names, values, strict=True))
    fields = [f"f{n}" for n in range(len(names))]
    return msgspec.defstruct("Row", fields, rename=dict(zip(fields, names, strict=True)), gc=False)


def _encode_objects(objects: Iterable[Any], *, lines: bool = True) -> list[bytes]:
    """Return objects as JSON, which has no line break in it if `lines`."""
    if not lines:
        return [_ENCODER.encode(one) for one in objects]
    return _ENCODER.encode_lines(objects).split(b"\n")[:-1]


class _Envelope:
    """What Debezium writes around the rows of a change."""

    def __init__(self, shape: MessageShape, epoch: int, snapshot: bool) -> None:
        milliseconds = micros_of(epoch) // 1000
        source: Mapping[str, Any] = {
            "connector": "tideline",
            "name": shape.sink,
            "ts_ms": milliseconds,
            "snapshot": "true" if snapshot else "false",
            "table": shape.source,
            "epoch": epoch,
        }
        self._source = _ENCODER.encode(source)
        self._milliseconds = milliseconds

    def wrap(self, operation: str, before: bytes | None, after: bytes | None) -> bytes:
        """Return a change."""
        return b'{"before":%b,"after":%b,"source":%b,"op":"%b","ts_ms":%d}' % (
            before or b"null",
            after or b"null",
            self._source,
            operation.encode(),
            self._milliseconds,
        )


def to_json_column(values: pa.ChunkedArray[Any], *, document: bool = False) -> list[Any]:
    """Return a column as a list of what is written as JSON: numbers and truths as they are, times and decimals as texts.

    Texts of a `document` are JSON already.
    """
    kind = values.type
    if document:
        return [_to_raw(value) for value in as_values(values)]
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind):
        return as_values(values)
    if pa.types.is_float64(kind):
        found = as_values(values)
        if _compute.all(_compute.is_finite(values)).as_py() is False:
            return [to_json_value(value) for value in found]
        return found
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return _format_far_times(values) if has_far_times(values) else _format_times(values)
    return [to_json_value(value) for value in as_values(values)]


def _format_times(values: pa.ChunkedArray[Any]) -> list[str | None]:
    """Return dates and times of years that ISO 8601 has in four digits."""
    kind = values.type
    if pa.types.is_date32(kind):
        return as_values(values.cast(pa.string()))
    texts = _compute.replace_substring(values.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    if kind.tz is not None:
        texts = _compute.binary_join_element_wise(texts, "Z", "")
    found: list[str | None] = as_values(texts)
    return found


def _format_far_times(values: pa.ChunkedArray[Any]) -> list[str | None]:
    """Return dates and times of which some are of other years; those of four digits are as they are without such beside them."""
    found = as_values(values)
    is_far = [isinstance(value, str) for value in found]
    near = _format_times(_compute.if_else(pa.array(is_far), pa.scalar(None, values.type), values))
    return [far if is_text else text for is_text, far, text in zip(is_far, found, near, strict=True)]


def _to_raw(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_to_raw(one) for one in value]
    return msgspec.Raw(value.encode())


def _unify_zeros(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return numbers of which zero has one form: keys of both forms are one."""
    if not pa.types.is_floating(values.type):
        return values
    zero = pa.scalar(0.0, values.type)
    unified: pa.ChunkedArray[Any] = _compute.if_else(_compute.equal(values, zero), zero, values)
    return unified


def _to_text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return _ENCODER.encode(value)
