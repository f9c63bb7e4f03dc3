"""Where a project's folders and its store are: the environment, else the project folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from engine.errors import EnvironmentNotReady


def project_home() -> Path:
    """Return TIDELINE_HOME, else the folder that holds this package."""
    home = os.environ.get("TIDELINE_HOME")
    return Path(home).expanduser().resolve() if home else Path(__file__).resolve().parent.parent


def assets_folder() -> Path:
    """Return TIDELINE_ASSETS, else `assets/` of the project."""
    folder = os.environ.get("TIDELINE_ASSETS")
    return Path(folder).expanduser().resolve() if folder else project_home() / "assets"


def store_url() -> str:
    """Return TIDELINE_STORE, else the store in `.tideline/` of the project."""
    return os.environ.get("TIDELINE_STORE") or (project_home() / ".tideline" / "store").as_uri()


def run_mode() -> Literal["tick", "driver"]:
    """Return TIDELINE_RUNS: `tick`, a run takes what is pending and ends, or `driver`, one run stays and commits as it comes."""
    mode = os.environ.get("TIDELINE_RUNS", "tick")
    if mode not in ("tick", "driver"):
        raise EnvironmentNotReady(f"TIDELINE_RUNS is '{mode}': it is tick or driver")
    return mode  # type: ignore[return-value]  # it was compared just now


def driver_seconds() -> float:
    """Return TIDELINE_DRIVER_SECONDS, how long a driver works before its successor takes over; an hour by default."""
    return float(os.environ.get("TIDELINE_DRIVER_SECONDS", "3600"))
