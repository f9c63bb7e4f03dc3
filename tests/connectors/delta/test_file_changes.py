"""Which files differ between two versions, by the actions of the commits between them."""

from __future__ import annotations

import pytest

from engine.connectors.delta.file_changes import DataFile, FileActions, FileChanges, build_actions
from engine.connectors.delta.vectors import Vector


def file(path: str, hidden: int = 0, *, changes: bool = True) -> DataFile:
    vector = Vector("i", f"v{hidden}", None, 4, hidden) if hidden else None
    return DataFile(path, vector, changes, 100)


def take(changes: FileChanges, added: list[DataFile], removed: list[DataFile]) -> bool:
    return changes.take(FileActions(tuple(added), tuple(removed)))


def test_files_that_came_went_and_have_another_vector() -> None:
    changes = FileChanges()
    assert take(changes, [file("new"), file("same", 3)], [file("old"), file("same")])
    assert take(changes, [file("same", 5), file("brief")], [file("same", 3)])
    assert take(changes, [], [file("brief")])
    assert [each.path for each in changes.list_come()] == ["new"]
    assert [each.path for each in changes.list_gone()] == ["old"]
    assert changes.list_changed() == [(file("same"), file("same", 5))]
    assert changes.measure() == 200 + 5 * 32


def test_what_is_restored_to_what_it_was_is_no_change() -> None:
    changes = FileChanges()
    assert take(changes, [file("a", 1)], [file("a"), file("b")])
    assert take(changes, [file("a"), file("b")], [file("a", 1)])
    assert not any(changes.iterate_files())


def test_a_commit_that_touches_a_rewritten_file_begins_anew() -> None:
    changes = FileChanges()
    assert take(changes, [file("new")], [])
    assert take(
        changes, [file("big", changes=False)], [file("new", changes=False), file("old", changes=False)]
    )
    assert take(changes, [file("more")], [])
    assert not take(changes, [], [file("big")])
    assert not take(changes, [file("old")], [])
    assert [each.path for each in changes.list_come()] == ["new", "more"]
    assert take(FileChanges(), [], [file("big")])


def test_a_file_is_one_however_its_name_is_written() -> None:
    changes = FileChanges()
    assert take(changes, [file("k=a%20b/ü"), file("file:///d/e")], [])
    assert take(changes, [], [file("k=a b/%C3%BC"), file("file:/d/e")])
    assert not any(changes.iterate_files()) and changes.measure() == 0


@pytest.mark.parametrize(
    ("operation", "path", "version", "changes", "back"),
    [
        ("WRITE", "new", 5, True, False),
        ("DELETE", "old", 2, True, False),  # with another vector
        ("WRITE", "new", 2, True, True),
        ("OPTIMIZE", "new", 2, False, False),
        ("RESTORE", "old", 2, True, True),
        ("WRITE", "new", None, True, False),
    ],
)
def test_rows_that_are_older_than_their_commit_are_known(
    operation: str, path: str, version: int | None, changes: bool, back: bool
) -> None:
    added = DataFile(path, None, changes, 1, {}, 0, version)
    done = build_actions(5, operation, [added], [file("old")])
    assert done.brings_back is back
    found = FileChanges()
    assert found.take(done) and found.take(FileActions())
    assert found.brings_back is back
