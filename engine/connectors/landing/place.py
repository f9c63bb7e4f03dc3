"""What a landing source needs of the place where its files lie, a folder or a bucket, and what it knows of each file."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple, Protocol

from engine.connectors.formats.file_format import FileOptions, detect_format


class FoundFile(NamedTuple):
    """A file of a place: its path in it as the place has it, its size and time, and why it can't be read, if so.

    `etag` is what a bucket changes with the bytes of a file; in a folder it is empty.
    """

    path: str
    size: int
    mtime_ns: int
    fault: str | None = None
    etag: str = ""

    @property
    def stamp(self) -> tuple[int, int | str]:
        """What tells that a file is still the same."""
        return build_stamp(self.size, self.mtime_ns, self.etag)


class LandingPlace(Protocol):
    """Where files land."""

    @property
    def display_name(self) -> str:
        """How a user writes the place."""

    def look_at(self, path: str) -> FoundFile | None:
        """Return the file at a path in the place; None if there is none, or it is empty."""

    def open(self, path: str, size: int, *, handed_on: bool) -> BinaryIO:
        """Open a file; with `handed_on` it has a descriptor, which another process can be given."""


def build_stamp(size: int, mtime_ns: int, etag: str | None) -> tuple[int, int | str]:
    """Return what tells that a file is still the same: its size and its etag, or without one its time."""
    return size, etag or mtime_ns


def is_readable_name(name: str, options: FileOptions) -> bool:
    """Tell whether files of this name are read: not those that start with a dot or an underscore, nor unknown suffixes."""
    return not is_hidden(name) and detect_format(name, options) is not None


def is_readable_path(path: str, options: FileOptions) -> bool:
    """Tell whether files of this path are read: as `is_readable_name`, and no folder on the way is left alone."""
    *folders, name = path.split("/")
    return is_readable_name(name, options) and not any(map(is_hidden_folder, folders))


def is_hidden(name: str) -> bool:
    """Tell whether files of this name are left alone."""
    return name.startswith((".", "_"))


def is_hidden_folder(name: str) -> bool:
    """Tell whether folders of this name are left alone: as files, unless it gives the value of a column (`_day=2`)."""
    return is_hidden(name) and (name.startswith(".") or "=" not in name)
