"""Where the files of a sink go, and whether they may: a project's sinks write in its home, unless a setting says more."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.connectors.confinement import (
    check_bucket_allowed,
    find_project_home,
    is_bucket_address,
    resolve_allowed_path,
)
from engine.hummock.object_store.local import ESCAPES, find_unescaped_mark
from engine.runtime.spark.shared_folders import can_write, find_nearest_folder

LOG = "_delta_log"


def to_folder(url: str) -> Path:
    """Return the folder of a local address."""
    return Path(unquote(urlsplit(url).path))


def find_obstacle(url: str, *, delta: bool) -> tuple[str, str] | None:
    """Return what stands in the way of a new sink's files at a local address, and what to do; None if nothing does.

    `delta`: the sink keeps a Delta table there, which needs a folder of its own.
    """
    if not url.startswith("file:"):
        return None
    if mark := find_unescaped_mark(url):
        return f"{url} has a {mark}, behind which no address has anything", ESCAPES
    folder = to_folder(url)
    there = find_nearest_folder(folder)
    if there.is_file():
        return f"{there} is a file", "name a folder, which need not be there"
    holds_table = (folder / LOG).is_dir()
    if delta and not holds_table and folder.is_dir() and any(folder.iterdir()):
        return f"{folder} holds files and no Delta table", "name an empty folder, or one that is not there"
    if not delta and holds_table:
        hint = "name another folder, or connector = 'delta' to bring rows to the table"
        return f"{folder} holds a Delta table, of which files of others are no part", hint
    for one in (there, folder / LOG) if holds_table else (there,):
        if not can_write(one):
            return f"{one} can't be written by this user", "allow it, or name another folder"
    return None


def check_reachable(url: str) -> None:
    """Raise PathNotAllowed if an address leads out of the project's home; where nobody has defined one any place will do."""
    if is_bucket_address(url):
        check_bucket_allowed(url)
        return
    home = find_project_home()
    if home is not None and url.startswith("file:"):
        resolve_allowed_path(to_folder(url), home)
