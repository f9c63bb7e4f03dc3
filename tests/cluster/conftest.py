"""Clusters of machines of their own, and the archive that their executors unpack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.runtime.spark.packing import pack_archive
from tests.cluster.standalone import Cluster, can_make_machines


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of what this clone's tasks need."""
    path = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    pack_archive(path)
    return path


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that nothing befalls, for all tests of a module."""
    if not can_make_machines():
        pytest.skip("making machines takes root on Linux")
    with Cluster() as running:
        yield running


@pytest.fixture
def troubled() -> Iterator[Cluster]:
    """A cluster of a test's own, whose workers may be killed."""
    if not can_make_machines():
        pytest.skip("making machines takes root on Linux")
    with Cluster() as running:
        yield running
