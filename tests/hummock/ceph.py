"""A real S3 server on loopback: one Ceph monitor, one OSD in memory, one RADOS gateway, from the programs on PATH."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "ceph", "monmaptool", "radosgw-admin")
LOOPBACK = "127.0.0.1"
KEYS = ("test", "testtest")
START_SECONDS = 90.0
LOOK_SECONDS = 0.2


def missing_programs() -> list[str]:
    """The programs that are not on PATH."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class CephGateway:
    """The three daemons as children of this process; `url` is the S3 endpoint. They are stopped by their own pids."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._daemons = folder, []  # type: tuple[Path, list[subprocess.Popen[bytes]]]
        self._config = folder / "ceph.conf"
        self.port = _free_port()
        self.url = f"http://{LOOPBACK}:{self.port}"

    def __enter__(self) -> CephGateway:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the daemons, the gateway first, since each needs the one before it."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def _start(self) -> None:
        fsid, monitor = str(uuid.uuid4()), _free_port()
        for name in ("mon", "osd", "rgw", "run", "log"):
            (self._folder / name).mkdir(parents=True)
        self._config.write_text(_config(self._folder, fsid, monitor, self.port))
        monmap = str(self._folder / "monmap")
        address = f"[v1:{LOOPBACK}:{monitor}]"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, monmap, configured=False)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        self._spawn("ceph-mon", "-i", "a")
        osd = str(uuid.uuid4())
        self._until(lambda: self._run("ceph", "--connect-timeout", "5", "osd", "new", osd))
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._spawn("ceph-osd", "-i", "0")
        place = ("root=default", "host=localhost")
        self._run("ceph", "--connect-timeout", "20", "osd", "crush", "add", "osd.0", "1.0", *place)
        self._spawn("radosgw", "-n", "client.rgw")
        self._until(self._answers)
        user = ("--uid=test", "--display-name=test", f"--access-key={KEYS[0]}", f"--secret-key={KEYS[1]}")
        self._run("radosgw-admin", "user", "create", *user)

    def _answers(self) -> None:
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(self.url, timeout=5):
            pass

    def _until(self, work) -> None:  # type: ignore[no-untyped-def]
        """Repeat what fails while a daemon is coming up."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                work()
                return
            except (subprocess.CalledProcessError, OSError):
                dead = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
                if dead or time.monotonic() > deadline:
                    raise RuntimeError(f"Ceph did not come up ({dead}): see {self._folder}/log") from None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._daemons[-1].wait(LOOK_SECONDS)  # the one that is coming up; its death ends the wait

    def _run(self, program: str, *arguments: str, configured: bool = True) -> None:
        config = ["-c", str(self._config)] if configured else []
        subprocess.run([program, *config, *arguments], check=True, capture_output=True, timeout=START_SECONDS)

    def _spawn(self, program: str, *arguments: str) -> None:
        with open(self._folder / "log" / f"{program}.out", "wb") as out:
            command = [program, "-c", str(self._config), "-f", *arguments]
            self._daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def _config(folder: Path, fsid: str, monitor: int, port: int) -> str:
    sections = {
        "global": {
            "fsid": fsid,
            "mon host": f"v1:{LOOPBACK}:{monitor}",
            "mon initial members": "a",
            "public addr": LOOPBACK,
            "cluster addr": LOOPBACK,
            "ms bind msgr2": "false",
            "auth cluster required": "none",
            "auth service required": "none",
            "auth client required": "none",
            "keyring": "/dev/null",
            "run dir": folder / "run",
            "admin socket": folder / "run" / "$name.asok",
            "log file": folder / "log" / "$name.log",
            "osd pool default size": 1,
            "osd pool default min size": 1,
            "osd pool default pg num": 8,
            "osd crush chooseleaf type": 0,
            "mon allow pool size one": "true",
            "mon max pg per osd": 1000,
            "mon data avail crit": 0,
            "mon data avail warn": 0,
            "osd objectstore": "memstore",
            "memstore device bytes": 2 << 30,
            "osd memory target": 939524096,
        },
        "mon.a": {"mon data": folder / "mon", "mon addr": f"{LOOPBACK}:{monitor}"},
        "osd.0": {"osd data": folder / "osd"},
        "client.rgw": {
            "rgw data": folder / "rgw",
            "rgw frontends": f"beast endpoint={LOOPBACK}:{port} tcp_nodelay=1",
        },
    }
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in section.items())
        for name, section in sections.items()
    )
