"""Seconds of processor that this process, the Java below it and Spark's Python workers have spent."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessorSeconds:
    """Seconds of all processors by who spent them: this process, Java, the Python workers below Java."""

    driver: float = 0.0
    java: float = 0.0
    workers: float = 0.0

    @property
    def total(self) -> float:
        """What all of them spent."""
        return self.driver + self.java + self.workers

    def __sub__(self, before: ProcessorSeconds) -> ProcessorSeconds:
        return ProcessorSeconds(
            self.driver - before.driver, self.java - before.java, self.workers - before.workers
        )


def list_processes() -> dict[str, list[int]]:
    """Return this process and all that live below it by who they are: `driver`, `java`, and the `workers` below Java."""
    return {who: list(ticks) for who, ticks in _read_ticks().items()}


def measure_processors() -> ProcessorSeconds:
    """Return what this process and all that live below it have spent, with their children that have ended."""
    tick = os.sysconf("SC_CLK_TCK")
    return ProcessorSeconds(**{who: sum(ticks.values()) / tick for who, ticks in _read_ticks().items()})


def _read_ticks() -> dict[str, dict[int, int]]:
    children: dict[int, list[int]] = {}
    spent: dict[int, tuple[str, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            before, _, after = path.read_text().rpartition(")")
            fields, process = after.split(), int(path.parent.name)
            children.setdefault(int(fields[1]), []).append(process)
            spent[process] = (before.partition("(")[2], sum(map(int, fields[11:15])))
    found: dict[str, dict[int, int]] = {"driver": {}, "java": {}, "workers": {}}
    waiting = [(os.getpid(), "driver")]
    while waiting:
        process, who = waiting.pop()
        name, ticks = spent.get(process, ("", 0))
        who = "java" if name == "java" else who
        found[who][process] = ticks
        below = "workers" if who == "java" else who
        waiting += [(child, below) for child in children.get(process, [])]
    return found


def measure_machine() -> float:
    """Return the seconds that all processes of the machine have spent of its processors; not what other machines took of it."""
    with Path("/proc/stat").open() as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
