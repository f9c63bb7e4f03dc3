"""A folder of the driver's machine: executors of other machines do not see it, but where all share one disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cluster.folders import ROWS
from tests.cluster.standalone import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SHARED = "/dev/shm"
"""Where all machines of a cluster have the same files: it is of no machine's own folders."""


def lines_of(cluster: Cluster, packed: Path, folder: Path) -> list[str]:
    """Return what a driver says that makes Delta tables in a folder."""
    store = f"s3://tideline/{folder.name}"
    driver = cluster.drive("tests.cluster.folders", store, str(folder), packed=packed)
    out, _ = driver.communicate(timeout=400)
    assert driver.returncode == 0, cluster.driver.log()[-4000:]
    return out.decode().splitlines()


def test_delta_tables_that_executors_do_not_see_are_refused_and_nothing_is_made(
    cluster: Cluster, packed: Path
) -> None:
    folder = cluster.network.folder / "here"
    folder.mkdir()
    lines = lines_of(cluster, packed, folder)
    assert [line.split(":")[0] for line in lines[:4]] == ["table", "source", "sink", "view"], lines
    for line in lines[:4]:
        assert f"of {cluster.master} does not see {folder}" in line, line
        assert "a folder that all machines have at the same path" in line, line
    assert lines[4:] == ["taken: []", "delivered: []", "there: t"]
    assert [path.name for path in folder.iterdir()] == ["lake"]
    assert [path.name for path in (folder / "lake").iterdir() if path.is_dir()] == ["_delta_log"]


def test_delta_tables_on_a_disk_that_executors_share_are_made(cluster: Cluster, packed: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tideline-", dir=SHARED) as folder:
        lines = lines_of(cluster, packed, Path(folder))
        assert lines[:4] == [f"{name}: made" for name in ("table", "source", "sink", "view")], lines
        assert lines[4:] == [
            "taken: [('a', 2, None), ('b', 0, None)]",  # no view follows b
            "delivered: [(None, 0), (None, 0)]",
            "there: a b s t v v_delta",
        ]
        assert DeltaTable(f"{folder}/out/s").to_pyarrow_table().num_rows == ROWS
        assert DeltaTable(f"{folder}/out/v").to_pyarrow_table().to_pylist() == [{"v": "x", "n": ROWS}]
