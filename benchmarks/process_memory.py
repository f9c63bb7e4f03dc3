"""The memory that a process has resident, and the most that it has had, by Linux's `/proc/PID/status`.

`getrusage` is not asked: its greatest extent goes on from the process that started this one (`exec` keeps it), so that a small
process with a large parent looks large.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def read_high_water_mib(pid: int | str = "self") -> float:
    """Return the most memory that a process has had resident since its mark was reset; 0 if it is gone."""
    return _read_status(pid, "VmHWM")


def read_resident_mib(pid: int | str = "self") -> float:
    """Return the memory that a process has resident; 0 if it is gone."""
    return _read_status(pid, "VmRSS")


def read_own_mib(pid: int | str = "self") -> float:
    """Return the memory of a process that no file backs: without the pages of mapped files, which go when others need them."""
    return _read_status(pid, "RssAnon")


def reset_high_water(pid: int | str = "self") -> None:
    """Begin a process's high-water mark anew."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _read_status(pid: int | str, field: str) -> float:
    try:
        found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(found[1]) / 1024 if found else 0.0
