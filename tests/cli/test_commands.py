"""The console script as a user runs it: status codes, sentences instead of stack traces, and nothing loaded without need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.cli.commands import app, main
from engine.hummock import Commit, Hummock, Put
from engine.meta.catalog.stored_catalog import encode_entries
from engine.meta.status.check_results import CheckResult, ViewCheckResults, record_check_results
from engine.session import Session
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.checks import Check
from tests.long_rest import mark_rest_long

HEAVY = ("pyspark", "boto3", "dagster", "grpc", "engine.session")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with one table of two rows, in a project folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("TIDELINE_STORE", (tmp_path / "store").as_uri())
    url = (tmp_path / "store").as_uri()
    with Session(url, "spark://127.0.0.1:1") as session:
        session.sql("CREATE TABLE bar (name STRING PRIMARY KEY, cents BIGINT)")
        session.write("bar", pa.table({"name": ["north", "south"], "cents": [670, 440]}))
    return url


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def _process(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "engine.cli", *arguments]
    return subprocess.run(
        command,
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_status_of_a_store_in_order(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("status") == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["bar", "table", "current"]


def test_status_as_json_holds_the_epoch_as_a_number(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("status", "--json") == 0
    (output,) = json.loads(capsys.readouterr().out)
    with Hummock.open(store) as opened:
        assert output["epoch"] == opened.version.epoch


@pytest.mark.parametrize(
    "arguments",
    mark_rest_long(
        [
            ["status"],
            ["sql", "SELECT * FROM bar"],
            ["gc", "--dry-run"],
            ["status", "--waits"],
            ["backfill"],
            ["explain", "flush"],
            ["sql", "SELECT 1"],
        ],
        keep=3,
    ),
    ids=" ".join,
)
def test_what_the_store_answers_loads_neither_spark_nor_dagster_nor_a_cloud(
    store: str, arguments: list[str]
) -> None:
    program = f"""
import sys
from engine.cli.commands import main
try:
    main({arguments!r})
except SystemExit as ended:
    assert not ended.code, ended.code
