"""A folder as an object store."""

from __future__ import annotations

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
