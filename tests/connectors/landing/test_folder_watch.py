"""What is pending costs what is new: records and names are not read again for what was taken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.connectors.landing import folder_watch, pending
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import FILES
from engine.hummock import Hummock, Version
from engine.session import Session

Source = Callable[..., LandingSource]


class Counted:
    """Counts what a look at a folder does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listed = self.looked = self.records = 0
        scandir, look_at = os.scandir, folder_watch.look_at
        all_taken, taken_files = pending.read_file_records, pending.find_file_records

        def counted_scandir(place: str) -> object:
            self.listed += 1
            return scandir(place)

        def counted_look(folder: Path, path: str) -> object:
            self.looked += 1
            return look_at(folder, path)

        def counted_all(store: Hummock, source: str, table_id: int) -> object:
            found = all_taken(store, source, table_id)
            self.records += found.num_rows
            return found

        def counted_some(
            store: Hummock, version: Version, source: str, table_id: int, paths: list[str]
        ) -> object:
            self.records += len(paths)
            return taken_files(store, version, source, table_id, paths)

        monkeypatch.setattr(os, "scandir", counted_scandir)
        monkeypatch.setattr(folder_watch, "look_at", counted_look)
        monkeypatch.setattr(pending, "read_file_records", counted_all)
        monkeypatch.setattr(pending, "find_file_records", counted_some)

    def reset(self) -> None:
        self.listed = self.looked = self.records = 0

    @property
    def seen(self) -> tuple[int, int, int]:
        return self.listed, self.looked, self.records


@pytest.fixture
def large(folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch) -> LandingSource:
    """A source whose folder holds 60 taken files and counts as a large one that is not looked at as a whole again."""
    monkeypatch.setattr(folder_watch, "SMALL", 5)
    monkeypatch.setattr(folder_watch, "REST", 1e9)
    monkeypatch.setattr(pending, "LOOKED_UP_AT_ONCE", 10)
    source = orders()
    for number in range(60):
        (folder / f"{number:02}.csv").write_text(f"id,name\n{number},a\n")
    assert source.poll().files == 60
    settle(folder)
    source.list_files()
    assert source.list_files() == ()
    return source


def settle(folder: Path, seconds: float = 60.0) -> None:
    """Make the folder's time of change an old one."""
    then = time.time() - seconds
    os.utime(folder, (then, then))


def paths(source: LandingSource) -> list[str]:
    return [file.path for file in source.list_files()]


def test_a_look_at_a_folder_in_which_nothing_happens_reads_neither_names_nor_records(
    large: LandingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    assert large.list_files() == ()
    assert counted.seen == (0, 0, 0)


def test_a_new_file_is_found_at_once_and_only_it_is_looked_at(
    large: LandingSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    (folder / "new.csv").write_text("id,name\n100,a\n")
    assert paths(large) == ["new.csv"]
    assert counted.seen == (1, 1, 1)
    counted.reset()
    assert paths(large) == ["new.csv"]
    assert counted.seen == (0, 1, 0)
    assert large.poll().files == 1
    assert large.list_files() == ()


def test_a_file_that_is_put_in_the_place_of_a_taken_one_is_told_at_once(
    large: LandingSource, folder: Path
) -> None:
    (folder / ".other").write_text("id,name\n7,longer than before\n")
    (folder / ".other").rename(folder / "07.csv")
    assert paths(large) == ["07.csv"]
    assert "changed after it was taken" in large.poll().warnings[0]
    assert large.list_files() == ()


def test_a_file_that_is_written_to_in_its_place_is_told_when_everything_is_looked_at(
    large: LandingSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder / "07.csv").open("a") as file:
        file.write("70,more\n")
    assert paths(large) == []
    watched = large._get_watch()
    watched._due = 0.0
    assert paths(large) == ["07.csv"]


def test_two_files_of_one_instant_are_both_found_though_only_one_was_listed(
    large: LandingSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    (folder / "one.csv").write_text("id,name\n100,a\n")
    os.utime(folder, ns=(now, now))
    assert paths(large) == ["one.csv"]
    (folder / "two.csv").write_text("id,name\n101,a\n")
    os.utime(folder, ns=(now, now))  # as where the clock of the file system has not moved on
    monkeypatch.setattr(folder_watch, "SETTLED_NS", 0)
    assert paths(large) == ["one.csv", "two.csv"]


def test_an_empty_file_is_found_once_it_is_written(large: LandingSource, folder: Path) -> None:
    (folder / "later.csv").touch()
    assert paths(large) == []
    settle(folder)
    paths(large)
    (folder / "later.csv").write_text("id,name\n100,a\n")
    assert paths(large) == ["later.csv"]


def test_a_file_that_goes_and_comes_again_before_it_is_taken_is_found(
    large: LandingSource, folder: Path, tmp_path: Path
) -> None:
    (folder / "new.csv").write_text("id,name\n100,a\n")
    assert paths(large) == ["new.csv"]
    (folder / "new.csv").rename(tmp_path / "new.csv")
    assert paths(large) == []
    (tmp_path / "new.csv").rename(folder / "new.csv")
    settle(folder, 30)
    assert paths(large) == ["new.csv"]


def test_folders_that_come_and_go_are_followed(large: LandingSource, folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "a.csv").write_text("id,name\n100,a\n")
    assert paths(large) == ["inner/a.csv"]
    (folder / "inner" / "b.csv").write_text("id,name\n101,a\n")
    assert paths(large) == ["inner/a.csv", "inner/b.csv"]
    (folder / "inner" / "a.csv").unlink()
    (folder / "inner" / "b.csv").unlink()
    (folder / "inner").rmdir()
    assert paths(large) == []


def test_what_another_process_takes_is_pending_no_more(
    large: LandingSource, lake: Session, folder: Path
) -> None:
    (folder / "new.csv").write_text("id,name\n100,a\n")
    assert paths(large) == ["new.csv"]
    with Hummock.open(lake.store.url) as other_store:
        assert LandingSource(other_store, "orders", folder).poll().files == 1
    lake.store.refresh()
    assert paths(large) == []


def test_a_process_that_begins_compares_all_records_at_once(
    large: LandingSource, lake: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "new.csv").write_text("id,name\n100,a\n")
    with Hummock.open(lake.store.url) as other_store:
        counted = Counted(monkeypatch)
        assert paths(LandingSource(other_store, "orders", folder)) == ["new.csv"]
        assert counted.seen == (1, 61, 61)
        assert FILES in other_store.version.tables