print("loaded", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "loaded []"


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["sql", "SELECT 1"],
        ["pause", "v"],
        ["compact"],
        ["metrics"],
        ["gc"],
        ["explain", "flush"],
    ],
    ids=" ".join,
)
def test_a_store_that_is_not_there_is_told_and_not_made(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = (tmp_path / "nowhere").as_uri()
    assert _run(*arguments, "--store", url) == 1
    assert capsys.readouterr().err.startswith(f"error: there is no store at {url}: `tideline init` makes one")
    assert not (tmp_path / "nowhere").exists()


def test_init_makes_a_store_that_other_commands_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.delenv("TIDELINE_STORE", raising=False)
    assert _run("init") == 0
    assert _run("status") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the store is empty"
    assert (tmp_path / ".tideline").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sql", "SELEC 1"], "line 1, column 1"),
        (["sql", "SELECT * FROM bra"], "bra"),
        (["sql", "SELECT 1", "--dialect", "oracle"], 'dialect "oracle" is unknown'),
        (["pause", "nothing"], "nothing"),
        (["pause", "bar"], "SHOW MATERIALIZED VIEWS"),
        (["wait", "bar"], "bar is a table"),
        (["materialize", "bar"], "bar is no materialized view"),
        (["compact", "nothing"], "nothing"),
        (["partitions", "bar"], "bar"),
        (["explain", "flush", "bra"], "there is no table or view bra"),
        (["status", "--store", "ftp://x"], "is no address of a store"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message_and_status_1(
    store: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and "Traceback" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--what"],
        ["nothing"],
        ["throttle", "v", "x"],
        ["status", "--format", "xml"],
        ["metrics", "--port", "99999"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_status_2(arguments: list[str]) -> None:
    assert _run(*arguments) == 2


def test_every_verb_says_what_it_does_and_what_its_options_are(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = [
        command.name or (command.callback.__name__ if command.callback else "")
        for command in app.registered_commands
    ]
    assert len(verbs) >= 12
    for verb in verbs:
        assert _run(verb, "--help") == 0
        output = capsys.readouterr().out
        assert f"Usage: tideline {verb}" in output
        # a project's store is told by its settings, and a report needs none
        assert ("--store" in output) == (verb not in ("up", "plan", "replay"))


@pytest.mark.long
def test_statements_come_by_a_pipe_over_several_lines(store: str) -> None:
    done = _process(
        "sql",
        "--format",
        "csv",
        stdin="SELECT name,\n  cents\nFROM bar WHERE name = 'north';\nSELECT 1 AS one",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '"name","cents"\n"north",670\n"one"\n1\n'


@pytest.mark.long
def test_the_first_error_of_a_pipe_ends_it(store: str) -> None:
    done = _process("sql", stdin="SELECT 1;\nSELECT * FROM bra;\nSELECT 2;")
    assert done.returncode == 1
    assert done.stdout.split() == ["1", "─", "1"] and "^" in done.stderr


def test_without_java_one_sentence_says_so(store: str, tmp_path: Path) -> None:
    done = _process("sql", "SELECT count(*) + 1 FROM bar", PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "error: Spark needs Java 17 or newer and there is none on the PATH"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_spark_that_is_gone_is_told_at_once(store: str, tmp_path: Path) -> None:
    state = tmp_path / ".tideline"
    state.mkdir()
    (state / "spark.json").write_text(
        '{"process": 999999999, "port": 1, "token": "t", "session": "s", "store": ""}'
    )
    (state / "spark.json").chmod(0o600)
    done = _process("sql", "SELECT count(*) + 1 FROM bar", PATH=str(tmp_path), JAVA_HOME="")
    assert "is gone: `make up` starts another one; starting a Spark here" in done.stderr


@pytest.mark.long
def test_a_large_table_is_compacted_by_tasks_of_the_spark_that_is_named(
    spark: SparkSession, store: str, monkeypatch: pytest.MonkeyPatch, merged_by_tasks: list[str]
) -> None:
    monkeypatch.setenv("TIDELINE_COMPACTION_TASKS_MB", "0")
    monkeypatch.setattr("engine.hummock.compaction.merging.TARGET_ROWS", 1)
    monkeypatch.setattr("engine.runtime.compaction_tasks.LEAST_ON_A_MACHINE", 2)
    for options, by_tasks in (([], False), (["--spark", "local[2]"], True)):
        with Hummock.open(store) as opened:
            names = [f"{number} {options}" for number in range(9)]
            opened.ingest_batch({"bar": [Put(pa.table({"name": names, "cents": range(9)}))]})
        assert _run("compact", "bar", *options) == 0
        assert merged_by_tasks == (["bar"] if by_tasks else [])


def test_compaction_and_collection_say_what_they_did_in_a_sentence(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Hummock.open(store) as opened:
        opened.ingest_batch({"bar": [Put(pa.table({"name": ["west"], "cents": [1]}))]})
    assert _run("compact", "bar") == 0
    assert re.match(r"bar: 2 files of .* became 1 file of .* in ", capsys.readouterr().out)
    assert _run("gc", "--dry-run") == 0
    assert "would be deleted" in capsys.readouterr().out


def test_checks_says_how_each_came_out(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Hummock.open(store) as opened:
        checks = (
            Check("low", "rows", "cents < 500", "warn", "_check_1_v", "_count_1_v"),
            Check("new", "query", "x"),
        )
        view = Relation(
            name="v", kind="materialized view", columns=(RelationColumn("n", "int"),), checks=checks
        )
        found = ViewCheckResults(
            {"low": CheckResult(False, "warn", 2, ("name = 'north'",))}, opened.refresh().epoch
        )
        notes = encode_entries({"v": view}, {}) | record_check_results(opened.version, "v", found)
        opened.commit(Commit(catalog=notes))
    assert _run("checks") == 0
    shown = capsys.readouterr().out
    assert "2 rows, such as name = 'north'" in shown and "not asked yet" in shown
    assert _run("checks", "--json") == 0
    low, new = json.loads(capsys.readouterr().out)
    assert (low["view"], low["check"], low["outcome"], low["rows"], low["stopped"]) == (
        "v",
        "low",
        "failed",
        2,
        True,
    )
    assert low["epoch"] > 0 and new["outcome"] == "not asked yet" and new["epoch"] is None
