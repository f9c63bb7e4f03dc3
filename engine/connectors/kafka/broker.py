"""A broker of Kafka with its controller in one process, on loopback only: for tests, and for people who want to try."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import EnvironmentNotReady
from engine.jars import find_java, find_kafka_jars

ADDRESS = "127.0.0.1"
MEMORY = "512m"
FORMAT_SECONDS = 120
START_SECONDS = 120.0
STOP_SECONDS = 60.0
_PAUSE = 0.1


@dataclass
class KafkaBroker:
    """A broker whose data lies in a folder, and which keeps its ports when it is started again.

    `listeners` are further ones by name, with their protocol; `settings` are properties of the broker.
    """

    folder: Path
    port: int = 0
    listeners: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What clients write as `bootstrap_servers`."""
        return f"{ADDRESS}:{self.port}"

    def get_address(self, listener: str) -> str:
        """Return the address of a further listener."""
        return f"{ADDRESS}:{self.ports[listener]}"

    def start(self) -> None:
        """Start the broker and wait until it answers; raises EnvironmentNotReady if it does not."""
        if self.process is not None and self.process.poll() is None:
            return
        jars = ":".join(str(path) for path in find_kafka_jars())
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.port and _accepts(self.port):
            raise EnvironmentNotReady(f"something else listens at {self.address}: choose another port")
        self.port = self.port or find_free_port()
        for name in ("CONTROLLER", *self.listeners):
            self.ports.setdefault(name, find_free_port())
        properties = self.folder / "server.properties"
        properties.write_text(
            "".join(f"{name}={value}\n" for name, value in self._build_properties().items())
        )
        java = [find_java(), "-cp", jars]
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(java, properties)
        command = [*java[:1], f"-Xmx{MEMORY}", "-Xms128m", *java[1:], "kafka.Kafka", str(properties)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._wait_until_it_answers(self.process)

    def stop(self) -> None:
        """Let the broker end as it should; what does not end in time is killed."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self) -> None:
        """End the broker at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_SECONDS)
            self.process = None

    def require_running(self) -> None:
        """Raise EnvironmentNotReady if the broker has ended by itself."""
        if self.process is None or self.process.poll() is not None:
            raise EnvironmentNotReady(f"the broker ended: {self._read_last_words()}")

    def _read_last_words(self) -> str:
        log = self.folder / "log"
        said = log.read_text(errors="replace")[-500:].strip() if log.exists() else ""
        return f"{log} ends with: {said}" if said else f"{log} says nothing"

    def _build_properties(self) -> dict[str, str]:
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self.listeners}
        ports = {"PLAINTEXT": self.port, **self.ports}
        own = ("PLAINTEXT", *self.listeners)
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{ADDRESS}:{self.ports['CONTROLLER']}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://{ADDRESS}:{ports[name]}" for name in protocols),
            "advertised.listeners": ",".join(f"{name}://{ADDRESS}:{ports[name]}" for name in own),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "num.io.threads": "2",
            "num.network.threads": "1",
            "background.threads": "2",
            "log.cleaner.dedupe.buffer.size": str(4 << 20),
            "log.initial.task.delay.ms": "500",
            **self.settings,
        }

    def _format(self, java: list[str], properties: Path) -> None:
        """Make the folder of the data; raises EnvironmentNotReady with the broker's own words."""
        cluster = base64.b64encode(uuid.uuid4().bytes, b"AA").decode().rstrip("=")
        command = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_SECONDS,
            check=False,
        )
        if done.returncode:
            words = " ".join((done.stderr + done.stdout).split())
            raise EnvironmentNotReady(
                f"the folder {self.folder} of the broker could not be made: {words[-500:]}"
            )

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        ends = time.monotonic() + START_SECONDS
        while not _accepts(self.port):
            if process.poll() is not None or time.monotonic() > ends:
                why = (
                    "ended"
                    if process.poll() is not None
                    else f"did not answer within {START_SECONDS:g} seconds"
                )
                self.kill()
                raise EnvironmentNotReady(f"the broker {why}: {self._read_last_words()}")
            time.sleep(_PAUSE)


def find_free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as listening:
        listening.bind((ADDRESS, 0))
        return int(listening.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as asking:
        asking.settimeout(1.0)
        return asking.connect_ex((ADDRESS, port)) == 0
