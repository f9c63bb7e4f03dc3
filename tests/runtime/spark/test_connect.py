"""The Spark that runs beside a project: found by a file that is this user's alone; one that is gone is told."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from engine.errors import EnvironmentNotReady
from engine.runtime.spark.connect import (
    LOOPBACK,
    SERVERS,
    WarmSpark,
    announce_server,
    find_server,
    hide_token,
)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of the loopback address on which somebody listens."""
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        yield listening.getsockname()[1]


def _warm(port: int, process: int | None = None) -> WarmSpark:
    return WarmSpark(process or os.getpid(), port, "secret-token", "session", "file:///store")


def test_a_server_that_runs_is_found_by_its_file(tmp_path: Path, port: int) -> None:
    announce_server(tmp_path, _warm(port))
    assert find_server(tmp_path) == _warm(port)


def test_the_file_is_for_this_user_alone_whatever_stood_there(tmp_path: Path, port: int) -> None:
    (tmp_path / "spark.json").write_text("old")
    (tmp_path / "spark.json").chmod(0o644)
    path = announce_server(tmp_path, _warm(port))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_nothing_was_announced_nothing_is_found(tmp_path: Path) -> None:
    assert find_server(tmp_path) is None


def test_a_server_whose_port_is_closed_is_told_to_be_gone(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        closed = probe.getsockname()[1]
    announce_server(tmp_path, _warm(closed))
    with pytest.raises(EnvironmentNotReady, match="is gone"):
        find_server(tmp_path)


def test_a_server_whose_process_has_ended_is_told_to_be_gone_though_another_has_its_port(
    tmp_path: Path, port: int
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    announce_server(tmp_path, _warm(port, ended.pid))
    with pytest.raises(EnvironmentNotReady, match="is gone"):
        find_server(tmp_path)


def test_a_file_that_others_may_read_or_write_is_not_believed(tmp_path: Path, port: int) -> None:
    announce_server(tmp_path, _warm(port)).chmod(0o620)
    with pytest.raises(EnvironmentNotReady, match="open to other users"):
        find_server(tmp_path)


def test_a_link_to_a_file_elsewhere_is_not_followed(tmp_path: Path, port: int) -> None:
    (tmp_path / "else").mkdir()
    announce_server(tmp_path / "else", _warm(port))
    (tmp_path / "spark.json").symlink_to(tmp_path / "else" / "spark.json")
    with pytest.raises(EnvironmentNotReady, match="cannot be read"):
        find_server(tmp_path)


def test_the_token_is_not_in_what_is_shown() -> None:
    warm = _warm(7)
    assert "secret-token" in warm.address
    assert "secret-token" not in repr(warm) + hide_token(warm.address)
    assert hide_token(warm.address) == "sc://localhost:7/;session_id=session"


def test_a_bucket_is_computed_only_where_its_credentials_are() -> None:
    warm = WarmSpark(1, 7, "t", "s", "s3://ours/store")
    assert warm.serves("s3://ours/store") and warm.serves("file:///any")
    assert warm.serves("s3://ours/store/branch/try") and warm.serves(f"s3://ours/store/branch/try/{3:020d}")
    assert not warm.serves("s3://other/store") and not warm.serves("s3://other/store/branch/try")


def test_a_server_is_not_mistaken_for_the_spark_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    with pytest.raises(EnvironmentNotReady, match="runs a Spark of its own") as error:
        SERVERS.connect(_warm(7).address)
    assert "secret-token" not in str(error.value)


def test_an_address_at_which_nobody_answers_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        closed = probe.getsockname()[1]
    with pytest.raises(EnvironmentNotReady, match=rf"no Spark answers at sc://localhost:{closed}/"):
        SERVERS.connect(_warm(closed).address)
