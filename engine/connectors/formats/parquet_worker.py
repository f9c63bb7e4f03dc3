"""The process that reads Parquet files for another one: `python -m engine.connectors.formats.parquet_worker SOCKET MEMORY`.

What reads Parquet can be made to end its process, or to ask for any amount of memory, by a damaged file. Here that ends nothing
but this process. A request is a file's descriptor with options; the answers are batches, then an end that may name a fault.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from engine.arrow import Column
from engine.connectors.formats.file_format import BadLine, FileOptions, FileRows, MalformedFile
from engine.connectors.formats.parquet_reader import read_parquet
from engine.connectors.formats.read_limits import ReadLimits
from engine.hummock.rows.ordering import one_chunk

ROW = "\0row"
"""The column of a batch that holds the numbers of its rows in the file."""
METADATA_KEY = b"tideline"
READY = b"ready"
_LENGTH = struct.Struct("<Q")
_LARGEST_REQUEST = 1 << 20


def encode_rows(rows: FileRows) -> bytes:
    """Return rows and what was set aside with them as one Arrow stream."""
    numbers = [rows.locate_row(index)[0] for index in range(rows.rows)] if rows.lines is None else rows.lines
    columns: dict[str, Column] = {**rows.columns, ROW: pa.array(numbers, pa.int64())}
    metadata = {
        "bad": [[bad.line, bad.reason, bad.raw] for bad in rows.bad],
        "names": rows.names,
        "records": rows.records,
    }
    schema = pa.schema([pa.field(name, column.type) for name, column in columns.items()])
    batch = pa.record_batch(
        [one_chunk(column) for column in columns.values()],
        schema=schema.with_metadata({METADATA_KEY: json.dumps(metadata).encode()}),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode_rows(data: bytes) -> tuple[pa.RecordBatch, dict[str, Any], tuple[BadLine, ...]]:
    """Return what `encoded` wrote: the batch, what is told of it, and what was set aside."""
    batch = pa.ipc.open_stream(data).read_next_batch()
    metadata = json.loads(batch.schema.metadata[METADATA_KEY])
    return batch, metadata, tuple(BadLine(*bad) for bad in metadata["bad"])


def send(connection: socket.socket, data: bytes) -> None:
    """Send one message."""
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket) -> bytes:
    """Return one message; raises EOFError if the other side is gone, TimeoutError if it says nothing."""
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    found = bytearray(length)
    view, at = memoryview(found), 0
    while at < length:
        got = connection.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return bytes(found)


def _answer_request(request: dict[str, Any], number: int) -> Iterator[bytes]:
    options = FileOptions(columns=None if request["wanted"] is None else frozenset(request["wanted"]))
    try:
        with os.fdopen(number, "rb") as file:
            for rows in read_parquet(file, options, ReadLimits(request["memory"]), request["skip"]):
                yield b"+" + encode_rows(rows)
    except MalformedFile as error:
        yield b"-" + str(error).encode("utf-8", "backslashreplace")
    except OSError as error:
        yield b"-" + f"the file can't be read: {error.strerror or error}".encode()
    except Exception as error:
        yield b"-" + f"the file can't be read: {type(error).__name__}: {error}".encode("utf-8", "replace")
    else:
        yield b"-"


def main(descriptor: int, memory: int) -> None:
    """Answer requests until the other side is gone: a signal to the whole group of processes says nothing of the file."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=descriptor) as connection:
        send(connection, READY)
        while True:
            message, numbers, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 1)
            if not message or not numbers:
                return
            while not message.endswith(b"\n"):
                message += connection.recv(_LARGEST_REQUEST)
            for answer in _answer_request(json.loads(message), numbers[0]):
                send(connection, answer)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
