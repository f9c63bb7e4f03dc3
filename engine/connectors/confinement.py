"""Which places a project's sources and sinks may reach: its home, and folders and buckets that a setting adds to it.

The text of a model may come from somebody else than the person whose rights the process has, so a path in it is not enough.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.errors import PathNotAllowed

SETTING = "TIDELINE_ALLOWED_PATHS"
_ADDRESS = re.compile(r"s3a?://")


def resolve_allowed_path(path: Path, home: Path) -> Path:
    """Return a path, its links resolved, if it lies in `home` or in a folder that TIDELINE_ALLOWED_PATHS names.

    A relative path starts at `home`; nothing of it has to exist. Raises PathNotAllowed.
    """
    base = home.resolve()
    found = _resolve(base / path)
    if any(found.is_relative_to(folder) for folder in (base, *_list_allowed_folders(base))):
        return found
    led = "" if found == base / path else f" (it leads to {found})"
    raise PathNotAllowed(
        f"{path}{led} lies outside of {base}: use a path in it, or name a folder that holds it in the environment variable "
        f"{SETTING} (several are separated by {os.pathsep!r})"
    )


def find_project_home() -> Path | None:
    """Return the project's home, or None where nobody has defined one: paths are then those of the person who typed them."""
    home = os.environ.get("TIDELINE_HOME")
    return Path(home).expanduser().resolve() if home else None


def check_bucket_allowed(address: str) -> None:
    """Raise PathNotAllowed if `s3://bucket/prefix` lies in no bucket or prefix that TIDELINE_ALLOWED_PATHS names.

    Where nobody has defined a home any will do. A prefix holds what lies below it: `s3://b/in` holds no `s3://b/inner`.
    """
    if find_project_home() is None:
        return
    requested = _split_address(address)
    for place in filter(_ADDRESS.match, _read_allowed_places()):
        holds = _split_address(place)
        if requested[: len(holds)] == holds:
            return
    raise PathNotAllowed(
        f"{address} is no place of this project: name it, or a prefix that holds it, in the environment variable {SETTING} "
        f"(s3://bucket/prefix; several are separated by {os.pathsep!r})"
    )


def is_bucket_address(path: str) -> bool:
    """Tell whether a path of an option is that of a bucket."""
    return _ADDRESS.match(path) is not None


def _split_address(address: str) -> list[str]:
    """Return bucket and prefix as the names that they are made of; a prefix that climbs holds nothing, and lies nowhere."""
    found = _ADDRESS.sub("", address, count=1).rstrip("/").split("/")
    if not all(part and part not in (".", "..") for part in found):
        raise PathNotAllowed(f"{address} is no address of a bucket: write s3://bucket/prefix")
    return found


def _read_allowed_places() -> list[str]:
    """Return what the setting names; the colon of an address separates nothing."""
    texts = re.split(rf"{re.escape(os.pathsep)}(?!//)", os.environ.get(SETTING, ""))
    return [text.strip() for text in texts if text.strip()]


def _list_allowed_folders(base: Path) -> list[Path]:
    return [
        _resolve(base / Path(name).expanduser())
        for name in _read_allowed_places()
        if not _ADDRESS.match(name)
    ]


def _resolve(path: Path) -> Path:
    try:
        found = path.resolve()
        looped = any(part.is_symlink() for part in (found, *found.parents))
    except (OSError, RuntimeError, ValueError) as error:  # a NUL in the name; before Python 3.13 a loop, too
        raise PathNotAllowed(f"{path} leads nowhere: {error}") from None
    if looped:
        raise PathNotAllowed(f"{path} leads nowhere: it is a link that leads to itself")
    return found
