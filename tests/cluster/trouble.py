"""What befalls a cluster while a driver works: a worker is killed in every third epoch, S3 is away for a minute in the middle."""

from __future__ import annotations

import random
import re
import subprocess
import threading
from collections.abc import Callable

from tests.cluster.standalone import Cluster

EPOCH = re.compile(r"epoch (\d+)")
EVERY = 3
OUTAGE_SECONDS = 60.0
WITHIN_SECONDS = 3.0
"""A worker is killed so long at most after its epoch began."""


class Trouble:
    """Follows what a driver says and acts on it; `kills` and `outages` count. Without `kills` it only follows."""

    def __init__(
        self, cluster: Cluster, outage_at: int | None = None, *, kills: bool = True, seed: int = 1
    ) -> None:
        self.cluster, self.outage_at, self._kills = cluster, outage_at, kills
        self.kills = self.outages = 0
        self.lines: list[str] = []
        self._chance = random.Random(seed)
        self._acts: list[threading.Timer] = []

    def follow(self, driver: subprocess.Popen[bytes]) -> int:
        """Read what it says until it ends, acting by the way; returns its status."""
        assert driver.stdout is not None
        for raw in driver.stdout:
            line = raw.decode(errors="replace").rstrip()
            print(line, flush=True)
            self.lines.append(line)
            if (match := EPOCH.fullmatch(line)) is not None:
                self._begun(int(match[1]))
        status = driver.wait()
        for act in self._acts:
            act.join()
        return status

    def _begun(self, epoch: int) -> None:
        if self._kills and epoch % EVERY == EVERY - 1:
            names = sorted(self.cluster.workers)
            name = names[epoch // EVERY % len(names)]
            self._after(self._chance.uniform(0, WITHIN_SECONDS), lambda: self._kill(name))
        if epoch == self.outage_at:
            self.cluster.s3.unplug()
            print("S3 is away", flush=True)
            self._after(OUTAGE_SECONDS, self._plug)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()
        self._acts.append(timer)

    def _kill(self, name: str) -> None:
        self.cluster.workers[name].kill()
        self.kills += 1
        print(f"killed {name}", flush=True)
        self.cluster.start_worker(name)

    def _plug(self) -> None:
        self.cluster.s3.plug()
        self.outages += 1
        print("S3 is back", flush=True)
