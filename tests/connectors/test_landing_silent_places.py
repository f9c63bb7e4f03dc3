"""A bucket that does not answer for a while: later rows of a key win all the same, and nothing is asked for file by file."""

from __future__ import annotations

import pytest

from engine.connectors.contract.connector import SourceReport, no_spark
from engine.connectors.landing import bucket, tasks
from engine.connectors.landing.source import LandingSource
from engine.errors import Unavailable
from engine.hummock.object_store import open_object_store
from engine.hummock.object_store.s3 import S3ObjectStore
from engine.session import Session

pytestmark = pytest.mark.s3


@pytest.fixture
def landed(session: Session, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A table over a place with three objects that have a key in common."""
    monkeypatch.setenv(tasks.SETTING, "0")
    monkeypatch.setattr(bucket, "PATIENCE_SECONDS", 0.0)
    objects = open_object_store(f"{s3_url}/in")
    for name in "abc":
        objects.put(f"{name}.csv", f"id,v\n1,{name}\n{ord(name)},x\n".encode())
    session.sql(
        f"CREATE TABLE one (id INT PRIMARY KEY, v STRING) WITH (connector = 'landing', path = '{s3_url}/in')"
    )
    return session


def poll(session: Session, *, tasks: bool) -> SourceReport:
    source = LandingSource.of_relation(session.store, session.catalog.get("one"))
    return source.poll((lambda: session.computing) if tasks else no_spark)


def held(session: Session) -> dict[object, object]:
    session.store.refresh()
    return {row["id"]: row["v"] for batch in session.store.iter("one") for row in batch.to_pylist()}


def silent_once(monkeypatch: pytest.MonkeyPatch, method: str, times: int) -> list[str]:
    """Let so many requests for b.csv find nobody, and note all requests."""
    asked, answer = list[str](), getattr(S3ObjectStore, method)

    def silent(store: S3ObjectStore, path: str, *more: int) -> object:
        asked.append(path)
        if asked.count("b.csv") <= times and path == "b.csv":
            raise Unavailable("nobody answers")
        return answer(store, path, *more)

    monkeypatch.setattr(S3ObjectStore, method, silent)
    return asked


def test_what_lies_behind_a_file_that_nobody_gives_waits_for_it(
    landed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = silent_once(monkeypatch, "get_range", 1)
    report = poll(landed, tasks=False)
    assert (report.files, len(report.warnings), "c.csv" in asked) == (1, 1, False)
    assert "nobody answers" in report.warnings[0]
    assert poll(landed, tasks=False).files == 2
    assert held(landed) == {1: "c", 97: "x", 98: "x", 99: "x"}


def test_where_tasks_get_no_answer_later_rows_win_all_the_same(
    landed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent_once(monkeypatch, "head", 1)  # when this process looks again
    assert poll(landed, tasks=True).files == 3
    assert held(landed) == {1: "c", 97: "x", 98: "x", 99: "x"}
