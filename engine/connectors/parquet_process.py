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

from engine.connectors.file_formats import FileOptions, FileRows, MalformedFile, shown
from engine.connectors.parquet_files import shown_row
from engine.connectors.parquet_worker import ROW, decoded, receive
from engine.connectors.read_limits import SETTING, ReadLimits

SECONDS = 300.0
"""How long the next batch may take; a file that takes longer is set aside."""
_ROOM = 2 << 30
"""Address space that the process takes besides what it reads."""
_idle: list[_Worker] = []


class _Worker:
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
        module = "engine.connectors.parquet_worker"
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
            status = self.end()  # what keeps it from starting is no file's fault
            told = f"the process that reads Parquet does not start ({status})"
            raise OSError(errno.EAGAIN, told) from None

    def end(self) -> int:
        """End the process; returns with what it ended."""
        self.socket.close()
        if self.owner != os.getpid():
            return 0  # of the process that this one was forked from
        try:
            return self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def read(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0) -> Iterator[FileRows]:
    """Yield the rows of a Parquet file from row `skip` on; raises MalformedFile where it can't be read, or is too large."""
    worker = _worker(limits.memory)
    ended = False
    try:
        wanted = None if options.wanted is None else sorted(options.wanted)
        request = json.dumps({"wanted": wanted, "memory": limits.memory, "skip": skip}) + "\n"
        data = request.encode()
        sent = socket.send_fds(worker.socket, [data], [file.fileno()])
        worker.socket.sendall(data[sent:])
        while (answer := receive(worker.socket))[:1] == b"+":
            yield _rows(answer[1:])
        ended = True
        if answer[1:]:
            raise MalformedFile(answer[1:].decode())
    except (EOFError, ConnectionError):
        raise MalformedFile(_why_it_ended(worker.end())) from None
    except TimeoutError:
        raise MalformedFile(f"the file can't be read: the next rows took more than {SECONDS:.0f} s") from None
    finally:
        if ended:
            _idle.append(worker)
        else:
            worker.process.kill()
            worker.end()


def _worker(memory: int) -> _Worker:
    while _idle:
        worker = _idle.pop()
        if worker.owner == os.getpid() and worker.memory == memory and worker.process.poll() is None:
            return worker
        worker.end()
    return _Worker(memory)


def _rows(data: bytes) -> FileRows:
    batch, told, bad = decoded(data)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    numbers = columns.pop(ROW)

    def place(index: int) -> tuple[int, str]:
        return numbers[index].as_py(), shown(shown_row(columns, index))

    return FileRows(columns, batch.num_rows, place, bad, tuple(told["names"]), told["records"])


def _why_it_ended(status: int) -> str:
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    return (
        f"the file can't be read: the process that read it ended ({name}): the file is damaged, or its rows take more memory "
        f"than {SETTING} allows"
    )


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.pop().end()
