"""What lies in a landing folder: the files that are read, without those that somebody is still writing."""

from __future__ import annotations

import os
from pathlib import Path

from engine.connectors.file_formats import FileOptions, format_of
from engine.errors import SourceError


def project_path(path: str) -> Path:
    """Return a path of an option; a relative one is relative to TIDELINE_HOME, else to the working folder."""
    return Path(os.environ.get("TIDELINE_HOME") or ".").resolve() / Path(path).expanduser()


def listed(table: str, folder: Path, options: FileOptions) -> list[tuple[str, int, int]]:
    """Return (path in the folder, size, time of change in ns) of each file, in the order of the paths.

    Names that start with a dot or an underscore, empty files and unknown suffixes are left alone. Raises SourceError if the
    folder or one in it can't be read.
    """
    if not folder.is_dir():
        raise SourceError(f"table {table}: there is no folder {folder}: create it, or correct its path")
    found: list[tuple[str, int, int]] = []
    waiting = [(folder, "")]
    while waiting:
        place, prefix = waiting.pop()
        try:
            entries = list(os.scandir(place))
        except FileNotFoundError:
            continue  # a folder that was removed meanwhile
        except OSError as error:
            raise SourceError(f"table {table}: the folder {place} can't be read: {error.strerror}") from None
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), f"{prefix}{entry.name}/"))
                elif format_of(Path(entry.name), options) is not None and entry.is_file():
                    stat = entry.stat()
                    if stat.st_size:
                        found.append((prefix + entry.name, stat.st_size, stat.st_mtime_ns))
            except FileNotFoundError:
                continue
    return sorted(found)
