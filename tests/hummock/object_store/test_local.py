"""A folder as an object store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import StorageError
from engine.hummock.object_store.local import LocalObjectStore


@pytest.mark.parametrize("path", ["/outside", "../outside", "a/../../outside"])
def test_no_object_lies_outside_of_the_folder(tmp_path: Path, path: str) -> None:
    objects, outside = LocalObjectStore(tmp_path / "store"), tmp_path / "outside"
    for ask in (
        lambda: objects.put(path, b""),
        lambda: objects.put_if_absent(path, b""),
        lambda: objects.get(path),
        lambda: objects.get_range(path, 0, 1),
        lambda: objects.head(path),
        lambda: objects.delete([path]),
        lambda: objects.local_path(path),
    ):
        with pytest.raises(StorageError, match="outside of that folder"):
            ask()
    assert not outside.exists()


@pytest.mark.parametrize("way", ["put", "put_if_absent"])
def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    objects, synced = LocalObjectStore(tmp_path / "store"), list[tuple[bool, bool]]()
    objects.put("of/before", b"")
    named = tmp_path / "store" / "of" / "name"

    def note(descriptor: int) -> None:
        is_folder = os.path.samestat(os.fstat(descriptor), os.stat(named.parent))
        assert is_folder or os.fstat(descriptor).st_size == 4, "it is synced before all of it is written"
        synced.append((is_folder, named.exists()))

    monkeypatch.setattr(os, "fsync", note)
    getattr(objects, way)("of/name", b"rows")
    assert synced == [(False, False), (True, True)]


@pytest.mark.parametrize("name", ["shop?x", "shop#x", "shop?branch=b", "shop#"])
def test_an_address_is_never_cut(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match="write \\? in a name as %3F, and # as %23"):
        LocalObjectStore.of_url(f"{tmp_path.as_uri()}/{name}")
    assert not list(tmp_path.iterdir())
    LocalObjectStore.of_url((tmp_path / name).as_uri()).put("a", b"")
    assert (tmp_path / name / "a").is_file()
