"""`tideline branch`: created, listed, worked on by one variable, dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine


def test_a_branch_is_created_listed_worked_on_and_dropped(
    store: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{store}/branch/try/{3:020d}"
    assert command_line("branch", "list") == "no branches\n"
    made = command_line("branch", "create", "try")
    assert made == f"branch try: {place}; TIDELINE_BRANCH=try works on it\n"
    assert "branch try exists already" in command_line("branch", "create", "try", status=1)
    (listed,) = json.loads(command_line("branch", "list", "--format", "json"))
    assert (listed["name"], listed["manifest"], listed["address"]) == ("try", 3, place)
    with monkeypatch.context() as patch:
        patch.setenv("TIDELINE_BRANCH", "try")
        assert "manifest" in command_line("inspect", "version")
        inner = command_line("branch", "create", "inner")
        assert (
            inner == f"branch inner: {place}/branch/inner/{1:020d}; TIDELINE_BRANCH=try/inner works on it\n"
        )
        patch.setenv("TIDELINE_BRANCH", "try/inner")
        assert command_line("branch", "list") == "no branches\n"
        assert f"store {place}/branch/inner" in command_line("init")
    assert "branches of its own, inner: drop them first" in command_line("branch", "drop", "try", status=1)
    command_line("branch", "drop", "inner", "--store", f"{store}/branch/try")
    dropped = command_line("branch", "drop", "try")
    assert dropped == "branch try is dropped: 0 files were deleted, the store keeps none for it any more\n"
    assert "no branch try; there is none" in command_line("branch", "drop", "try", status=1)


@pytest.mark.parametrize(
    ("branch", "said"),
    [
        ("nope", "no branch nope; there is none: `tideline branch create nope` makes it"),
        ("a b", '"a b" in "a b" is no name'),
    ],
)
def test_a_branch_that_is_not_there_is_told(
    store: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, branch: str, said: str
) -> None:
    monkeypatch.setenv("TIDELINE_BRANCH", branch)
    assert said in command_line("status", status=1)
    assert said in command_line("init", status=1)


def test_no_store_is_made_where_a_branch_was_meant(
    tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_STORE", (tmp_path / "store").as_uri())
    monkeypatch.setenv("TIDELINE_BRANCH", "try")
    assert "there is no store at" in command_line("init", status=1)
    assert "there is no store at" in command_line("status", status=1)
    assert not (tmp_path / "store").exists()


def test_a_store_whose_own_address_ends_as_that_of_a_branch_is_not_taken_for_it(
    tmp_path: Path, store: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "branch").mkdir()
    (tmp_path / "store").rename(tmp_path / "branch" / "try")
    moved = (tmp_path / "branch" / "try").as_uri()
    monkeypatch.setenv("TIDELINE_STORE", moved)
    assert "try" in command_line("branch", "create", "try")
    monkeypatch.setenv("TIDELINE_BRANCH", "try")
    for command in (["status"], ["init"], ["sql", "DROP TABLE t"]):
        assert "is a store of its own, and not branch try of one" in command_line(*command, status=1)
    assert command_line("branch", "list", "--store", f"{moved}/branch/try") == "no branches\n"
