"""Machines on one machine: network namespaces on a bridge, each with its own address and without the folders of the others.

Needs root and `ip netns`. What runs in one has its own mounts too: where the project, its environment and temporary files of the
outside are, it sees empty folders of its own. Everything ends with the `with` block, or with the process if that is killed.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
SPARK = "/mnt"
"""Where a machine has Spark, of which it has the wheel's folder and no Python packages."""
WAIT_SECONDS = 60.0
SWEEP = r"""
cat >/dev/null
for namespace in $(ip netns list | grep -o "^$1-[a-z0-9]*"); do
    while pids=$(ip netns pids "$namespace") && [ -n "$pids" ]; do kill -9 $pids 2>/dev/null; sleep 0.05; done
    ip netns del "$namespace"
done
for link in $(ip -o link show master "$1" | cut -d: -f2 | cut -d@ -f1); do ip link del "$link" 2>/dev/null; done
ip link del "$1"
rm -rf "$2" "$3"
"""
"""Takes a network away when its input ends: when it is closed, or with the process that holds the other end.

A link that goes with its namespace goes a moment later, so it may be listed and be gone when it is deleted.
"""


class Machine:
    """One network namespace with an address; processes in it are ended with it."""

    def __init__(self, network: Network, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.namespace = f"{network.bridge}-{name}"
        self._outside, self._inside = f"{network.bridge}{name[:1]}{name[-1:]}", "eth0"
        self._log = network.logs / f"{name}.log"
        run("ip", "netns", "add", self.namespace)
        run(*f"ip link add {self._outside} type veth peer name {self._inside} netns {self.namespace}".split())
        run("ip", "link", "set", self._outside, "master", network.bridge, "up")
        inside = ("ip", "-n", self.namespace)
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "addr", "add", f"{address}/24", "dev", self._inside)
        run(*inside, "link", "set", self._inside, "up")

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] = os.environ,
        *,
        bare: bool = False,
        output: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on this machine; on a `bare` one the folders of the outside are not there."""
        words = ["ip", "netns", "exec", self.namespace]
        if bare:
            words += ["unshare", "--mount", "sh", "-c", _without_folders(), "sh"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*words, *command],
                env=dict(environment),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log if output is None else output,
                stderr=log,
                start_new_session=True,
            )

    def pids(self) -> list[int]:
        """Return the processes of this machine."""
        output = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in output.stdout.split()]

    def listeners(self) -> list[str]:
        """Return the addresses at which programs of this machine listen."""
        words = [
            "ip",
            "netns",
            "exec",
            self.namespace,
            "ss",
            "--no-header",
            "--listening",
            "--tcp",
            "--numeric",
        ]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return [line.split()[3].rpartition(":")[0].strip("[]") for line in output.splitlines()]

    def kill(self) -> None:
        """End all processes of this machine at once, as when it loses its power."""
        while found := self.pids():  # they may have started others meanwhile
            for pid in found:
                with suppress(ProcessLookupError):
                    ending = os.pidfd_open(pid)
                    signal.pidfd_send_signal(ending, signal.SIGKILL)
                    await_end(ending, f"process {pid} of {self.name}")

    def unplug(self) -> None:
        """Take it off the network: packets to it and from it are lost."""
        run("ip", "link", "set", self._outside, "down")

    def plug(self) -> None:
        """Put it back."""
        run("ip", "link", "set", self._outside, "up")

    def await_line(self, line: str, otherwise: str) -> None:
        """Return once its programs have said a line; raises TimeoutError with `otherwise` and what they have said."""
        self._log.touch()
        words = ["tail", "--lines=+1", "--follow", str(self._log)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, errors="replace") as tail:
            late = threading.Timer(WAIT_SECONDS, tail.kill)
            late.start()
            assert tail.stdout is not None
            found = any(line in said for said in tail.stdout)
            late.cancel()
            tail.kill()
        if not found:
            raise TimeoutError(f"{otherwise}; the end of its log:\n{self.log()[-3000:]}")

    def log(self) -> str:
        """Return what its programs have said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class Network:
    """A bridge of its own and the machines at it."""

    def __init__(self) -> None:
        mark = secrets.token_hex(2)
        self.bridge, self._subnet = f"tl{mark}", f"10.{int(mark[:2], 16)}.{int(mark[2:], 16)}"
        self.machines: dict[str, Machine] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="tideline-cluster-"))
        """A folder of the outside: of the driver, and of no bare machine."""
        self.work = Path(tempfile.mkdtemp(prefix="tideline-cluster-", dir="/var/tmp"))
        """A folder of every machine, on disk: what workers unpack and move is gigabytes."""
        self.logs = self.folder / "logs"
        self.logs.mkdir()

    def __enter__(self) -> Network:
        words = ["sh", "-c", SWEEP, "sh", self.bridge, str(self.folder), str(self.work)]
        self.sweeper = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sweeper.communicate()

    def machine(self, name: str) -> Machine:
        """Return a new machine."""
        made = Machine(self, name, f"{self._subnet}.{len(self.machines) + 2}")
        self.machines[name] = made
        return made


def run(*words: str) -> None:
    """Run a command of the system; raises with what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def await_end(process: int, what: str) -> None:
    """Return when the process of a descriptor (`os.pidfd_open`) has ended, and close it; raises TimeoutError."""
    try:
        if not select.select([process], [], [], WAIT_SECONDS)[0]:
            raise TimeoutError(f"{what} does not end")
    finally:
        os.close(process)


def _without_folders() -> str:
    """Return a script that runs a command where Spark is at SPARK, and the outside's folders are empty."""
    import pyspark

    hidden = {ROOT, Path(sys.prefix).resolve(), Path(tempfile.gettempdir()).resolve()}
    outer = [
        folder
        for folder in hidden
        if folder.is_dir() and not any(other in folder.parents for other in hidden)
    ]
    steps = [f"mount --bind '{Path(pyspark.__file__).resolve().parent}' {SPARK}"]
    steps += [f"mount -t tmpfs tmpfs '{folder}'" for folder in sorted(outer)]
    return " && ".join([*steps, "cd /tmp", 'exec "$@"'])
