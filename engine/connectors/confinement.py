"""Which places of the machine a project's sources and sinks may reach: its home, and what a setting adds to it.

The text of a model may come from somebody else than the person whose rights the process has, so a path in it is not enough.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import PathNotAllowed

SETTING = "TIDELINE_ALLOWED_PATHS"


def allowed_path(path: Path, home: Path) -> Path:
    """Return a path, its links resolved, if it lies in `home` or in a folder that TIDELINE_ALLOWED_PATHS names.

    A relative path starts at `home`; nothing of it has to exist. Raises PathNotAllowed.
    """
    base = home.resolve()
    found = _resolved(base / path)
    if any(found.is_relative_to(folder) for folder in (base, *_widened(base))):
        return found
    led = "" if found == base / path else f" (it leads to {found})"
    raise PathNotAllowed(
        f"{path}{led} lies outside of {base}: use a path in it, or name a folder that holds it in the environment variable "
        f"{SETTING} (several are separated by {os.pathsep!r})"
    )


def defined_home() -> Path | None:
    """Return the project's home, or None where nobody has defined one: paths are then those of the person who typed them."""
    home = os.environ.get("TIDELINE_HOME")
    return Path(home).expanduser().resolve() if home else None


def _widened(base: Path) -> list[Path]:
    named = os.environ.get(SETTING, "").split(os.pathsep)
    return [_resolved(base / Path(name).expanduser()) for name in named if name.strip()]


def _resolved(path: Path) -> Path:
    try:
        found = path.resolve()
        looped = any(part.is_symlink() for part in (found, *found.parents))
    except (OSError, RuntimeError, ValueError) as error:  # a NUL in the name; before Python 3.13 a loop, too
        raise PathNotAllowed(f"{path} leads nowhere: {error}") from None
    if looped:
        raise PathNotAllowed(f"{path} leads nowhere: it is a link that leads to itself")
    return found
