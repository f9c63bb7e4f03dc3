"""Where a project's folders and its store are: the environment, else the project folder."""

from __future__ import annotations

import os
from pathlib import Path


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
