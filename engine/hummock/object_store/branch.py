"""The objects of a branch: what it has written lies below its place, and the files that it shares lie where its parents put them.

Files are named from the root of the store on, also the branch's own, so that a name says where a file is. Manifests are the
branch's alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import StorageError
from engine.hummock.object_store import ObjectInfo, ObjectStore

BRANCH_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
_PLACE = re.compile(rf"(?:/branch/{BRANCH_NAME}/\d{{20}})+$")
_BRANCHES = re.compile(rf"(?:/branch/{BRANCH_NAME}(?:/\d{{20}})?)+$")
_OBJECT = re.compile(rf"{BRANCH_NAME}/\d{{20}}/")
_BRANCH = re.compile(rf"/branch/({BRANCH_NAME})(?:/(\d{{20}}))?")


@dataclass(frozen=True)
class BranchStep:
    """One part of a branch's address: its name and, in the address of an open one, the manifest that it begins after."""

    name: str
    number: int | None


def is_branch_name(name: str) -> bool:
    """Whether a branch may have this name."""
    return re.fullmatch(BRANCH_NAME, name) is not None


def split_branch_url(url: str) -> tuple[str, tuple[BranchStep, ...]]:
    """Return the address of the root store, and the branches that lead from it; none where the address names none."""
    found = _BRANCHES.search(url.rstrip("/"))
    if found is None:
        return url, ()
    steps = _BRANCH.findall(found.group())
    return url[: found.start()], tuple(
        BranchStep(name, int(number) if number else None) for name, number in steps
    )


def build_path(steps: Iterable[BranchStep]) -> str:
    """Return what the address of a branch has behind that of its store.

    >>> build_path([BranchStep("outer", None), BranchStep("inner", None)])
    'branch/outer/branch/inner'
    """
    numbers = ((step.name, "" if step.number is None else f"/{step.number:020d}") for step in steps)
    return "/".join(f"branch/{name}{number}" for name, number in numbers)


def add_branch(url: str, path: str) -> str:
    """Return the address of a branch of the store at `url`; `path` is its name, or those that lead to it, between slashes.

    Nothing is added without a name, nor where the address ends with them already. Raises StorageError for what is no name.
    """
    names = path.strip("/").split("/") if path else []
    if wrong := next((name for name in names if not is_branch_name(name)), None):
        raise StorageError(f'"{wrong}" in "{path}" is no name of a branch: `tideline branch list` shows them')
    steps = split_branch_url(url)[1]
    if not names or [step.name for step in steps[-len(names) :]] == names:
        return url
    return "/".join([url.rstrip("/"), *(f"branch/{name}" for name in names)])


def find_branch_place(url: str) -> str:
    """Return the place of an open branch below the root of its store, from its address; empty for a store that is none."""
    found = _PLACE.search(url.rstrip("/"))
    return "" if found is None else f"{found.group()[1:]}/"


def find_root_url(url: str) -> str:
    """Return the address of the root of an open branch's store; of a store that is no branch its own."""
    found = _PLACE.search(url.rstrip("/"))
    return url if found is None else url[: found.start()]


def cut_place(path: str, prefix: str) -> str:
    """Return the place of a branch right below `prefix` that an object is at, empty if it is at none."""
    found = _OBJECT.match(path, len(prefix)) if path.startswith(prefix) else None
    return "" if found is None else path[: found.end()]


class BranchObjectStore:
    """The objects of the branch at `place` over those of its store's root: what lies elsewhere it reads and never changes."""

    def __init__(self, inner: ObjectStore, place: str) -> None:
        self.inner, self.place = inner, place

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object of the branch if it is absent."""
        return self.inner.put_if_absent(self._resolve_own(path), data)

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object of the branch."""
        self.inner.put(self._resolve_own(path), data)

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        return self.inner.get(self._resolve(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        return self.inner.get_range(self._resolve(path), offset, length)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose path starts with `prefix`."""
        if not _is_manifest(prefix):
            yield from self.inner.list(prefix, start_after)
            return
        after = f"{self.place}{start_after}" if start_after else ""
        for info in self.inner.list(f"{self.place}{prefix}", after):
            yield ObjectInfo(info.path.removeprefix(self.place), info.size, info.modified, info.etag)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects of the branch."""
        self.inner.delete([self._resolve_own(path) for path in paths])

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        found = self.inner.head(self._resolve(path))
        return None if found is None else ObjectInfo(path, found.size, found.modified, found.etag)

    def local_path(self, path: str) -> Path | None:
        """Return where an object can be mapped, or None."""
        return self.inner.local_path(self._resolve(path))

    def now(self) -> float | None:
        """Return the store's own time, or None."""
        return self.inner.now()

    def _resolve(self, path: str) -> str:
        return f"{self.place}{path}" if _is_manifest(path) else path

    def _resolve_own(self, path: str) -> str:
        found = self._resolve(path)
        if not found.startswith(self.place):
            raise StorageError(
                f"{path} is not of the branch at {self.place} but of a store that it shares files with: it changes its own only"
            )
        return found


def _is_manifest(path: str) -> bool:
    return path == "manifest" or path.startswith("manifest/")
