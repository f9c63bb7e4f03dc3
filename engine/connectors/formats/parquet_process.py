"""Parquet files read by a process beside this one, so that a damaged file ends neither a poll nor what else runs here."""

from __future__ import annotations

import atexit
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import BinaryIO

from engine.connectors.formats.file_format import FileOptions, FileRows, MalformedFile, format_raw
from engine.connectors.formats.parquet_reader import format_row
from engine.connectors.formats.parquet_worker import ROW, decode_rows, receive
from engine.connectors.formats.read_limits import SETTING, ReadLimits

SECONDS = 300.0
"""How long the next batch may take; a file that takes longer is set aside."""
_ROOM = 2 << 30
"""Address space that the process takes besides what it reads."""
_idle: list[_ParquetWorker] = []


class _ParquetWorker:
    """One process, and the socket to it."""

    def __init__(self, memory: int) -> None:
        self.owner, self.memory = os.getpid(), memory
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(SECONDS)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "OMP_NUM_THREADS": "1",
        }
        module = "engine.connectors.formats.parquet_worker"
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno()), str(memory * 8 + _ROOM)],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        try:
            receive(self.socket)
        except (EOFError, OSError):
            status = self.stop()  # what keeps it from starting is no file's fault
            reason = f"the process that reads Parquet does not start ({status})"
            raise OSError(errno.EAGAIN, reason) from None

    def stop(self) -> int:
        """End the process; returns with what it ended."""
        self.socket.close()
        if self.owner != os.getpid():
            return 0  # of the process that this one was forked from
        try:
            return self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def read_in_process(
    file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0
) -> Iterator[FileRows]:
    """Yield the rows of a Parquet file from row `skip` on; raises MalformedFile where it can't be read, or is too large."""
    worker = _get_worker(limits.memory)
    ended = False
    try:
        columns = None if options.columns is None else sorted(options.columns)
        request = json.dumps({"wanted": columns, "memory": limits.memory, "skip": skip}) + "\n"
        data = request.encode()
        sent = socket.send_fds(worker.socket, [data], [file.fileno()])
        worker.socket.sendall(data[sent:])
        while (answer := receive(worker.socket))[:1] == b"+":
            yield _decode_rows(answer[1:])
        ended = True
        if answer[1:]:
            raise MalformedFile(answer[1:].decode())
    except (EOFError, ConnectionError):
        raise MalformedFile(_explain_exit(worker.stop())) from None
    except TimeoutError:
        raise MalformedFile(f"the file can't be read: the next rows took more than {SECONDS:.0f} s") from None
    finally:
        if ended:
            _idle.append(worker)
        else:
            worker.process.kill()
            worker.stop()


def _get_worker(memory: int) -> _ParquetWorker:
    while _idle:
        worker = _idle.pop()
        if worker.owner == os.getpid() and worker.memory == memory and worker.process.poll() is None:
            return worker
        worker.stop()
    return _ParquetWorker(memory)


def _decode_rows(data: bytes) -> FileRows:
    batch, metadata, bad = decode_rows(data)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    numbers = columns.pop(ROW)

    def locate_row(index: int) -> tuple[int, str]:
        return numbers[index].as_py(), format_raw(format_row(columns, index))

    return FileRows(columns, batch.num_rows, locate_row, bad, tuple(metadata["names"]), metadata["records"])


def _explain_exit(status: int) -> str:
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    return (
        f"the file can't be read: the process that read it ended ({name}): the file is damaged, or its rows take more memory "
        f"than {SETTING} allows"
    )


@atexit.register
def _stop_all() -> None:
    while _idle:
        _idle.pop().stop()
