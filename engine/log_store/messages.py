"""What flows through a log store: chunks of rows, watermarks, barriers; and chunks and watermarks as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.arrow import as_stream, repeat_value
from engine.errors import CorruptObject
from engine.meta.epochs.barrier import Barrier

Offset = tuple[int, int]
"""Where a message stands: the epoch that was open when it came, and its number in that epoch."""


@dataclass(frozen=True)
class Chunk:
    """Rows, in the order in which they are to be applied."""

    rows: pa.Table


@dataclass(frozen=True)
class WatermarkMessage:
    """No later row has a smaller value in `column`."""

    column: str
    value: pa.Scalar[Any]


Message = Chunk | WatermarkMessage | Barrier


@dataclass(frozen=True)
class Entry:
    """A chunk or watermark as it is kept: `payload` is an Arrow IPC stream, `rows` is 0 for a watermark."""

    offset: Offset
    kind: str
    rows: int
    payload: bytes

    @classmethod
    def of(cls, offset: Offset, message: Chunk | WatermarkMessage) -> Entry:
        """Return the kept form of a message."""
        if isinstance(message, Chunk):
            return cls(offset, "chunk", message.rows.num_rows, as_stream(message.rows))
        value = pa.Table.from_arrays([repeat_value(message.value, 1)], names=[message.column])
        return cls(offset, "watermark", 0, as_stream(value))

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return len(self.payload)

    def decode(self) -> Chunk | WatermarkMessage:
        """Return the message; its rows stand on the payload, nothing is copied."""
        rows = pa.ipc.open_stream(pa.py_buffer(self.payload)).read_all()
        if self.kind == "chunk":
            return Chunk(rows)
        if self.kind == "watermark":
            return WatermarkMessage(rows.column_names[0], rows.column(0)[0])
        raise CorruptObject(f'a log store holds a message of the unknown kind "{self.kind}" at {self.offset}')


def slice_rows(rows: pa.Table, most_rows: int, most_bytes: int) -> list[pa.Table]:
    """Cut rows into parts of at most `most_rows`, and of about `most_bytes`, at least one row each."""
    per_row = max(1, rows.nbytes // max(rows.num_rows, 1))
    step = max(1, min(most_rows, most_bytes // per_row))
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]
