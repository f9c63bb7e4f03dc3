"""A module here names a packed store of a version before: its tests have a copy of it, and a session over the copy."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session


@pytest.fixture
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a copy of the module's `STORE`."""
    with tarfile.open(Path(__file__).with_name(request.module.STORE)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        archive.extractall(tmp_path / "store")
    return f"file://{tmp_path}/store"


@pytest.fixture
def session(old: str, spark: SparkSession) -> Iterator[Session]:
    with Session(old, spark=spark) as opened:
        yield opened
