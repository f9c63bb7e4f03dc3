"""`tideline backup` and `tideline restore`: what they print and refuse, and a project that goes on from a backup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Hummock, Put
from engine.session import Session
from tests.cli.command_line import CommandLine
from tests.hummock.conftest import content, rows


def test_backups_are_made_listed_and_dropped_and_one_is_restored(
    store: str, tmp_path: Path, command_line: CommandLine
) -> None:
    to, restored = (tmp_path / "backups").as_uri(), (tmp_path / "restored").as_uri()
    made = command_line("backup", to)
    assert re.fullmatch(
        r"backup 1 at epoch [\d :.+-]+ UTC: 1 file copied \([\d.]+ K?i?B\), 0 were there \(0 B\), in [\d.]+ s\n",
        made,
    )
    with Hummock.open(store) as opened:
        opened.ingest_batch({"t": Put(rows({2: "b"}))})
    record = json.loads(command_line("backup", to, "--verify", "--json"))
    assert (record["backup"], record["files"], record["copied"], record["kept"], record["repaired"]) == (
        2,
        2,
        1,
        1,
        0,
    )
    listed = json.loads(command_line("backup", to, "--list", "--json"))
    assert [(one["backup"], one["files"], one["store"]) for one in listed] == [(1, 1, store), (2, 2, store)]
    said = command_line("restore", to, "--backup", "1", "--store", restored)
    assert said.startswith(f"store {restored}: 1 table of backup 1 at epoch ")
    with Hummock.open(restored, create=False) as opened:
        assert content(opened) == {1: "a"}
    assert "backups dropped: 1; 0 files that no backup needs deleted (0 B)" in command_line(
        "backup", to, "--keep", "2"
    )
    assert "no backup 1 at" in command_line(
        "restore", to, "--backup", "1", "--store", f"{restored}2", status=1
    )


def test_what_cannot_be_done_is_told(store: str, tmp_path: Path, command_line: CommandLine) -> None:
    to = (tmp_path / "backups").as_uri()
    assert f"there are no backups at {to}: correct the address" in command_line(
        "backup", to, "--list", status=1
    )
    assert "there are no backups at" in command_line("restore", to, status=1)
    command_line("backup", to)
    assert f"{store} is not empty" in command_line("restore", to, status=1)
    assert "csv is for --list" in command_line("backup", to, "--format", "csv", status=2)
    assert "No such option: --table" in command_line("backup", to, "--table", "t", status=2)
    assert "there is no table or view t" in command_line("restore", to, "--table", "t", status=1)
    assert '"nowhere" is no address of a store' in command_line("backup", "nowhere", status=1)
    command_line("branch", "create", "try")
    assert "is the address of a branch" in command_line(
        "restore", to, "--store", f"{store}/branch/try", status=1
    )


def test_the_branch_that_the_environment_names_is_backed_up(
    store: str, tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, restored = (tmp_path / "backups").as_uri(), (tmp_path / "restored").as_uri()
    command_line("branch", "create", "try")
    with Hummock.open(f"{store}/branch/try") as branch:
        branch.ingest_batch({"t": Put(rows({1: "branch"}))})
    with monkeypatch.context() as patch:
        patch.setenv("TIDELINE_BRANCH", "try")
        command_line("backup", to)
    command_line("restore", to, "--store", restored)
    with Hummock.open(restored, create=False) as opened:
        assert content(opened) == {1: "branch"}


def test_the_default_store_is_restored_into_a_folder_of_its_user(
    store: str, tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = (tmp_path / "backups").as_uri()
    command_line("backup", to)
    monkeypatch.delenv("TIDELINE_STORE")
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    command_line("restore", to)
    assert (tmp_path / "home" / ".tideline").stat().st_mode & 0o777 == 0o700
    assert "t" in command_line("inspect", "version")


STATEMENTS = """
CREATE TABLE sales (id INT PRIMARY KEY, bar STRING, cents INT) WITH (connector = 'landing', path = 'landing/sales');
CREATE TABLE bars (bar STRING PRIMARY KEY, city STRING);
CREATE MATERIALIZED VIEW takings AS
  SELECT city, count(*) AS n, sum(cents) AS cents FROM sales JOIN bars ON sales.bar = bars.bar GROUP BY city;
