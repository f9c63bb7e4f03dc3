"""Parquet files are read by a process of their own, which a damaged file may end."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.formats import parquet_process, parquet_reader
from engine.connectors.formats.file_format import FileOptions, MalformedFile
from engine.connectors.formats.read_limits import ReadLimits
from tests.long_rest import mark_rest_long

SMALL = ReadLimits(1 << 16)


def write(path: Path, rows: int = 10) -> Path:
    pq.write_table(pa.table({"id": list(range(rows)), "name": ["a"] * rows}), path, row_group_size=5)
    return path


def read(path: Path, limits: ReadLimits = SMALL) -> list[int]:
    with path.open("rb") as file:
        batches = list(parquet_process.read_in_process(file, FileOptions(columns=frozenset({"id"})), limits))
    return [number for batch in batches for number in batch.columns["id"].to_pylist()]


def test_one_process_reads_one_file_after_the_other(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    assert read(path) == list(range(10))
    process = parquet_process._idle[-1].process.pid
    assert read(path) == list(range(10))
    assert parquet_process._idle[-1].process.pid == process


def test_the_other_process_reads_what_this_one_would(tmp_path: Path) -> None:
    data = write(tmp_path / "a.parquet", 13).read_bytes()
    options = FileOptions()
    here = list(parquet_reader.read_parquet(io.BytesIO(data), options, SMALL, 3))
    with (tmp_path / "a.parquet").open("rb") as file:
        there = list(parquet_process.read_in_process(file, options, SMALL, 3))
    assert [batch.columns for batch in here] == [batch.columns for batch in there]
    assert [batch.locate_row(0) for batch in here] == [batch.locate_row(0) for batch in there]
    assert [(batch.rows, batch.names, batch.records) for batch in here] == [
        (batch.rows, batch.names, batch.records) for batch in there
    ]


@pytest.mark.long
def test_a_file_that_ends_the_process_is_set_aside_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 5_000)  # more than fits into the socket
    with path.open("rb") as file:
        batches = parquet_process.read_in_process(file, FileOptions(), SMALL)
        next(batches)
        worker = batches.gi_frame.f_locals["worker"]  # type: ignore[attr-defined]
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(MalformedFile, match="ended"):
            list(batches)
    assert read(path) == list(range(5_000))


@pytest.mark.parametrize("sign", mark_rest_long([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_what_tells_a_group_of_processes_to_end_sets_no_file_aside(
    tmp_path: Path, sign: signal.Signals
) -> None:
    path = write(tmp_path / "a.parquet", 5_000)  # more than fits into the socket
    with path.open("rb") as file:
        batches = parquet_process.read_in_process(file, FileOptions(columns=frozenset({"id"})), SMALL)
        found = next(batches).columns["id"].to_pylist()
        worker = batches.gi_frame.f_locals["worker"]  # type: ignore[attr-defined]
        os.kill(worker.process.pid, sign)
        for batch in batches:
            found += batch.columns["id"].to_pylist()
    assert found == list(range(5_000))
    worker.socket.close()
    assert worker.process.wait(10.0) == 0  # it ends with the process that it reads for


def test_a_file_that_ends_what_reads_it_is_set_aside() -> None:
    damaged = (
        Path(__file__).parents[1] / "files" / "ends_the_reader.parquet"
    )  # Arrow 26 ends the process on it
    with damaged.open("rb") as file, pytest.raises(MalformedFile, match="can't be read"):
        list(parquet_process.read_in_process(file, FileOptions(), SMALL))


@pytest.mark.long
def test_rows_that_take_more_memory_than_the_process_may_have_set_the_file_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"id": list(range(1_000_000))}), tmp_path / "a.parquet")
    limits = ReadLimits(2 << 20)
    with monkeypatch.context() as patched:
        patched.setattr(parquet_process, "_ROOM", 1 << 20)
        with pytest.raises(MalformedFile):
            read(tmp_path / "a.parquet", limits)
    assert len(read(tmp_path / "a.parquet", limits)) == 1_000_000


def test_a_process_that_does_not_start_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/bin/false")
        with pytest.raises(OSError, match="does not start") as failed:
            read(path, ReadLimits(3 << 20))
    assert failed.value.errno == errno.EAGAIN


def test_who_stops_reading_leaves_no_process_behind(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 5_000)  # more than fits into the socket
    with path.open("rb") as file:
        batches = parquet_process.read_in_process(file, FileOptions(), SMALL)
        next(batches)
        worker = batches.gi_frame.f_locals["worker"]  # type: ignore[attr-defined]
        batches.close()  # type: ignore[attr-defined]
    assert worker.process.returncode is not None
