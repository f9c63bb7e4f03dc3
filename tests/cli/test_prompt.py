"""The prompt: when a statement ends, its backslash commands, what it completes, and that errors do not end it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from engine.cli.completion import NameCompleter
from engine.cli.printing import Format
from engine.cli.prompt import Shell, is_complete, prepare_history_file, run_prompt
from engine.cli.statements import StatementRunner
from engine.runtime.spark.session import EngineSpark
from engine.session import Session


@pytest.fixture
def statements(tmp_path: Path) -> Iterator[StatementRunner]:
    """Statements over a store with one table."""
    url = (tmp_path / "store").as_uri()
    with Session(url, "spark://127.0.0.1:1") as session:
        session.sql("CREATE TABLE bar (name STRING PRIMARY KEY, cents BIGINT)")
        session.write("bar", pa.table({"name": ["north", "south"], "cents": [670, 440]}))
    with StatementRunner(url, "spark://127.0.0.1:1", "spark", lambda text: None) as made:
        yield made


def _talk(statements: StatementRunner, *typed: str | type[BaseException]) -> None:
    """Let the prompt read what is typed, an exception being a key, then Ctrl-D."""
    said = iter([*typed, EOFError])

    def read() -> str:
        text = next(said)
        if isinstance(text, str):
            return text
        raise text

    run_prompt(Shell(statements, Format.table, page=False), read)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT ';' -- ;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1;\nSELECT 2", False),
        ("\\d bar", True),
        ("", True),
    ],
)
def test_a_statement_ends_at_a_semicolon_outside_of_quotes_and_comments(text: str, complete: bool) -> None:
    assert is_complete(text, "spark") is complete


def test_d_lists_what_there_is(statements: StatementRunner, capsys: pytest.CaptureFixture[str]) -> None:
    _talk(statements, "\\d")
    assert capsys.readouterr().out.splitlines()[2:] == ["bar   table"]


def test_d_of_a_name_shows_its_columns_and_the_statement_that_made_it(
    statements: StatementRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    _talk(statements, "\\d bar")
    output = capsys.readouterr().out
    assert "cents   bigint" in output and "CREATE TABLE bar" in output


def test_an_error_is_told_with_its_place_and_the_prompt_goes_on(
    statements: StatementRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    _talk(statements, "SELECT * FROM bra;", "SELECT 1 AS one;")
    output = capsys.readouterr()
    assert "line 1, column 15" in output.err and "              ^" in output.err
    assert output.out.split() == ["one", "───", "1"]


def test_ctrl_c_drops_what_is_typed_and_the_prompt_goes_on(
    statements: StatementRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    _talk(statements, KeyboardInterrupt, "SELECT 1 AS one;")
    output = capsys.readouterr()
    assert "cancelled" in output.err and "one" in output.out


def test_ctrl_c_of_a_statement_leaves_a_session_that_works_with_its_settings(
    statements: StatementRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statements.run("SET dialect = postgres")
    left = statements._session
    assert left is not None

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(left, "sql", interrupted)
    _talk(statements, "SHOW TABLES;")
    assert statements._session is not left and statements.dialect == "postgres"
    _talk(statements, "SHOW TABLES;")
    assert "bar" in capsys.readouterr().out


def test_q_leaves(statements: StatementRunner, capsys: pytest.CaptureFixture[str]) -> None:
    _talk(statements, "\\q", "SELECT 1;")
    assert capsys.readouterr().out == ""


def test_timing_is_switched(statements: StatementRunner, capsys: pytest.CaptureFixture[str]) -> None:
    _talk(statements, "\\timing", "SELECT 1;", "\\timing", "SELECT 2;")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "timing is on" and lines[4].endswith(" s") and lines[-1] == "2"


def test_an_unknown_command_is_told(statements: StatementRunner, capsys: pytest.CaptureFixture[str]) -> None:
    _talk(statements, "\\copy bar")
    assert "there is no command \\copy bar" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("SELECT * FROM b", {"bar"}),
        ("SEL", {"SELECT"}),
        ("sel", {"select"}),
        ("SELECT c FROM bar WHERE ce", {"cents"}),
        ("SELECT bar.na", {"name"}),
        ("\\d ", {"bar"}),
        ("\\t", {"\\timing"}),
    ],
)
def test_names_and_keywords_are_completed(statements: StatementRunner, typed: str, offered: set[str]) -> None:
    completer = NameCompleter(lambda: statements.stored.catalog)
    found = completer.get_completions(Document(typed), CompleteEvent())
    assert {completion.text for completion in found} == offered


def test_what_was_typed_is_kept_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert stat.S_IMODE(prepare_history_file().stat().st_mode) == 0o600


def test_a_prompts_own_spark_session_is_interrupted_by_ctrl_c_and_ended_with_the_prompt(
    tmp_path: Path,
) -> None:
    calls = []

    class Spark:
        def interruptAll(self) -> None:
            calls.append("interrupted")

        def stop(self) -> None:
            calls.append("stopped")

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    url = (tmp_path / "store").as_uri()
    with Session(url, "spark://127.0.0.1:1") as session:
        session.sql("CREATE TABLE bar (name STRING PRIMARY KEY, cents BIGINT)")
    with StatementRunner(url, "spark://127.0.0.1:1", "spark", lambda text: None, alone=True) as statements:
        statements.run("SHOW TABLES")
        assert statements._session is not None
        statements._session.on_demand.started = EngineSpark(Spark(), "given")  # type: ignore[arg-type]
        statements._session.sql = interrupted  # type: ignore[method-assign, assignment]
        with pytest.raises(KeyboardInterrupt):
            statements.run("SELECT count(*) + 1 FROM bar")
        assert calls == ["interrupted"]
    assert calls == ["interrupted", "stopped"]
