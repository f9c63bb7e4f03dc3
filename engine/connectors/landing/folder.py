"""Landing folders of this machine: what lies in one, and how a file of it is opened safely."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.connectors.confinement import find_project_home, resolve_allowed_path
from engine.connectors.formats.file_format import MalformedFile
from engine.connectors.landing.place import FoundFile, is_hidden_folder
from engine.errors import PathNotAllowed, SourceError


@dataclass(frozen=True)
class LandingFolder:
    """A folder of this machine as a place where files land."""

    folder: Path

    @property
    def display_name(self) -> str:
        """The folder's path."""
        return str(self.folder)

    def look_at(self, path: str) -> FoundFile | None:
        """Return the file at a path in the folder, None if there is none."""
        return look_at(self.folder, path)

    def open(self, path: str, size: int, *, handed_on: bool) -> BinaryIO:
        """Open a file that stands in the folder, links resolved; never waits for a pipe that took its place."""
        found = resolve_allowed_path(self.folder / path, self.folder.resolve())
        number = os.open(found, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise MalformedFile("it is no file any more")
        return os.fdopen(number, "rb")


def resolve_project_path(path: str) -> Path:
    """Return a path of an option; a relative one is relative to TIDELINE_HOME, else to the working folder."""
    return Path(os.environ.get("TIDELINE_HOME") or ".").resolve() / Path(path).expanduser()


def resolve_landing_folder(path: str) -> Path:
    """Return the folder that an option names; raises PathNotAllowed if it leads out of the home of a project."""
    found, home = resolve_project_path(path), find_project_home()
    return found if home is None else resolve_allowed_path(found, home)


def look_at(folder: Path, path: str) -> FoundFile | None:
    """Return the file at a path in the folder; None if there is none, or it is empty.

    A link that leads out of the folder, or to nothing that can be read, is a file with a fault.
    """
    try:
        own = os.lstat(f"{folder}/{path}")
        if stat.S_ISLNK(own.st_mode):
            return _follow_link(folder, path, own)
    except FileNotFoundError:
        return None
    except OSError as error:
        return FoundFile(path, 0, 0, f"the file can't be looked at: {error.strerror}")
    return _build_found_file(path, own)


def _follow_link(folder: Path, path: str, own: os.stat_result) -> FoundFile | None:
    try:
        return _build_found_file(path, resolve_allowed_path(folder / path, folder.resolve()).stat())
    except PathNotAllowed as error:
        return FoundFile(path, own.st_size, own.st_mtime_ns, f"a link that is not followed: {error}")


def _build_found_file(path: str, status: os.stat_result) -> FoundFile | None:
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    return FoundFile(path, status.st_size, status.st_mtime_ns)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder that is read; a link to a folder is none."""
    try:
        return entry.is_dir(follow_symlinks=False) and not is_hidden_folder(entry.name)
    except OSError:
        return False


def build_unreadable_error(table: str, folder: Path, error: OSError) -> SourceError:
    """Return the error for a landing folder that can't be read."""
    if folder.is_file():
        return SourceError(f"table {table}: {folder} is a file: name the folder that its files come to")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SourceError(f"table {table}: there is no folder {folder}: create it, or correct its path")
    return SourceError(f"table {table}: the folder {folder} can't be read: {error.strerror}")
