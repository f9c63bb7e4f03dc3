"""The processes around a project: one holder of a home at a time, everything ended at the end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from dagster_project.services import LOOPBACK, Service, Services, free_port
from engine.errors import EnvironmentNotReady


def test_a_home_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        Services(tmp_path, {}),
        pytest.raises(EnvironmentNotReady, match="is running in"),
        Services(tmp_path, {}),
    ):
        pass
    with Services(tmp_path, {}):
        pass


def test_what_was_started_is_ended_with_its_children(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    )
    with Services(tmp_path, {}) as services:
        service: Service = services._start("probe", [sys.executable, "-c", script], {}, "nowhere")
        group = service.process.pid
        assert os.getpgid(group) == group
    assert service.process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
        os.killpg(group, 0)


def test_a_service_that_ends_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with Services(tmp_path, {}) as services:
        service = services._start(
            "probe", [sys.executable, "-c", "print('no room'); raise SystemExit(3)"], {}, ""
        )
        service.process.wait(30)
        with pytest.raises(EnvironmentNotReady, match="no room") as caught:
            service.check()
    assert "status 3" in str(caught.value)


def test_a_port_in_use_is_not_taken() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        assert free_port(taken.getsockname()[1]) != taken.getsockname()[1]
