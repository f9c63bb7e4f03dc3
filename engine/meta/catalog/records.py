"""Typed records of the catalog: the prefix of each kind of entry, and how its value is read and written.

An entry of a version's catalog is a text under a name. A kind of entry has a prefix, listed in `Prefix`, and the module that owns
its value declares a `Record` of it. Nobody else spells a prefix or reads a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from engine.hummock import Version
from engine.hummock.manifests.preconditions import Precondition, require

T = TypeVar("T")
Entries = dict[str, str | None]
"""What a commit does to the catalog: texts by key, None removes one."""
KEPT_VALUES = 4096


class Prefix(StrEnum):
    """The prefixes of the catalog's entries; what follows one is the name of a relation, a table, or a domain."""

    RELATION = "relation/"
    PLAN = "plan/"
    REPLACED = "replaced/"
    SUCCESSION = "succession/"
    BACKFILL = "backfill/"
    FAILURE = "failure/"
    CONTROL = "control/"
    QUARANTINE = "quarantine/"
    BARRIER = "barrier/"
    BOUNDARY = "crossing/"
    CHECKS = "checks/"
    SINK = "sink/"
    SUBSCRIPTION = "subscription/"
    SAMPLES = "samples/"
    SAMPLING = "sampling/"


class Record(Generic[T]):
    """One kind of entries: a value by name, kept as text under `prefix` and the name; values are not to be changed."""

    def __init__(self, prefix: Prefix, decode: Callable[[str], T], encode: Callable[[T], str]) -> None:
        self.prefix, self.encode = prefix.value, encode
        self.decode = lru_cache(maxsize=KEPT_VALUES)(decode)

    @classmethod
    def of_json(cls, prefix: Prefix, kind: type[T]) -> Record[T]:
        """Return the record of values that are kept as JSON."""
        return cls(prefix, lambda text: msgspec.json.decode(text, type=kind), encode_json)

    def key(self, name: str) -> str:
        """Return the key of a name's entry."""
        return self.prefix + name

    def has(self, version: Version, name: str) -> bool:
        """Tell whether a version has the entry of a name."""
        return self.prefix + name in version.catalog

    def read_text(self, version: Version, name: str) -> str | None:
        """Return the stored text of a name, None if there is none."""
        return version.catalog.get(self.prefix + name)

    def read(self, version: Version, name: str) -> T | None:
        """Return the value of a name, None if there is none."""
        text = version.catalog.get(self.prefix + name)
        return None if text is None else self.decode(text)

    def list_texts(self, entries: Mapping[str, str]) -> dict[str, str]:
        """Return the stored texts by name."""
        size = len(self.prefix)
        return {key[size:]: text for key, text in entries.items() if key.startswith(self.prefix)}

    def decode_all(self, entries: Mapping[str, str]) -> dict[str, T]:
        """Return the values by name."""
        prefix, size, decode = self.prefix, len(self.prefix), self.decode
        return {key[size:]: decode(text) for key, text in entries.items() if key.startswith(prefix)}

    def list(self, version: Version) -> Mapping[str, T]:
        """Return the values of a version by name; they are read once for each version."""
        return version.catalog.derive(self._derive)

    def _derive(self, entries: Mapping[str, str], _: Mapping[str, T] | None) -> Mapping[str, T]:
        return self.decode_all(entries)

    def record(self, name: str, value: T) -> Entries:
        """Return the entry of a commit that keeps a value."""
        return {self.prefix + name: self.encode(value)}

    def remove(self, *names: str) -> Entries:
        """Return the entries of a commit that removes what is kept of some names."""
        return {self.prefix + name: None for name in names}

    def remove_existing(self, version: Version, names: Iterable[str]) -> Entries:
        """Return the entries of a commit that removes what a version has of some names; none of what it has not."""
        return self.remove(*(name for name in names if self.has(version, name)))

    def rename(self, version: Version, names: Mapping[str, str]) -> Entries:
        """Return the entries of a commit that moves values from old names to new ones, also where two exchange them."""
        gone: Entries = {}
        moved: Entries = {}
        for old, new in names.items():
            text = self.read_text(version, old)
            if old != new and text is not None:
                gone |= self.remove(old)
                moved[self.prefix + new] = text
        return gone | moved

    def require_absent(self, name: str, message: str) -> Precondition:
        """Return the precondition that nobody has kept a value of a name."""
        return require(lambda version: not self.has(version, name), message)

    def require_present(self, name: str, message: str) -> Precondition:
        """Return the precondition that a value of a name is kept."""
        return require(lambda version: self.has(version, name), message)

    def require_same(self, seen: Version, name: str, message: str) -> Precondition:
        """Return the precondition that what is kept of a name is what `seen` has, or nothing as there."""
        before = self.read_text(seen, name)
        return require(lambda version: self.read_text(version, name) == before, message)

    def require_all_same(self, seen: Version, message: str) -> Precondition:
        """Return the precondition that all that is kept is what `seen` has."""
        before = self.list_texts(seen.catalog)
        return require(lambda version: self.list_texts(version.catalog) == before, message)


def encode_json(value: object) -> str:
    """Return the text that an entry holds of a value."""
    return msgspec.json.encode(value).decode()
