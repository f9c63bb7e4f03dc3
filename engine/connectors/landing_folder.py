"""What lies in a landing folder: the files that are read, without those that somebody is still writing."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from engine.connectors.confinement import allowed_path, defined_home
from engine.connectors.file_formats import FileOptions, format_of
from engine.errors import PathNotAllowed, SourceError


class FoundFile(NamedTuple):
    """A file of a folder: its path in it as the file system has it, its size and time, and why it can't be read, if so."""

    path: str
    size: int
    mtime_ns: int
    fault: str | None = None


def project_path(path: str) -> Path:
    """Return a path of an option; a relative one is relative to TIDELINE_HOME, else to the working folder."""
    return Path(os.environ.get("TIDELINE_HOME") or ".").resolve() / Path(path).expanduser()


def landing_path(path: str) -> Path:
    """Return the folder that an option names; raises PathNotAllowed if it leads out of the home of a project."""
    found, home = project_path(path), defined_home()
    return found if home is None else allowed_path(found, home)


def stored_path(path: str) -> str:
    """Return a file's path as text that can be stored; one that is not UTF-8 begins with `./`, with which no other does."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "./" + os.fsencode(path.replace("\\", "\\\\")).decode("utf-8", "backslashreplace")
    return path


def is_read(name: str, options: FileOptions) -> bool:
    """Tell whether files of this name are read: not those that start with a dot or an underscore, nor unknown suffixes."""
    return not name.startswith((".", "_")) and format_of(name, options) is not None


def look_at(folder: Path, path: str) -> FoundFile | None:
    """Return the file at a path in the folder; None if there is none, or it is empty.

    A link that leads out of the folder, or to nothing that can be read, is a file with a fault.
    """
    try:
        own = os.lstat(f"{folder}/{path}")
        if stat.S_ISLNK(own.st_mode):
            return _linked(folder, path, own)
    except FileNotFoundError:
        return None
    except OSError as error:
        return FoundFile(path, 0, 0, f"the file can't be looked at: {error.strerror}")
    return _found(path, own)


def _linked(folder: Path, path: str, own: os.stat_result) -> FoundFile | None:
    try:
        return _found(path, allowed_path(folder / path, folder.resolve()).stat())
    except PathNotAllowed as error:
        return FoundFile(path, own.st_size, own.st_mtime_ns, f"a link that is not followed: {error}")


def _found(path: str, status: os.stat_result) -> FoundFile | None:
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    return FoundFile(path, status.st_size, status.st_mtime_ns)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder that is read; a link to a folder is none."""
    try:
        return entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "_"))
    except OSError:
        return False


def unreadable(table: str, folder: Path, error: OSError) -> SourceError:
    """Return the error for a landing folder that can't be read."""
    if folder.is_file():
        return SourceError(f"table {table}: {folder} is a file: name the folder that its files come to")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SourceError(f"table {table}: there is no folder {folder}: create it, or correct its path")
    return SourceError(f"table {table}: the folder {folder} can't be read: {error.strerror}")
