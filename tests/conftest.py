"""Shared parts of the tests: one Spark session a worker, sessions over stores in temporary folders."""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.maintenance import LISTING
from engine.hummock.compaction import Merge
from engine.hummock.reads.merge import HashRange
from engine.hummock.version import Run
from engine.runtime.compaction_tasks import CompactionTasks
from engine.runtime.spark.session import connect
from engine.session import Session
from tests.uncompiled import compiled, interpreting

pytest_plugins = ["tests.measures"]
hypothesis.settings.register_profile(
    "random", deadline=None
)  # how long an example takes is the machine's affair
hypothesis.settings.register_profile("tideline", hypothesis.settings.get_profile("random"), derandomize=True)
hypothesis.settings.load_profile("tideline")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell starts what runs in the background so; Dagster makes SIGTERM mean the same, and processes that tests start would
    # never end
    signal.signal(signal.SIGINT, signal.default_int_handler)
_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""Java's machine code is that of its first compiler: tests end before the second one pays."""
os.environ.setdefault("TIDELINE_VERIFY", "1")  # before Spark starts, so that its workers check claims, too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the worker's Spark: `make quick` leaves them out."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session", autouse=True)
def scratch_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this process and those that it starts put what is temporary, the cache of decoded files too; it goes with them.

    Its path is short: Spark's workers listen on sockets in it, whose paths have at most some hundred characters.
    """
    tmp_path_factory.getbasetemp()  # pytest's own folder is where a user looks for it
    with tempfile.TemporaryDirectory(prefix="tideline-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)  # tests become other users
        given = os.environ.get(_JAVA_OPTIONS, _FIRST_COMPILER)
        os.environ.update(
            {
                "TIDELINE_CACHE_DIR": f"{folder}/cache",
                "TMPDIR": folder,
                "SPARK_LOCAL_DIRS": folder,
                _JAVA_OPTIONS: f"{given} -Djava.io.tmpdir={folder}",
            }
        )
        tempfile.tempdir = folder
        yield Path(folder)


@pytest.fixture(scope="session", autouse=True)
def unsynced_disk() -> Iterator[None]:
    """Do not wait for the disk: tests kill processes, whose writes the system keeps; none of them cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def s3_server(scratch_folder: Path) -> Iterator[str]:
    """An S3 server on loopback; the environment names it before anything starts Spark, so that its workers know it."""
    from tests.s3_server import s3_server as running

    with running() as url:
        given = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        os.environ.update(given)
        yield url


@pytest.fixture
def s3_url(s3_server: str) -> str:
    """The address of an empty store on the S3 server."""
    return f"s3://tideline/{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def spark(s3_server: str) -> Iterator[SparkSession]:
    """The worker's Spark session."""
    os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
    with interpreting():
        session = connect("local[2]")
    session.conf.set(LISTING, "2")  # Delta's VACUUM lists folders by 10,000 tasks otherwise
    yield session
    session.stop()


@pytest.fixture
def code_generated(spark: SparkSession) -> Iterator[None]:
    """Spark compiles its plans, as it does for users."""
    with compiled(spark):
        yield


@pytest.fixture
def session(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    """A session over an empty store."""
    with Session((tmp_path / "store").as_uri(), spark) as opened:
        yield opened


@pytest.fixture
def merged_by_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables that Spark's tasks have merged in this process."""
    names, merge = list[str](), CompactionTasks.merge

    def named(tasks: CompactionTasks, what: Merge, ranges: Sequence[HashRange]) -> Sequence[Run]:
        names.append(what.table.name)
        return merge(tasks, what, ranges)

    monkeypatch.setattr(CompactionTasks, "merge", named)
    return names
