"""`tideline sources test`: what feeds tables is tried in words, and nothing is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.cli import sources as command
from engine.cli.commands import main
from engine.errors import SourceError
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, follow, poll


@pytest.fixture
def project(session: Session, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a landing folder and a generator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDELINE_STORE", session.url)
    monkeypatch.setattr(command, "open_session", lambda store, *_: Session(session.url, spark))
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("id\n1\n")
    session.sql("CREATE TABLE files (id INT PRIMARY KEY) WITH (connector = 'landing', path = 'landing')")
    session.sql("CREATE SOURCE bid (auction BIGINT) WITH (connector = 'nexmark', max_events = '100')")
    return tmp_path


@pytest.fixture
def there(project: Path, session: Session, spark: SparkSession) -> DeltaTable:
    """A Delta table in the project, and a table that follows it."""
    made = DeltaTable(spark, project / "delta").make()
    made.insert("VALUES (1, 'a')")
    follow(session, made)
    return made


def tried(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[tuple[str, str], Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["sources", "test", *arguments, "--json"])
    assert isinstance(ended.value.code, int)
    found = json.loads(capsys.readouterr().out)
    return ended.value.code, {(one["source"], one["asked"]): one for one in found}


@pytest.mark.long
def test_each_source_is_tried_and_nothing_is_written(
    there: DeltaTable, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = session.store.refresh().number
    status, found = tried(capsys)
    assert status == 0 and len(found) == 9 and all(one["works"] for one in found.values())
    assert found["files", "read"]["words"] == "1 files in it can be opened"
    assert found["bid", "resume"]["words"] == "it goes on with event 0"
    assert found["t", "connect"]["words"].endswith("is at version 1")
    assert found["t", "resume"]["words"] == "it would begin with the snapshot at version 1"
    assert session.store.refresh().number == before
    poll(session)
    there.insert("VALUES (2, 'b')")
    status, found = tried(capsys, "t")
    assert (status, len(found)) == (0, 3)
    assert found["t", "resume"]["words"] == "it goes on after version 1, 1 are pending"
    shutil.rmtree(tmp_path / "landing")
    shutil.rmtree(there.path)
    there.make().insert("VALUES (5, 'c')")
    status, found = tried(capsys)
    assert status == 1
    assert "there is no folder" in found["files", "connect"]["words"]
    assert ("files", "read") not in found
    assert not found["t", "resume"]["works"] and "ALTER TABLE t RESYNC" in found["t", "resume"]["words"]


@pytest.mark.long
def test_statements_of_a_file_are_tried_before_they_are_run(
    there: DeltaTable, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.sql"
    file.write_text(
        "CREATE TABLE fresh (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'delta');"
        "CREATE TABLE other (id INT PRIMARY KEY) WITH (connector = 'landing', path = 'nowhere');"
        "CREATE TABLE plain (id INT PRIMARY KEY)"
    )
    status, found = tried(capsys, "--file", str(file))
    assert status == 1
    assert {name for name, _ in found} == {"fresh", "other"}
    assert all(found["fresh", asked]["works"] for asked in ("connect", "read", "resume"))
    assert "fresh" not in session.catalog.relations
    with pytest.raises(SystemExit):
        main(["sources", "test", "nothing"])
    assert "there is no source nothing in the store" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(SystemExit) as ended:
        main(["sources", "test", "--file", "s.sql"])
    assert ended.value.code == 1
    assert "s.sql is no text in UTF-8" in capsys.readouterr().err


@pytest.mark.long
def test_each_statement_of_a_file_that_is_refused_is_told_beside_the_others(
    there: DeltaTable, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.sql"
    file.write_text(
        """CREATE TABLE narrow (id INT PRIMARY KEY) WITH (connector = 'delta', path = 'delta');
        CREATE TABLE broken (id INT PRIMARY KEY WITH;
        CREATE TABLE odd (id INT PRIMARY KEY) WITH (connector = 'kinesis');
        CREATE TABLE absent (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'nowhere');
        CREATE TABLE keyless (id BIGINT) WITH (connector = 'delta', path = 'delta');
        SET nonsense = 1;
        CREATE VIEW v AS SELECT id FROM fresh;
        CREATE TABLE fresh (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'delta')"""
    )
    before = session.store.refresh().number
    status, found = tried(capsys, "--file", str(file))
    assert status == 1
    refused = {name: one["words"] for (name, asked), one in found.items() if asked == "declare"}
    assert "column id is int here and bigint in the Delta table" in refused["narrow"]
    assert "line 1" in refused["statement 2"]
    assert "there is no connector 'kinesis'" in refused["odd"]
    assert "there is no Delta table at nowhere" in refused["absent"]
    assert "needs a PRIMARY KEY" in refused["keyless"]
    assert "nonsense" in refused["statement 6"]
    assert len(refused) == 6 and not any(
        one["works"] for (_, asked), one in found.items() if asked == "declare"
    )
    assert found["narrow", "declare"]["connector"] == "delta"
    assert all(found["fresh", asked]["works"] for asked in ("connect", "read", "resume"))
    assert len(found) == 9
    assert session.store.refresh().number == before
    status, found = tried(capsys, "fresh", "--file", str(file))
    assert {name for name, _ in found} == {"fresh", "statement 2", "statement 6"}  # of which it may be one


def test_what_a_file_sets_holds_for_its_next_statements(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = "CREATE TABLE {} (id INT PRIMARY KEY) WITH (connector = 'landing', path = 'landing', retention_seconds = 60);"
    file = tmp_path / "new.sql"
    file.write_text(
        kept.format("early")
        + "SET unsafe_enable_storage_retention_for_non_append_only_tables = true;"
        + kept.format("late")
    )
    _, found = tried(capsys, "--file", str(file))
    assert "retention_seconds of a table that is not APPEND ONLY" in found["early", "declare"]["words"]
    assert found["late", "connect"]["works"]


def test_secrets_are_told_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.connectors.delta import connector

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "very secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    message = connector._describe_secrets()
    assert (
        "AWS_ACCESS_KEY_ID is set" in message
        and "AWS_SESSION_TOKEN is not set" in message
        and "very" not in message
    )


def spoiled(there: DeltaTable) -> None:
    """Change rows, and let VACUUM delete the files that tell it."""
    there.sql("UPDATE {} SET v = 'b'", "OPTIMIZE {}", "INSERT INTO {} VALUES (2, 'c')")
    there.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    there.sql("VACUUM {} RETAIN 0 HOURS")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["TABLE", "SOURCE"])
def test_a_feed_whose_files_are_gone_cannot_be_resumed(
    there: DeltaTable, session: Session, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    session.sql(f"CREATE {kind} fed (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'delta')")
    if kind == "SOURCE":
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, v FROM fed")
    poll(session, "fed")
    there.insert("VALUES (7, 'x')")
    assert tried(capsys, "fed")[1]["fed", "resume"]["works"]
    spoiled(there)
    report = tried(capsys, "fed")[1]["fed", "resume"]
    assert not report["works"] and "of version 2 of the Delta table at delta is gone" in report["words"]
    assert ("ALTER TABLE fed RESYNC" in report["words"]) == (kind == "TABLE")
    assert ("DROP SOURCE fed CASCADE" in report["words"]) == (kind == "SOURCE")
    with pytest.raises(SourceError, match="can't be read any more"):
        poll(session, "fed")


@pytest.mark.long
def test_a_source_without_a_feed_whose_old_version_is_gone_cannot_be_resumed(
    there: DeltaTable, session: Session, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = DeltaTable(spark, there.path.parent / "plain").make(properties="")
    plain.insert("VALUES (1, 'a')")
    session.sql("CREATE SOURCE s (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'plain')")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, v FROM s")
    poll(session, "s")
    plain.sql("UPDATE {} SET v = 'b'")
    assert tried(capsys, "s")[1]["s", "resume"]["works"]
    spoiled(plain)
    report = tried(capsys, "s")[1]["s", "resume"]
    assert not report["works"] and "of version 1 of the Delta table at plain is gone" in report["words"]
    assert "DROP SOURCE s CASCADE" in report["words"] and "RESYNC" not in report["words"]
    with pytest.raises(SourceError, match="can't be read any more"):
        poll(session, "s")


@pytest.mark.long
def test_a_table_that_is_not_there_yet_is_told_no_way_to_bring_it_on(
    there: DeltaTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in there.path.glob("*.parquet"):
        file.unlink()
    (tmp_path / "new.sql").write_text(
        "CREATE TABLE fresh (PRIMARY KEY (id)) WITH (connector = 'delta', path = 'delta')"
    )
    report = tried(capsys, "--file", str(tmp_path / "new.sql"))[1]["fresh", "read"]
    assert not report["works"] and report["words"].startswith("table fresh: earlier versions")
    assert "RESYNC" not in report["words"]


def discover(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sources", "discover", *arguments])
    assert ended.value.code == 0


def test_what_a_folder_holds_is_printed_as_statements_that_can_be_tried(
    project: Path, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    before = session.store.refresh().number
    (project / "lake" / "marked").mkdir(parents=True)
    (project / "lake" / "marked" / "a.csv").write_text("id,_op\n1,insert\n")
    (project / "lake" / "plain").mkdir()
    (project / "lake" / "plain" / "a.csv").write_text("id,name\n1,a\x1b[31m\n")
    discover("lake")
    said = capsys.readouterr()
    assert "2 found, of which 1 cannot be made yet" in said.err and "\x1b" not in said.out
    script = project / "sources.sql"
    script.write_text(said.out)
    status, found = tried(capsys, "--file", str(script))
    assert status == 0 and set(found) == {("plain", asked) for asked in ("connect", "read", "resume")}
    discover("lake", "--json", "--with", "null=NA", "--key", "marked=id")
    marked, plain = json.loads(capsys.readouterr().out)
    assert marked["key"] == ["id"] and not marked["needs"] and "PRIMARY KEY (id)" in marked["statement"]
    assert plain["options"] == {"connector": "landing", "path": "lake/plain", "null": "NA"}
    assert session.store.refresh().number == before


def test_options_of_a_place_have_a_value(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sources", "discover", "lake", "--with", "null"])
    assert "write --with name=value" in capsys.readouterr().err
