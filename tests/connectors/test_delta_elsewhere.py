"""A Delta table in a folder that Spark's executors do not see is told before anything is made, and never half written or lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.steps import HistoryGone
from engine.connectors.source_trial import try_source
from engine.connectors.sources import poll_all
from engine.errors import SourceError, SqlError
from engine.runtime.spark.session import EngineSpark
from engine.session import Session
from tests.connectors.bad_settings import Bad, check_refused
from tests.connectors.delta_tables import DeltaTable, follow, poll
from tests.long_rest import mark_rest_long
from tests.runtime.spark.elsewhere import apart_from_here, on_another_disk

UNSEEN, NOW = "does not see", "a folder that all machines have at the same path"
STATEMENTS = [
    "CREATE TABLE x (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'lake')",
    "CREATE SOURCE x (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'lake')",
    "CREATE SINK x FROM t WITH (connector = 'delta', path = 'out')",
    "CREATE SINK x AS SELECT id, v FROM t WITH (connector = 'delta', path = 'out')",
    "CREATE MATERIALIZED VIEW x WITH (connector = 'delta', path = 'out') AS SELECT id FROM t",
    "ALTER MATERIALIZED VIEW w SET (connector = 'delta', path = 'out')",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A project's home with a Delta table."""
    made = tmp_path / "home"
    made.mkdir()
    DeltaTable(spark, made / "lake").make().insert("VALUES (1, 'a')")
    monkeypatch.setenv("TIDELINE_HOME", str(made))
    return made


@pytest.mark.parametrize("text", mark_rest_long(STATEMENTS, keep=2))
def test_a_statement_whose_folder_executors_do_not_see_is_refused(
    session: Session, home: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("CREATE MATERIALIZED VIEW w AS SELECT id, v FROM t")
    on_another_disk(monkeypatch)
    if "AS SELECT id, v FROM t WITH" in text:  # whose view is made first, and goes again
        with pytest.raises(SqlError, match=UNSEEN):
            session.sql(text)
        assert set(session.catalog.relations) == {"t", "w"} and not (home / "out").exists()
    else:
        check_refused(session, home, Bad(text, "path", UNSEEN, NOW))


@pytest.mark.parametrize("text", mark_rest_long(STATEMENTS, keep=2))
def test_a_statement_whose_folder_executors_see_is_run(
    session: Session, home: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    session.sql("CREATE MATERIALIZED VIEW w AS SELECT id, v FROM t")
    apart_from_here(monkeypatch)
    session.sql(text)
    session.sinks.wait(60)
    if "out" in text:
        assert (home / "out" / "_delta_log").is_dir()
    assert not list(home.rglob(".tideline-probe*"))


def test_a_master_of_this_process_is_known_without_starting_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(EngineSpark, "open", lambda _: pytest.fail("Spark was started"))
    with Session((tmp_path / "store").as_uri(), "local[1]") as session:
        session.sql(STATEMENTS[0])


def test_the_trial_of_a_source_tells_what_executors_do_not_see(
    session: Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql(STATEMENTS[0])
    on_another_disk(monkeypatch)
    connect, read = try_source(session.store, session.catalog.get("x"), lambda: session.computing)
    assert connect.works and not read.works and UNSEEN in read.words and NOW in read.words


@pytest.mark.long
def test_files_that_executors_do_not_find_are_not_taken_for_a_history_that_is_gone(
    session: Session, spark: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = DeltaTable(spark, home / "lake")
    follow(session, there, "PRIMARY KEY (id)")
    poll(session)
    there.insert("VALUES (2, 'b')")
    newest = max(there.path.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    with pytest.raises(HistoryGone):
        poll(session)
    on_another_disk(monkeypatch)
    with pytest.raises(SourceError, match=UNSEEN) as error:
        poll(session)
    assert "RESYNC" not in str(error.value)
    (report,) = poll_all(session.catalog, session.store, None, lambda: session.computing)
    assert report.error is not None and UNSEEN in report.error


@pytest.mark.long
def test_a_sink_writes_nothing_where_executors_do_not_see_its_folder(
    session: Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    session.sql(STATEMENTS[2], build=False)
    on_another_disk(monkeypatch)
    (report,) = session.flush(sink_seconds=60).sinks
    assert report.error is not None and UNSEEN in report.error and NOW in report.error
    assert not list((home / "out").iterdir())
    monkeypatch.undo()
    (report,) = session.flush(sink_seconds=60).sinks
    assert (report.error, report.lag_rows) == (None, 0)
