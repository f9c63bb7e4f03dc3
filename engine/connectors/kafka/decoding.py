"""Messages as raw rows: the columns of their values, what their keys tell, and what is known of each message."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.connectors.formats.debezium import CHANGE
from engine.connectors.formats.file_format import BadLine, FileOptions, FileRows, format_raw
from engine.connectors.formats.json_columns import are_flat, read_flat_changes, read_flat_objects
from engine.connectors.formats.json_reader import read_objects
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.kafka.avro import AvroReader, NotAvro
from engine.connectors.kafka.client import MessageBatch
from engine.connectors.kafka.settings import KafkaSettings
from engine.hummock.rows.ordering import one_chunk

NO_VALUE = "the message has no value: only envelope = 'upsert' knows what that means"
PIECE_MESSAGES = 1_000
"""Where messages cannot be read at once, so many of them are tried: an odd one slows no others."""
NO_KEY = "the message has no key, and envelope = 'upsert' finds rows by it"
_UPSERT, _DELETE = "upsert", "delete"
QuickReader = Callable[[Sequence[bytes], Sequence[int], Mapping[str, pa.DataType]], FileRows | None]


class _NotAtOnce(Exception):
    """Some of many messages have to be read one by one."""


@dataclass(frozen=True)
class Messages:
    """Messages of one partition by their parts; `offsets` ascend."""

    partition: int
    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    told: Sequence[Any] = ()
    """The messages themselves, of which timestamps and headers are asked where a column has them."""

    @classmethod
    def of_batch(cls, batch: MessageBatch) -> Messages:
        """Return the parts of messages that were read."""
        found = batch.messages
        return cls(
            batch.partition,
            [one.offset() for one in found],
            [one.value() for one in found],
            [one.key() for one in found],
            found,
        )

    @cached_property
    def places(self) -> np.ndarray:
        """The offsets as numbers."""
        return np.asarray(self.offsets, dtype=np.int64)

    def find(self, offsets: np.ndarray) -> np.ndarray:
        """Return which messages have some of the offsets."""
        found: np.ndarray = np.searchsorted(self.places, offsets)
        return found

    def select(self, start: int, end: int) -> Messages:
        """Return some that follow each other."""
        part = slice(start, end)
        return Messages(
            self.partition, self.offsets[part], self.values[part], self.keys[part], self.told[part]
        )


@dataclass
class MessageDecoder:
    """Reads messages for a table: `columns` are those that values give, `key` those of its key, by their names in messages.

    `documents` are columns that are json or jsonb; `binary` those of metadata that are BINARY. `kinds` are the types of all
    columns, where objects of JSON may be read at once.
    """

    settings: KafkaSettings
    limits: ReadLimits
    columns: frozenset[str]
    key: tuple[str, ...]
    documents: frozenset[str] = frozenset()
    binary: frozenset[str] = frozenset()
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    _values: AvroReader = field(init=False)
    _keys: AvroReader = field(init=False)

    def __post_init__(self) -> None:
        self._values = AvroReader(self.settings.avro)
        self._keys = AvroReader(self.settings.avro, of_keys=True)

    def decode(self, messages: Messages) -> Iterator[FileRows]:
        """Yield the rows of messages; those of which one schema says what they hold come together."""
        for part, bad in self._split_by_schemas(messages):
            try:
                yield self._decode_part(part, bad)
            except _NotAtOnce:
                for start in range(0, len(part.offsets), PIECE_MESSAGES):
                    yield self._decode_part(part.select(start, start + PIECE_MESSAGES), bad)
                    bad = []

    def _decode_part(self, messages: Messages, bad: Sequence[BadLine]) -> FileRows:
        rows = self._decode_upserts(messages) if self.settings.is_upsert else self._decode_values(messages)
        return self._add_metadata(messages, replace(rows, bad=_order((*rows.bad, *bad))))

    def _split_by_schemas(self, messages: Messages) -> Iterator[tuple[Messages, list[BadLine]]]:
        """Yield messages whose values, and whose keys, have one schema each; what names none is set aside."""
        of_values = self.settings.format == "avro"
        of_keys = self.settings.is_upsert and self.settings.key_format == "avro"
        if not self.settings.avro.registry or not (of_values or of_keys):
            yield messages, []
            return
        kinds, bad, kept = list[tuple[int, int]](), list[BadLine](), list[int]()
        last = (0, 0)
        for at, (value, key) in enumerate(zip(messages.values, messages.keys, strict=True)):
            try:
                value_kind = last[0] if value is None or not of_values else self._values.find_number(value)
                key_kind = last[1] if key is None or not of_keys else self._keys.find_number(key)
            except NotAvro as error:
                bad.append(BadLine(messages.offsets[at], str(error), format_raw(value or key or b"")))
                continue
            last = (value_kind, key_kind)
            kinds.append(last)
            kept.append(at)
        for _, group in groupby(zip(kinds, kept, strict=True), key=lambda pair: pair[0]):
            places = [at for _, at in group]
            yield _pick(messages, places), bad
            bad = []
        if bad:
            yield messages.select(0, 0), bad

    def _decode_values(self, messages: Messages) -> FileRows:
        if None not in messages.values:
            return self._read_values(cast(Sequence[bytes], messages.values), messages.offsets, self.columns)
        texts, places, bad = list[bytes](), list[int](), list[BadLine]()
        for at, value in zip(messages.offsets, messages.values, strict=True):
            if value is not None:
                texts.append(value)
                places.append(at)
            elif self.settings.format != "debezium":  # there it is a tombstone: the deletion came before it
                bad.append(BadLine(at, NO_VALUE, ""))
        rows = self._read_values(texts, places, self.columns)
        return replace(rows, bad=_order((*rows.bad, *bad))) if bad else rows

    def _read_values(
        self, texts: Sequence[bytes], places: Sequence[int], columns: frozenset[str]
    ) -> FileRows:
        options = FileOptions(columns=columns, documents=self.documents)
        if self.settings.format == "avro":
            return self._values.read_rows(texts, places, options)
        if self.settings.format == "debezium":
            found = self._read_at_once(read_flat_changes, texts, places, columns - {CHANGE})
            options = replace(options, envelope="debezium")
        else:
            found = self._read_at_once(read_flat_objects, texts, places, columns)
        return read_objects(texts, places, options, self.limits) if found is None else found

    def _read_at_once(
        self, read: QuickReader, texts: Sequence[bytes], places: Sequence[int], columns: Collection[str]
    ) -> FileRows | None:
        """Return the rows of texts where they can be read at once, None where they are to be read one by one.

        Raises _NotAtOnce where fewer of them may be read at once.
        """
        kinds = {name: self.kinds[name] for name in sorted(columns)} if self.kinds else {}
        if not are_flat(kinds):
            return None
        is_short = max(map(len, texts), default=0) <= self.limits.row
        found = read(texts, places, kinds) if is_short else None
        if found is None and len(texts) > PIECE_MESSAGES:
            raise _NotAtOnce
        return found

    def _read_keys(self, messages: Messages) -> FileRows:
        """Return the columns of the key as the keys of messages tell them."""
        options = FileOptions(columns=frozenset(self.key), documents=self.documents)
        alone = self.key[0] if len(self.key) == 1 else None
        texts, places, bad = list[bytes](), list[int](), list[BadLine]()
        for at, key in zip(messages.offsets, messages.keys, strict=True):
            if key is None:
                bad.append(BadLine(at, NO_KEY, ""))
            else:
                texts.append(key)
                places.append(at)
        if self.settings.key_format == "avro":
            rows = self._keys.read_rows(texts, places, options, alone)
        else:
            wrap = _wrap_text if self.settings.key_format == "text" else _wrap_json
            wrapped = [wrap(text, alone) for text in texts]
            found = self._read_at_once(read_flat_objects, wrapped, places, self.key)
            rows = read_objects(wrapped, places, options, self.limits) if found is None else found
        if not rows.bad:
            return replace(rows, bad=tuple(bad))
        original = dict(zip(places, texts, strict=True))
        told = [
            BadLine(one.line, f"the key: {one.reason}", format_raw(original.get(one.line, b"")))
            for one in rows.bad
        ]
        return replace(rows, bad=(*bad, *told))

    def _decode_upserts(self, messages: Messages) -> FileRows:
        """Return values with their keys; a message without a value is a deletion, of which the key alone is known."""
        keys = self._read_keys(messages)
        there = [at for at, value in enumerate(messages.values) if value is not None]
        texts = [value for value in messages.values if value is not None]
        values = self._read_values(texts, [messages.offsets[at] for at in there], self.columns - {*self.key})
        count = len(messages.offsets)
        of_key, of_value = _index(messages, keys, count), _index(messages, values, count)
        deletes = np.ones(count, dtype=bool)
        deletes[there] = False
        rows = np.flatnonzero((of_key >= 0) & ((of_value >= 0) | deletes))
        columns: dict[str, Any] = {}
        absent: dict[str, np.ndarray] = {}
        for found, index in ((keys, of_key), (values, of_value)):
            at = index[rows]
            for name, column in found.columns.items():
                lacks = np.isin(at, found.absent[name]) if name in found.absent else np.zeros(len(at), bool)
                columns[name] = one_chunk(column).take(to_positions(np.maximum(at, 0), at < 0))
                absent[name] = np.flatnonzero(lacks | (at < 0))
        words = np.where(deletes[rows], _DELETE, _UPSERT)
        columns[CHANGE] = pa.array(words.tolist(), pa.string())
        bad = {one.line: one for one in (*values.bad, *keys.bad)}  # of a message one reason is told
        lines = messages.places[rows]
        return FileRows(
            columns,
            len(rows),
            self._locate(messages, rows),
            tuple(bad[line] for line in sorted(bad)),
            (*columns, *(name for name in values.names if name not in columns and name not in self.key)),
            len(rows) + len(bad),
            absent,
            lines=lines,
            by_row=True,
        )

    def _locate(self, messages: Messages, rows: np.ndarray) -> Callable[[int], tuple[int, str]]:
        def locate_row(row: int) -> tuple[int, str]:
            at = int(rows[row])
            value = messages.values[at]
            raw = messages.keys[at] if value is None else value
            return messages.offsets[at], format_raw(raw or b"")

        return locate_row

    def _add_metadata(self, messages: Messages, rows: FileRows) -> FileRows:
        """Return the rows with the columns that tell of their messages."""
        asked = self.settings.metadata
        if not asked or not rows.rows:
            return rows
        assert rows.lines is not None
        at = messages.find(rows.lines).tolist()
        columns, bad = dict(rows.columns), list(rows.bad)
        for option, name in asked.items():
            column, wrong = self._build_metadata(option, name, messages, at)
            columns[name] = column
            for row, reason in wrong.items():
                line, raw = rows.locate_row(row)
                bad.append(BadLine(line, reason, raw))
        names = (*columns, *(name for name in rows.names if name not in columns))
        found = replace(rows, columns=columns, names=names)
        return _leave_out(found, bad) if len(bad) > len(rows.bad) else found

    def _build_metadata(
        self, option: str, name: str, messages: Messages, at: Sequence[int]
    ) -> tuple[Any, Mapping[int, str]]:
        """Return a column that tells of messages, and of which rows it cannot."""
        wrong: dict[int, str] = {}
        if option == "partition_column":
            return pa.array([messages.partition] * len(at), pa.int32()), wrong
        if option == "offset_column":
            return pa.array(messages.places[list(at)], pa.int64()), wrong
        if option == "timestamp_column":
            times = [_read_timestamp(messages.told[one]) for one in at]
            return pa.array(times, pa.int64()).cast(pa.timestamp("ms", "UTC")), wrong
        if option == "headers_column":
            return pa.array([format_headers(messages.told[one].headers()) for one in at], pa.string()), wrong
        keys = [messages.keys[one] for one in at]
        if name in self.binary:
            return pa.array(keys, pa.binary()), wrong
        texts: list[str | None] = []
        for row, key in enumerate(keys):
            try:
                texts.append(None if key is None else key.decode())
            except UnicodeDecodeError:
                wrong[row] = f"column {name}: the key is no UTF-8; a column of BINARY takes it as it is"
                texts.append(None)
        return pa.array(texts, pa.string()), wrong


def format_headers(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """Return headers as JSON, in their order; a value that is no UTF-8 has its bytes escaped. None where there are none."""
    if not headers:
        return None
    told = [
        {"key": name, "value": None if value is None else value.decode("utf-8", "backslashreplace")}
        for name, value in headers
    ]
    return json.dumps(told, ensure_ascii=False)


def _read_timestamp(message: Any) -> int | None:
    kind, milliseconds = message.timestamp()
    return int(milliseconds) if kind else None


def _wrap_json(text: bytes, alone: str | None) -> bytes:
    """Return a key as an object: a value that is none is that of the one column of the key."""
    if alone is None or text.lstrip()[:1] == b"{" or not _is_one_value(text):
        return text
    return b"{" + json.dumps(alone).encode() + b": " + text + b"}"


def _is_one_value(text: bytes) -> bool:
    """Tell whether a text is one value of JSON, and nothing that reads on within an object."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _wrap_text(text: bytes, alone: str | None) -> bytes:
    try:
        value = json.dumps(text.decode(), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        value = b'"' + text + b'"'  # which tells that it is no UTF-8
    return b"{" + json.dumps(alone or "").encode() + b": " + value + b"}"


def _index(messages: Messages, rows: FileRows, count: int) -> np.ndarray:
    """Return for each message its row, -1 where it has none."""
    found = np.full(count, -1, dtype=np.int64)
    if rows.rows:
        assert rows.lines is not None
        found[messages.find(rows.lines)] = np.arange(rows.rows)
    return found


def _pick(messages: Messages, places: Sequence[int]) -> Messages:
    return Messages(
        messages.partition,
        [messages.offsets[at] for at in places],
        [messages.values[at] for at in places],
        [messages.keys[at] for at in places],
        [messages.told[at] for at in places] if messages.told else (),
    )


def _order(bad: Sequence[BadLine]) -> tuple[BadLine, ...]:
    return tuple(sorted(bad, key=lambda one: one.line))


def _leave_out(rows: FileRows, bad: Sequence[BadLine]) -> FileRows:
    """Return the rows but for those that are set aside."""
    assert rows.lines is not None
    keep = np.flatnonzero(~np.isin(rows.lines, [one.line for one in bad]))
    taken = to_positions(keep)
    where = np.full(rows.rows, -1, dtype=np.int64)
    where[keep] = np.arange(len(keep))
    absent = {name: where[of][where[of] >= 0] for name, of in rows.absent.items()}
    foreign = None if rows.foreign is None else where[rows.foreign][where[rows.foreign] >= 0]

    def locate_row(row: int) -> tuple[int, str]:
        return rows.locate_row(int(keep[row]))

    return replace(
        rows,
        columns={name: one_chunk(column).take(taken) for name, column in rows.columns.items()},
        rows=len(keep),
        locate_row=locate_row,
        bad=_order(bad),
        absent=absent,
        lines=rows.lines[keep],
        foreign=foreign,
    )
