"""The archive for executors holds all that tasks import, and nothing of the Python that has made it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from engine.errors import EnvironmentNotReady
from engine.runtime.spark import packing
from engine.runtime.spark.packing import pack_archive
from engine.runtime.spark.probe import compute_engine_digest
from engine.runtime.spark.worker_daemon import IMPORTED

BODIES = (
    "engine.operators.compile",
    "engine.runtime.reads.datasource",
    "engine.runtime.spark.probe",
    "engine.runtime.writes.change_tasks",
    "engine.runtime.writes.write_tasks",
    "engine.connectors.delta.frames",
    "engine.connectors.delta.sink.target",
    "engine.hummock.object_store.s3",
)
"""Modules of bodies that run in tasks."""
PROGRAM = """
import importlib, json, sys
for name in {modules!r}:
    importlib.import_module(name)
from engine.runtime.spark.probe import compute_engine_digest
files = [m.__file__ for m in sys.modules.values() if getattr(m, "__file__", None)]
print(json.dumps([compute_engine_digest(), files]))
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    assert pack_archive(path) == path.stat().st_size
    return path


@pytest.mark.long
def test_tasks_find_all_that_they_import_in_the_unpacked_archive(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as archive:
        # its python is a link to that of the machine; Python 3.11.4 knows filters
        archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        archive.extractall(tmp_path)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    library = Path(spec.origin).parent / "python" / "lib"  # as Spark puts its own onto the path of workers
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, library.glob("*.zip")))}
    program = PROGRAM.format(modules=(*IMPORTED, *BODIES))
    command = [str(tmp_path / "bin" / "python"), "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    digest, files = json.loads(done.stdout)
    assert digest == compute_engine_digest()
    base = Path(sys.base_prefix).resolve()
    strange = [
        file
        for file in files
        if not Path(file).is_relative_to(tmp_path)
        and not str(file).startswith(str(library))
        and not Path(file).resolve().is_relative_to(base)
    ]
    assert not strange


def test_another_place_of_python_on_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_list_files", lambda: iter(()))
    pack_archive(tmp_path / "e.tar.gz", "/opt/python/bin/python3")
    with tarfile.open(tmp_path / "e.tar.gz") as archive:
        assert archive.getmember("bin/python").linkname == "/opt/python/bin/python3"
        config = archive.extractfile("pyvenv.cfg")
        assert config is not None and b"home = /opt/python/bin\n" in config.read()


def test_a_name_that_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotReady, match=r"end it with \.tar\.gz"):
        pack_archive(tmp_path / "environment.7z")


def test_a_package_that_is_not_there_is_told_and_leaves_no_half_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "NEEDED", ("boto3", "no-such-package"))
    with pytest.raises(EnvironmentNotReady, match="no-such-package is not installed here"):
        pack_archive(tmp_path / "environment.tar.gz")
    assert not list(tmp_path.iterdir())
