"""The catalog of a version: texts by name, and what has been read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class CatalogEntries(dict[str, str]):
    """The entries of one version; nobody changes them. What is read from them is kept here, and so belongs to one store."""

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        super().__init__(entries or {})
        self._found: dict[object, Any] = {}
        self._before: dict[object, Any] = {}

    def apply_changes(self, entries: Mapping[str, str | None]) -> CatalogEntries:
        """Return the entries after some were set, and those that are None removed."""
        merged = {**self, **entries}
        after = CatalogEntries({name: text for name, text in merged.items() if text is not None})
        after._before = {**self._before, **self._found}
        return after

    def derive(self, how: Callable[[Mapping[str, str], T | None], T]) -> T:
        """Return what `how` makes of the entries; it is asked once, and is given what it made of the entries before these."""
        if how not in self._found:
            self._found[how] = how(self, self._before.get(how))
        found: T = self._found[how]
        return found

    def __reduce__(self) -> tuple[type[CatalogEntries], tuple[dict[str, str]]]:
        return CatalogEntries, (dict(self),)
