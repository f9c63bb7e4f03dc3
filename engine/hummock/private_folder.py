"""A folder for what only one user may read and write, checked before it is trusted."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from engine.errors import EnvironmentNotReady

_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def make_private(folder: Path) -> bool:
    """Make `folder` one that only this user can look into, with what is missing above it; False if it cannot be made.

    Raises EnvironmentNotReady if somebody else could have put something there: it is another user's, a link, or stands in a
    folder in which others can rename what is not theirs.
    """
    with contextlib.suppress(FileExistsError):
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.mkdir(folder, 0o700)
        except FileExistsError:
            raise
        except OSError:
            return False
    if not hasattr(os, "getuid"):
        return folder.is_dir()
    _check_parent(folder)
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        raise _build_error(folder, "is no folder" if not stat.S_ISLNK(found.st_mode) else "is a link")
    if found.st_uid != os.getuid():
        raise _build_error(
            folder, f"belongs to user {found.st_uid}, not to user {os.getuid()}, who runs this"
        )
    if found.st_mode & _OTHERS:
        os.chmod(folder, 0o700)
    return True


def _check_parent(folder: Path) -> None:
    """What stands in a folder that others can write to is safe only where it is sticky, as the temporary folder is."""
    if os.lstat(folder.parent).st_uid not in (0, os.getuid()):
        raise _build_error(folder.parent, "belongs to another user, or is a link that another user made")
    found = os.stat(folder.parent)
    if found.st_uid not in (0, os.getuid()):
        raise _build_error(
            folder.parent, f"belongs to user {found.st_uid}, not to user {os.getuid()}, who runs this"
        )
    if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        raise _build_error(folder.parent, "can be written by other users")


def _build_error(folder: Path, why: str) -> EnvironmentNotReady:
    return EnvironmentNotReady(
        f"decoded rows cannot be kept below {folder}: it {why}. Give a folder of your own: set TIDELINE_CACHE_DIR, or open the "
        f"store with cache_dir=…"
    )
