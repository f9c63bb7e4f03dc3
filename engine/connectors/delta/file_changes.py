"""Which files of a Delta table came, went, or got another deletion vector between two versions, as its log tells.

Rows of a file that is in both versions are the same, but for those that its vectors hide. Files that a commit has rewritten
without a change of rows (OPTIMIZE) are left out, so a commit that touches such a file cannot be told together with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

import msgspec

from engine.connectors.delta.vectors import Vector

BRINGING_BACK = ("RESTORE", "CLONE")
"""Operations whose files are those of earlier versions, or of another table."""
ROW_BYTES = 32
"""About what a row of a change takes in a file, at the least."""


class DataFile(msgspec.Struct, frozen=True, rename="camel"):
    """A file of rows, or of changes, as an action of the log names it."""

    path: str = ""
    deletion_vector: Vector | None = None
    data_change: bool = True
    size: int | None = 0
    partition_values: dict[str, str | None] | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    extended_file_metadata: bool | None = None

    @property
    def has_row_ids(self) -> bool:
        """Whether its rows have ids and versions."""
        return self.base_row_id is not None and self.default_row_commit_version is not None


def mark_removed(file: DataFile) -> DataFile:
    """Return a file as a removal tells it, which need not say of which partition it was."""
    told = file.extended_file_metadata or file.partition_values
    return file if told else msgspec.structs.replace(file, partition_values=None)


class FileActions(msgspec.Struct, frozen=True):
    """What a commit did with files of rows; `brings_back` tells that rows may have come which are older than the commit."""

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    brings_back: bool = False


def build_actions(
    version: int, operation: str, added: Iterable[DataFile], removed: Iterable[DataFile]
) -> FileActions:
    """Return what the commit of a version did by the actions of its entry."""
    came, went = tuple(added), tuple(mark_removed(file) for file in removed)
    paths = {_identify(file.path) for file in went}
    back = operation in BRINGING_BACK or any(
        file.data_change
        and _identify(file.path) not in paths
        and file.default_row_commit_version not in (None, version)
        for file in came
    )
    return FileActions(came, went, back)


@dataclass
class FileChanges:
    """What differs between the files of two versions: each path with what it was, and what it is; None where it was not there."""

    states: dict[str, tuple[DataFile | None, DataFile | None]] = field(default_factory=dict)
    brings_back: bool = False
    """Whether rows may have come that are older than the earlier version, but were not in it."""
    _rewritten: set[str] = field(default_factory=set)
    _size: int = 0

    def take(self, actions: FileActions) -> bool:
        """Take what a further commit did, False if it touches a file that was rewritten since: then it begins anew."""
        added = {_identify(file.path): file for file in actions.added}
        removed = {_identify(file.path): file for file in actions.removed}
        every = (*actions.added, *actions.removed)
        touched = {_identify(file.path) for file in every if file.data_change}
        moved = {_identify(file.path) for file in every} - touched
        if touched & self._rewritten:
            return False
        self._rewritten |= moved
        self.brings_back = self.brings_back or actions.brings_back
        for path in touched:
            was = self.states.get(path)
            pair = (was[0] if was else removed.get(path), added.get(path))
            self.states[path] = pair
            self._size += _weigh(*pair) - (_weigh(*was) if was else 0)
        return True

    def list_come(self) -> list[DataFile]:
        """Return the files that the later version alone has."""
        return [new for old, new in self.states.values() if old is None and new is not None]

    def list_gone(self) -> list[DataFile]:
        """Return the files that the earlier version alone has."""
        return [old for old, new in self.states.values() if old is not None and new is None]

    def list_changed(self) -> list[tuple[DataFile, DataFile]]:
        """Return the files of both versions that have other vectors, as they were and as they are."""
        return [
            (old, new)
            for old, new in self.states.values()
            if old is not None and new is not None and old.deletion_vector != new.deletion_vector
        ]

    def iterate_files(self) -> Iterator[DataFile]:
        """Yield the files, as they were or as they are, whose rows have to be read."""
        yield from self.list_come()
        yield from self.list_gone()
        for pair in self.list_changed():
            yield from pair

    def measure(self) -> int:
        """Return about how many bytes of files the rows take that may have changed."""
        return self._size


def _identify(path: str) -> str:
    """Return a file's name without what its writers may write in several ways."""
    plain = unquote(path)
    return "/" + plain.removeprefix("file:").lstrip("/") if plain.startswith("file:") else plain


def _weigh(old: DataFile | None, new: DataFile | None) -> int:
    """Return about how many bytes the rows take that a path has, or had, alone."""
    if old is not None and new is not None:
        return ROW_BYTES * abs(count_hidden(new) - count_hidden(old))
    return sum(file.size or 0 for file in (old, new) if file is not None)


def count_hidden(file: DataFile) -> int:
    """Return how many rows of a file are deleted."""
    return 0 if file.deletion_vector is None else file.deletion_vector.cardinality


def have_row_ids(files: Iterable[DataFile]) -> bool:
    """Tell whether the rows of all of some files have ids and versions."""
    return all(file.has_row_ids for file in files)
