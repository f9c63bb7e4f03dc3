"""Secrets by name: where they are found, what is said if they are not, and that none is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.connectors.named_secrets import MOST_BYTES, NamedSecret
from engine.errors import SourceError
from engine.sql.dialect import Dialect
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import CreateTable

PASSWORD = NamedSecret("TIDELINE_TESTS_SHOP", "password_variable")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of secrets, in which there is none yet."""
    monkeypatch.delenv(PASSWORD.name, raising=False)
    monkeypatch.setenv("TIDELINE_SECRETS", str(tmp_path))
    return tmp_path


def test_the_environment_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / PASSWORD.name).write_text("of the file")
    assert PASSWORD.read() == "of the file"
    monkeypatch.setenv(PASSWORD.name, "of the variable")
    assert PASSWORD.read() == "of the variable"
    monkeypatch.setenv(PASSWORD.name, "")
    assert PASSWORD.read() == "of the file"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_end_of_a_files_line_is_no_part_of_the_secret(folder: Path, end: str) -> None:
    (folder / PASSWORD.name).write_bytes(f" ü s\npart{end}".encode())
    assert PASSWORD.read() == " ü s\npart"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        (b"", "the file is empty"),
        (b"\n", "the file is empty"),
        (b"hunter2\xff", "it is no UTF-8"),
        (b"hunter2" * MOST_BYTES, "the file has more than 65,536 bytes"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named_and_not_shown(
    folder: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (folder / PASSWORD.name).write_bytes(content)
    with pytest.raises(SourceError, match=words) as refused:
        PASSWORD.read()
    said = str(refused.value)
    assert "TIDELINE_TESTS_SHOP, which password_variable names" in said and "hunter2" not in said


def test_a_folder_in_the_place_of_a_secret_is_told(folder: Path) -> None:
    (folder / PASSWORD.name).mkdir()
    with pytest.raises(SourceError, match=r"can't be read from .*: Is a directory"):
        PASSWORD.read()


def test_without_variable_and_folder_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD.name, raising=False)
    monkeypatch.delenv("TIDELINE_SECRETS", raising=False)
    with pytest.raises(SourceError, match=r"TIDELINE_TESTS_SHOP, which .* is not set.*TIDELINE_SECRETS"):
        PASSWORD.read()


@pytest.mark.parametrize("value", ["secret 'SHOP'", "SECRET SHOP", "Secret 'SHOP'"])
@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_secret_with_a_name_is_the_option_that_names_it(value: str, dialect: Dialect) -> None:
    options = f"WITH (connector = 'kafka', password = {value}, topic = 'secret', ssl_key_password = {value})"
    expected = {
        "connector": "kafka",
        "password_variable": "SHOP",
        "topic": "secret",
        "ssl_key_password_variable": "SHOP",
    }
    table = parse_statement(f"CREATE TABLE t (id BIGINT PRIMARY KEY) {options}", dialect)
    assert isinstance(table, CreateTable) and table.options == expected
    sink = parse_statement(f"CREATE SINK s FROM v {options}", dialect)
    assert isinstance(sink, CreateSink) and sink.options == expected
