"""The processes around a project: one holder of a home at a time, everything ended at the end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_tideline.services import Service, Services, find_free_port
from engine.errors import EnvironmentNotReady
from engine.runtime.spark.connect import LOOPBACK, TOKEN_VARIABLE, find_server

CLIENT = """
import sys
from engine.errors import TidelineError
from engine.runtime.spark.session import connect
try:
    print(connect(sys.stdin.readline().strip()).range(5).count())
except TidelineError as error:
    print(f"refused: {error}")
"""


PAGE = """
import sys
from urllib.request import urlopen
from engine.session import Session
with Session(sys.argv[1], sys.stdin.readline().strip()) as session:
    assert session.spark_ui is None
    session.computing.range(5).count()
    assert session.spark_ui.startswith("http://127.0.0.1:"), session.spark_ui
    assert "connect" in urlopen(session.spark_ui + "/connect/", timeout=60).read().decode().lower()
"""


def test_a_home_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        Services(tmp_path, {}),
        pytest.raises(EnvironmentNotReady, match="is running in"),
        Services(tmp_path, {}),
    ):
        pass
    with Services(tmp_path, {}):
        pass


@pytest.mark.long
def test_what_a_script_starts_in_the_background_can_be_interrupted(tmp_path: Path) -> None:
    script = f"""
import signal, subprocess, sys
from pathlib import Path
from dagster_tideline.services import Services
signal.signal(signal.SIGINT, signal.SIG_IGN)
with Services(Path({str(tmp_path)!r}), {{}}):
    asked = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"]
    print(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "False"


@pytest.mark.long
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
        assert find_free_port(taken.getsockname()[1]) != taken.getsockname()[1]


@pytest.mark.long
def test_the_spark_of_a_project_answers_those_who_know_its_token_and_listens_on_loopback_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_MEMORY", "1g")
    monkeypatch.setenv(
        "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
    )
    shown = {"TIDELINE_SPARK_UI": "1"}
    with Services(tmp_path, {"TIDELINE_STORE": "file:///store", **shown}) as services:
        service = services.start_spark_connect()
        warm = find_server(tmp_path / ".tideline")
        assert warm is not None and services.environment[TOKEN_VARIABLE] == warm.token
        bare = f"sc://localhost:{warm.port}"
        assert "refused" in _answer(bare) and TOKEN_VARIABLE in _answer(bare)
        assert "refused" in _answer(f"{bare}/;token=wrong")
        assert _answer(warm.address) == "5"
        assert _answer(bare, {TOKEN_VARIABLE: warm.token}) == "5"
        assert _answer(warm.address, shown, PAGE, (tmp_path / "store").as_uri()) == ""
        assert warm.token not in subprocess.check_output(["ps", "-eo", "args"], text=True)
        assert warm.token not in service.log.read_text(errors="replace")
        assert _addresses(service.process.pid) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert not (tmp_path / ".tideline" / "spark.json").exists()


def test_what_a_project_keeps_is_closed_to_other_users(tmp_path: Path) -> None:
    with Services(tmp_path, {}) as services:
        assert stat.S_IMODE(services.state.stat().st_mode) == 0o700


def _answer(
    address: str, environment: dict[str, str] | None = None, client: str = CLIENT, *arguments: str
) -> str:
    """Return what a client in a process of its own is told; the address goes by its input, as arguments are seen by all."""
    own = {key: value for key, value in os.environ.items() if key not in (TOKEN_VARIABLE, "SPARK_REMOTE")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", client, *arguments],
        input=address,
        env={**own, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _addresses(process: int) -> set[str]:
    """Return the addresses on which a process listens, as the kernel tells."""
    own = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            own.add(os.readlink(entry))
        except OSError:
            continue
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                words = bytes.fromhex(fields[1].partition(":")[0])
                packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                found.add(socket.inet_ntop(family, packed))
    return found
