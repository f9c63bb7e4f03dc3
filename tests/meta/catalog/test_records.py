"""Typed records: one value, one text, one key; and the preconditions over them."""

from __future__ import annotations

import msgspec
import pytest

from engine.errors import Conflict
from engine.hummock import Version
from engine.hummock.catalog_entries import CatalogEntries
from engine.meta.catalog.records import Prefix, Record


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    times: int = 1


NOTES = Record.of_json(Prefix.FAILURE, Note)


def _version(entries: dict[str, str | None], before: Version | None = None) -> Version:
    held = CatalogEntries() if before is None else before.catalog
    assert isinstance(held, CatalogEntries)
    return Version(catalog=held.apply_changes(entries))


def test_a_value_is_kept_as_one_text_under_its_prefix_and_name() -> None:
    entry = NOTES.record("a", Note("late"))
    assert entry == {"failure/a": '{"text":"late"}'}
    version = _version(entry | {"failures/a": "{", "other/failure/b": "{"})
    assert NOTES.read(version, "a") == Note("late") and NOTES.list(version) == {"a": Note("late")}
    assert NOTES.has(version, "a") and not NOTES.has(version, "b") and NOTES.read(version, "b") is None
    assert NOTES.list(_version(NOTES.record("b", Note("x", 2)), version)).keys() == {"a", "b"}


def test_only_what_is_there_is_removed_and_renamed() -> None:
    version = _version(NOTES.record("a", Note("1")) | NOTES.record("b", Note("2")))
    assert NOTES.remove_existing(version, ["a", "c"]) == {"failure/a": None}
    assert NOTES.rename(version, {"c": "d", "b": "b"}) == {}
    moved = _version(NOTES.rename(version, {"a": "z"}), version)
    assert NOTES.list(moved) == {"z": Note("1"), "b": Note("2")}
    exchanged = _version(NOTES.rename(version, {"a": "b", "b": "a"}), version)
    assert NOTES.list(exchanged) == {"a": Note("2"), "b": Note("1")}


def test_preconditions_hold_until_what_they_name_changes() -> None:
    seen = _version(NOTES.record("a", Note("1")))
    other = _version(NOTES.record("b", Note("2")), seen)
    changed = _version(NOTES.record("a", Note("1", 2)), seen)
    gone = _version(NOTES.remove("a"), seen)
    for check, holds, breaks in (
        (NOTES.require_same(seen, "a", "changed"), (seen, other), (changed, gone)),
        (NOTES.require_same(seen, "b", "changed"), (seen, changed, gone), (other,)),
        (NOTES.require_all_same(seen, "changed"), (seen,), (other, changed, gone)),
        (NOTES.require_absent("a", "changed"), (gone,), (seen, other, changed)),
        (NOTES.require_present("a", "changed"), (seen, other, changed), (gone,)),
    ):
        for version in holds:
            check(version)
        for version in breaks:
            with pytest.raises(Conflict, match="changed"):
                check(version)
