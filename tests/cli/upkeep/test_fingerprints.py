"""`tideline fingerprint`: what it prints, and how it ends where a table has other rows than were written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.hummock import Hummock, Put
from engine.hummock.upkeep import fingerprints
from tests.cli.command_line import CommandLine
from tests.hummock.conftest import SCHEMA, rows


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store with a table of one row and one whose rows expire, which commands work on by default."""
    url = (tmp_path / "store").as_uri()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_STORE", url)
    with Hummock.open(url) as opened:
        opened.create_table("t", SCHEMA, ["id"])
        opened.create_table("expiring", SCHEMA, ["id"], ttl_seconds=60.0)
        opened.ingest_batch({"t": Put(rows({1: "a"}))})
    return url


def test_fingerprints_are_shown_and_why_there_are_none(store: str, command_line: CommandLine) -> None:
    shown = command_line("fingerprint")
    assert re.search(r"t +[0-9a-f]{32} ", shown)
    assert "its rows expire" in shown
    records = json.loads(command_line("fingerprint", "t", "--json"))
    with Hummock.open(store) as opened:
        assert records[0]["fingerprint"] == f"{opened.fingerprint('t').value:032x}"
    assert records[0]["epoch"] == records[0]["committed_epoch"]
    assert "no table u" in command_line("fingerprint", "u", status=1)


def test_rows_are_verified_and_other_ones_end_with_1(
    store: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(command_line("fingerprint", "--verify", "--json"))[0]["outcome"] == "right"
    assert "has no fingerprint: its rows expire" in command_line(
        "fingerprint", "expiring", "--verify", status=1
    )
    monkeypatch.setattr("engine.hummock.store.scan_table", lambda *_: (5, 1))
    shown = command_line("fingerprint", "t", "--verify", status=1)
    assert "wrong" in shown
    assert "Restore the store from a backup" in shown


def test_a_restored_store_is_verified(store: str, tmp_path: Path, command_line: CommandLine) -> None:
    to, restored = (tmp_path / "backups").as_uri(), (tmp_path / "restored").as_uri()
    assert "rows verified: 1 table\n" in command_line("backup", to, "--verify")
    assert "rows verified: 1 table\n" in command_line("restore", to, "--store", restored, "--verify")


def test_how_far_it_is_is_said(
    store: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.upkeep.fingerprints.REPORT_SECONDS", 0.0)
    assert "t: 1 of about 1 rows read" in command_line("fingerprint", "t", "--verify")
    assert fingerprints.format_fingerprint(None) == ""
