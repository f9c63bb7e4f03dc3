"""What tests of the commands of upkeep share."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.hummock import Hummock, Put
from tests.hummock.conftest import SCHEMA, rows


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store with a table of one row, which commands work on by default."""
    url = (tmp_path / "store").as_uri()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_STORE", url)
    with Hummock.open(url) as opened:
        opened.create_table("t", SCHEMA, ["id"])
        opened.ingest_batch({"t": Put(rows({1: "a"}))})
    return url
