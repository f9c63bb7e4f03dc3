"""Backups as a job: what it copies and keeps, what it refuses, and the schedule of a project that names a place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline.definitions import build_definitions
from dagster_tideline.naming import Naming
from dagster_tideline.settings import Settings
from dagster_tideline.upkeep.backups import BACKUP, build_backup_job
from engine.errors import EnvironmentNotReady
from engine.hummock import Hummock
from engine.hummock.backups.backup_place import open_place
from engine.hummock.backups.restore import open_target, restore_backup
from engine.session import Session
from tests.dagster.conftest import Project, failure

TOLD = "tideline_backup"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where the backups of the project go."""
    return (tmp_path / "backups").as_uri()


def test_backups_are_made_and_all_but_the_newest_dropped(
    project: Project, place: str, tmp_path: Path
) -> None:
    session, job = project.session, build_backup_job(Naming(), place, keep=1)
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    for number in (1, 2):
        session.sql(f"INSERT INTO t VALUES ({number})")
        assert project.maintain(BACKUP, of=job).success
    told = project.read_metadata(TOLD)
    assert (told["backup"], told["files"], told["files_copied"], told["backups_dropped"]) == (2, 2, 1, 1)
    assert [one.number for one in open_place(place, create=False).list_backups()] == [2]
    assert project.maintain(BACKUP, {"keep": 0, "verify": True}, job).success
    found = open_place(place, create=False)
    assert [one.number for one in found.list_backups()] == [2, 3]
    restored = (tmp_path / "restored").as_uri()
    restore_backup(found, open_target(restored), 3, lambda version: {})
    with Session(restored) as session:
        assert session.sql("SELECT * FROM t ORDER BY id").to_pydict() == {"id": [1, 2]}


def test_a_backup_needs_a_place_that_is_not_in_the_store(project: Project, place: str) -> None:
    job = build_backup_job(Naming(), "", keep=1)
    assert "set TIDELINE_BACKUP_TO" in failure(project.maintain(BACKUP, of=job))
    inside = f"{project.session.url}/backups"
    result = project.maintain(BACKUP, {"to": inside}, job)
    assert not result.success and "is inside of the store" in failure(result)
    assert project.maintain(BACKUP, {"to": place}, job).success


def test_rows_that_are_not_those_of_their_fingerprint_fail_the_run(
    project: Project, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    project.session.sql("INSERT INTO t VALUES (1)")
    store = project.session.store
    check = store.verify_fingerprint("t")
    assert store.refresh().tables["t"].fingerprint is not None
    project.session.sql("INSERT INTO t VALUES (2)")
    other = replace(check, expected=check.found + 1)
    monkeypatch.setattr(Hummock, "verify_fingerprint", lambda store, name: other)
    result = project.maintain(BACKUP, {"verify": True}, build_backup_job(Naming(), place, keep=1))
    assert not result.success and "t" in failure(result)
    assert project.read_metadata(TOLD)["backup"] == 1


@pytest.mark.parametrize(
    ("to", "status"), [("", None), ("s3://bucket/shop", dg.DefaultScheduleStatus.RUNNING)]
)
def test_a_project_that_names_a_place_is_backed_up_each_night(
    project: Project, monkeypatch: pytest.MonkeyPatch, to: str, status: dg.DefaultScheduleStatus | None
) -> None:
    monkeypatch.setenv("TIDELINE_BACKUP_TO", to)
    monkeypatch.setenv("TIDELINE_BACKUP_KEEP", "7")
    settings = Settings.of_environment(project.home)
    assert (settings.backup_to, settings.backup_keep) == (to, 7)
    found = build_definitions(settings)
    repository = found.get_repository_def()
    schedules = {one.name: one for one in repository.schedule_defs if one.job_name == BACKUP}
    assert [one.default_status for one in schedules.values()] == ([] if status is None else [status])
    assert (dg.AssetKey(TOLD) in found.resolve_asset_graph().get_all_asset_keys()) is bool(to)
    assert BACKUP in {job.name for job in repository.get_all_jobs()}


def test_a_place_that_is_no_address_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_BACKUP_TO", "/mnt/nas")
    with pytest.raises(EnvironmentNotReady, match="TIDELINE_BACKUP_TO"):
        Settings.of_environment(project.home)
