"""The processes around a project: a warm Spark Connect server and `dg dev`, on loopback, ended by their process groups."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.error import URLError
from urllib.request import urlopen

from dagster_tideline.settings import Settings
from engine.errors import EnvironmentNotReady
from engine.jars import check_java, find_pyspark_folder
from engine.runtime.spark import ui
from engine.runtime.spark.connect import FILE, LOOPBACK, TOKEN_VARIABLE, WarmSpark, announce_server
from engine.runtime.spark.masters import read_driver_memory
from engine.runtime.spark.session import PARALLELISM, build_server_settings

START_SECONDS = 120.0
STOP_SECONDS = 20.0
CHILDREN_SECONDS = 5.0


@dataclass
class Service:
    """A process group of ours with its log file."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    address: str

    def check(self) -> None:
        """Raise EnvironmentNotReady, with the log's last lines, if the process has ended."""
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-15:]
            raise EnvironmentNotReady(
                f"{self.name} ended with status {self.process.returncode}; the end of {self.log}:\n"
                + "\n".join(tail)
            )

    def stop(self) -> None:
        """End the whole process group: asked to first, killed if it does not."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
            except ProcessLookupError:
                break
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            self._await_children()
        self.process.poll()

    def _await_children(self) -> None:
        """Give children that outlive their parent time to end: a run has something to say then."""
        deadline = time.monotonic() + CHILDREN_SECONDS
        while time.monotonic() < deadline:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)


def _restore_interrupts() -> None:
    """A shell lets what a script starts in the background ignore SIGINT, for its children, too. Dagster gives SIGTERM the same
    meaning, so that a step would wait for the ends of processes that never come.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Services:
    """The services of one project home, which one process holds at a time; leaving the `with` block ends them.

    `project` is the folder in which `dg dev` is started; by default the working folder's project.
    """

    def __init__(self, home: Path, environment: Mapping[str, str], project: Path | None = None) -> None:
        self.home = home
        self.project = project or Path.cwd()
        self.state = home / ".tideline"
        self.environment = dict(environment)
        self.started: list[Service] = []

    def __enter__(self) -> Services:
        _restore_interrupts()
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.state / "logs").mkdir(exist_ok=True)
        self._lock = (self.state / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise EnvironmentNotReady(
                f"`make demo` or `make up` is running in {self.home}: end it first, or set TIDELINE_HOME to another folder"
            ) from None
        (self.state / FILE).unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C while they are being ended would leave some of them behind.
        before = {sign: signal.signal(sign, signal.SIG_IGN) for sign in (signal.SIGINT, signal.SIGTERM)}
        try:
            (self.state / FILE).unlink(missing_ok=True)
            for service in reversed(self.started):
                service.stop()
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)
            self._lock.close()

    def start_spark_connect(self) -> Service:
        """Start a Spark Connect server and wait until it listens; what is started after it finds it by the environment.

        It refuses whoever does not know its token, which stands in environments and in one file, all of them this user's own:
        other users of the machine see the arguments of a process, not its environment.
        """
        check_java()
        port = find_free_port()
        token = secrets.token_urlsafe(32)
        settings = build_server_settings("local[*]") | {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            PARALLELISM: str(os.cpu_count() or 2),
            # The runs of a project share one session of the server: its Python workers stay warm between runs.
            "spark.connect.session.manager.defaultSessionTimeout": "-1",
        }
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_NO_DAEMONIZE": "1",
            TOKEN_VARIABLE: token,
        }
        page = find_free_port()
        if ui_settings := ui.build_ui_settings({**self.environment, **environment}, page):
            settings |= ui_settings | {ui.ADDRESS: f"http://{LOOPBACK}:{page}"}
        command = [str(find_pyspark_folder() / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        command += ["--driver-memory", read_driver_memory(), "--name", "tideline"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        service = self._start("Spark", [*command, "spark-internal"], environment, f"sc://localhost:{port}")
        _await_service(service, lambda: _is_listening(port))
        self.environment["SPARK_REMOTE"] = f"{service.address}/;session_id={uuid.uuid4()}"
        self.environment[TOKEN_VARIABLE] = token
        store = self.environment.get("TIDELINE_STORE", "")
        announce_server(self.state, WarmSpark(service.process.pid, port, token, str(uuid.uuid4()), store))
        return service

    def start_dagster(self, port: int | None = None) -> Service:
        """Start `dg dev` (webserver, daemon, code server) and wait until its page answers."""
        home = prepare_dagster_home(self.home, self.project)
        port = port or find_free_port()
        command = [str(Path(sys.executable).parent / "dg"), "dev", "--host", LOOPBACK, "--port", str(port)]
        address = f"http://{LOOPBACK}:{port}"
        service = self._start("Dagster", command, {"DAGSTER_HOME": str(home)}, address)
        _await_service(service, lambda: _is_answering(f"{address}/server_info"))
        return service

    def _start(self, name: str, command: list[str], environment: Mapping[str, str], address: str) -> Service:
        log = self.state / "logs" / f"{name.lower()}.log"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.project,
                env={**os.environ, **self.environment, **environment, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        service = Service(name, process, log, address)
        self.started.append(service)
        return service


def build_project_environment(settings: Settings) -> dict[str, str]:
    """Return the environment in which a project's processes find what its settings say."""
    return {
        "TIDELINE_HOME": str(settings.home),
        "TIDELINE_ASSETS": str(settings.assets),
        "TIDELINE_STORE": settings.store,
        "TIDELINE_BRANCH": "",
        "DAGSTER_HOME": str(get_dagster_home(settings.home)),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "TIDELINE_SPARK_UI": os.environ.get("TIDELINE_SPARK_UI") or "1",
    }


def get_dagster_home(home: Path) -> Path:
    """Return where Dagster's instance of a project home lies."""
    return home / ".tideline" / "dagster"


def prepare_dagster_home(home: Path, project: Path) -> Path:
    """Return the home's DAGSTER_HOME with the project's `dagster.yaml` in it."""
    folder = get_dagster_home(home)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(project / "dagster.yaml", folder / "dagster.yaml")
    return folder


def find_free_port(port: int = 0) -> int:
    """Return `wanted` if nobody listens there, else a free port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _await_service(service: Service, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        service.check()
        if time.monotonic() > deadline:
            raise EnvironmentNotReady(
                f"{service.name} did not answer within {START_SECONDS:.0f} s: see {service.log}"
            )
        time.sleep(0.1)


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _is_answering(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