CREATE MATERIALIZED VIEW best AS SELECT max(cents) AS cents FROM takings;
CREATE TABLE copied (city STRING PRIMARY KEY, n BIGINT, cents BIGINT);
CREATE SINK files FROM takings WITH (connector = 'file', path = 'out/takings', format = 'jsonl');
CREATE SINK lake FROM takings WITH (connector = 'delta', path = 'lake/takings');
CREATE SINK copies INTO copied FROM takings;
INSERT INTO bars VALUES ('north', 'Oslo'), ('south', 'Rome')
"""
BATCH = "SELECT city, count(*) AS n, sum(cents) AS cents FROM sales JOIN bars ON sales.bar = bars.bar GROUP BY city"


def _land(home: Path, name: str, *lines: str) -> None:
    folder = home / "landing" / "sales"
    (folder / f".{name}").write_text("\n".join(["id,bar,cents", *lines]) + "\n")
    (folder / f".{name}").rename(folder / name)


def _flush(session: Session) -> None:
    session.poll()
    session.flush().raise_for_errors()


def _read(session: Session, text: str) -> list[tuple]:
    return sorted(tuple(row.values()) for row in session.sql(text).to_pylist())


@pytest.mark.long
def test_a_project_goes_on_from_a_backup(
    tmp_path: Path, spark: SparkSession, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    (tmp_path / "landing" / "sales").mkdir(parents=True)
    first, to, second = ((tmp_path / name).as_uri() for name in ("first", "backups", "second"))
    with Session(first, spark) as session:
        for statement in STATEMENTS.strip().split(";\n"):
            session.sql(statement)
        _land(tmp_path, "a.csv", "1,north,250", "2,south,420")
        _flush(session)
        expected = _read(session, "SELECT * FROM takings")
        command_line("backup", to, "--store", first)
        _land(tmp_path, "b.csv", "3,north,100", "1,south,50")
        _flush(session)
        ahead = _read(session, "SELECT * FROM takings")
    delivered = {path.name for path in (tmp_path / "out" / "takings").iterdir()}
    said = command_line("restore", to, "--store", second)
    assert "sinks that are paused: files, lake; what they have delivered" in said
    epoch = json.loads(command_line("backup", to, "--list", "--json"))[0]["epoch"]
    with Session(second, spark) as session:
        assert _read(session, "SELECT * FROM takings") == expected
        assert _read(session, f"SELECT * FROM takings FOR SYSTEM_TIME AS OF {epoch}") == expected
        assert _read(session, "SELECT * FROM copied") == expected
        _flush(session)  # takes the file that landed after the backup
        assert _read(session, "SELECT * FROM takings") == _read(session, BATCH) == ahead
        assert _read(session, "SELECT * FROM copied") == ahead
        session.sql("INSERT INTO bars VALUES ('west', 'Rome')")
        _land(tmp_path, "c.csv", "4,west,1000")
        _flush(session)
        assert _read(session, "SELECT * FROM takings") == _read(session, BATCH)
        assert _read(session, "SELECT * FROM best") == [(max(row[2] for row in _read(session, BATCH)),)]
        phases = {row["name"]: row["phase"] for row in session.sql("SHOW SINKS").to_pylist()}
        assert (phases["files"], phases["lake"], phases["copies"]) == ("paused", "paused", "log")
        assert {path.name for path in (tmp_path / "out" / "takings").iterdir()} == delivered
        for name in ("files", "lake"):
            session.sql(f"ALTER SINK {name} RESET")
            session.sql(f"ALTER SINK {name} RESUME")
        _flush(session)
        now = {path.name for path in (tmp_path / "out" / "takings").iterdir()} - delivered
        assert min(now) > max(delivered)  # a higher start: whoever reads the files drops what it had
        lines = [
            line for name in now for line in (tmp_path / "out" / "takings" / name).read_text().splitlines()
        ]
        found = [json.loads(line) for line in lines]
        assert sorted((row["city"], row["n"], row["cents"]) for row in found) == _read(session, BATCH)
    lake = spark.read.format("delta").load(str(tmp_path / "lake" / "takings")).collect()
    assert sorted((row["city"], row["n"], row["cents"]) for row in lake) == sorted(
        (row["city"], row["n"], row["cents"]) for row in found
    )


def test_one_table_is_put_back(tmp_path: Path, command_line: CommandLine) -> None:
    url, to = (tmp_path / "shop").as_uri(), (tmp_path / "shop_backups").as_uri()
    with Session(url) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        session.write("t", pa.table({"id": [1, 2]}))
        command_line("backup", to, "--store", url)
        session.write("t", pa.table({"id": [3]}))
    said = command_line("restore", to, "--table", "T", "--verify", "--store", url)
    assert re.match(
        r"table t is as in backup 1 at epoch [\d :.+-]+ UTC: 0 rows written, 1 row deleted; views", said
    )
    assert "u" in command_line("restore", to, "--table", "u", "--store", url, status=1)
