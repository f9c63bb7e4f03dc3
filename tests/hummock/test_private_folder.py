"""Decoded rows are nobody else's: their folder is private, and one that somebody else could have filled is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import EnvironmentNotReady
from engine.hummock import Hummock, Put
from engine.hummock.private_folder import make_private
from engine.hummock.sorted_files.arrow_cache import SWEPT
from tests.hummock.conftest import SCHEMA, content, rows


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_user_can_read_decoded_rows(no_umask: None, open_store: Callable, tmp_path: Path) -> None:
    store: Hummock = open_store()
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": [Put(rows({1: "secret"}))]})
    store.close()
    assert content(store) == {1: "secret"}
    found = list((tmp_path / "cache").rglob("*"))
    assert [mode(path) for path in found if path.is_dir()] == [0o700]
    assert {mode(path) for path in found if path.is_file()} == {0o600}
    assert [path.suffix for path in found if path.is_file() and path.name != SWEPT] == [".arrow"]


def test_a_folder_that_others_could_look_into_is_closed(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir(mode=0o755)
    assert make_private(tmp_path / "c")
    assert mode(tmp_path / "c") == 0o700


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "base"
    base.mkdir()
    folder = base / "c"
    folder.mkdir()
    os.chown(folder, 12345, 12345) if os.getuid() == 0 else monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(EnvironmentNotReady, match="TIDELINE_CACHE_DIR"):
        make_private(folder)


def test_a_folder_below_one_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    os.chown(base, 12345, 12345) if os.getuid() == 0 else monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(EnvironmentNotReady, match="another user"):
        make_private(base / "c")


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "c").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentNotReady, match="is a link"):
        make_private(tmp_path / "c")


def test_a_folder_that_others_can_rename_is_refused_unless_theirs_is_sticky(tmp_path: Path) -> None:
    base = tmp_path / "open"
    base.mkdir()
    base.chmod(0o777)
    with pytest.raises(EnvironmentNotReady, match="written by other users"):
        make_private(base / "c")
    base.chmod(0o1777)
    assert make_private(base / "c")


def test_without_a_folder_the_store_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "file" / "c")
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": [Put(rows({1: "a"}))]})
    assert content(store) == {1: "a"}


def test_the_usual_folder_is_each_users_own_so_it_is_not_sent_to_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_CACHE_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    url = (tmp_path / "s").as_uri()
    assert Hummock.open(url).options["cache_dir"] is None
    assert Hummock.open(url, cache_dir=tmp_path / "c").options["cache_dir"] == str(tmp_path / "c")
