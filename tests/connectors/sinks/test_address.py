"""A sink of a project writes in the project's home, wherever links lead; without a home it writes where it is told."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.hummock.object_store import open_object_store
from engine.session import Session
from tests.connectors.sinks.conftest import put


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(made))
    return made


def sink(address: str) -> str:
    return f"CREATE SINK s FROM t WITH (connector = 'file', {address}, format = 'jsonl')"


def test_a_sink_that_leads_out_of_the_home_is_refused_with_its_place(
    db: Session, home: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (home / "link").symlink_to(tmp_path)
    addresses = [
        f"url = '{outside.as_uri()}'",
        f"url = '{home.as_uri()}/../outside'",
        f"url = '{home.as_uri()}/%2e%2e/outside'",
        f"url = '{home.as_uri()}/link/outside'",
        f"path = '{outside}'",
        "path = '../outside'",
        "path = 'link/outside'",
        "url = 'file:////etc/out'",
    ]
    for address in addresses:
        with pytest.raises(SqlError, match=r"may not write there.*TIDELINE_ALLOWED_PATHS") as caught:
            db.sql(sink(address))
        assert caught.value.line == 1 and "s" not in db.catalog.relations
    assert not outside.exists()


def test_a_sink_within_the_home_or_what_a_setting_adds_writes(
    db: Session, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(db, {1: "a"})
    db.sql(sink("path = 'out'"))
    assert len(list((home / "out").iterdir())) == 1
    db.sql("DROP SINK s")
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", str(tmp_path / "outside"))
    db.sql(sink(f"url = '{(tmp_path / 'outside').as_uri()}'"))
    assert len(list((tmp_path / "outside").iterdir())) == 1


def test_a_link_that_leads_out_after_the_sink_was_created_stops_it(
    db: Session, home: Path, tmp_path: Path
) -> None:
    put(db, {1: "a"})
    (tmp_path / "outside").mkdir()
    db.sql(sink("path = 'out/in'"), build=False)
    (home / "out").symlink_to(tmp_path / "outside")
    (report,) = db.flush().sinks
    assert "lies outside of" in (report.error or "") and not list((tmp_path / "outside").iterdir())
    (home / "out").unlink()
    (report,) = db.flush().sinks
    assert report.error is None and report.rows == 1


def test_without_a_home_a_sink_writes_where_it_is_told(
    db: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    put(db, {1: "a"})
    db.sql(sink(f"url = '{(tmp_path / 'anywhere').as_uri()}'"))
    assert len(list((tmp_path / "anywhere").iterdir())) == 1


@pytest.mark.parametrize("connector", ["file", "delta"])
def test_keys_in_an_address_are_refused(db: Session, connector: str) -> None:
    with pytest.raises(SqlError, match="keys have no place in an address"):
        db.sql(f"CREATE SINK s FROM t WITH (connector = '{connector}', url = 's3://AKIA:hidden@bucket/x')")


@pytest.mark.parametrize("number", ["0", "-1", "1e3", "²", "٣", ""])
def test_a_number_of_rows_is_written_in_digits(db: Session, tmp_path: Path, number: str) -> None:
    with pytest.raises(SqlError, match="rows_per_file is a number from 1 to"):
        db.sql(sink(f"path = '{tmp_path / 'out'}', rows_per_file = '{number}'"))


@pytest.mark.parametrize("connector", ["file", "delta"])
def test_a_sink_of_a_project_writes_into_buckets_that_the_setting_names(
    db: Session, home: Path, monkeypatch: pytest.MonkeyPatch, connector: str
) -> None:
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", "s3://mine/out")
    text = f"CREATE SINK s FROM t WITH (connector = '{connector}', url = 's3a://mine/outer')"
    with pytest.raises(SqlError, match=r"may not write there.*TIDELINE_ALLOWED_PATHS") as caught:
        db.sql(text)
    assert caught.value.column > 1


@pytest.mark.s3
def test_files_of_a_project_go_into_a_bucket_that_the_setting_names(
    db: Session, home: Path, monkeypatch: pytest.MonkeyPatch, s3_url: str
) -> None:
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", s3_url)
    open_object_store(s3_url)  # the bucket has to be there
    put(db, {1: "a"})
    db.sql(sink(f"url = '{s3_url}/out'"))
    assert [info.size > 0 for info in open_object_store(s3_url).list("out/s-")] == [True]
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", "")
    put(db, {2: "b"})
    with Session(db.url) as later:
        (report,) = later.sinks.run()
    assert "TIDELINE_ALLOWED_PATHS" in str(report.error)


NOBODY = 65534


@contextmanager
def without_rights() -> Iterator[None]:
    """Be somebody who has no rights beyond those that everybody has."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.mark.parametrize("connector", ["file", "delta"])
@pytest.mark.parametrize("place", ["closed", "closed/in/it"])
def test_a_folder_that_may_not_be_written_is_told_when_the_sink_is_created(
    connector: str, place: str
) -> None:
    with tempfile.TemporaryDirectory() as name:  # not below a folder that only its owner may enter
        top = Path(name)
        top.chmod(0o755)
        (top / "closed").mkdir(mode=0o555)
        with Session((top / "store").as_uri()) as session:
            session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
            before = session.store.refresh().number
            with without_rights(), pytest.raises(SqlError, match=r"closed can't be written by") as caught:
                session.sql(f"CREATE SINK s FROM t WITH (connector = '{connector}', path = '{top / place}')")
            assert caught.value.sql[caught.value.column - 1 :].startswith("path")
            assert session.store.refresh().number == before and not list((top / "closed").iterdir())
