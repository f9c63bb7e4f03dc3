"""One small job at the first use of a cluster: is there an executor, has it this engine and this Python, does it see the store?

What is missing there would otherwise show as a broken worker in the middle of a first epoch, or as a job that waits for ever.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa

import engine
from engine.errors import EnvironmentNotReady, StorageError
from engine.hummock import Hummock
from engine.hummock.manifests.manifest import manifest_path
from engine.hummock.object_store import open_object_store
from engine.hummock.object_store.branch import find_branch_place
from engine.runtime.spark.errors import is_job_cancelled, simplify_message
from engine.runtime.spark.masters import DRIVER_HOST, PACKED, is_local
from engine.runtime.spark.session import MOST_TASKS, EngineSpark

WAIT = "TIDELINE_EXECUTOR_SECONDS"
WAIT_SECONDS = 120.0
PACK_AGAIN = f"make the archive that {PACKED} names anew with `tideline cluster pack FILE`, or the image, and start again"
Body = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_PROBES = "probe"


class MachineFindings(msgspec.Struct, frozen=True):
    """What one task found on its machine."""

    host: str
    python: str
    engine: str
    wrong: str = ""
    """What keeps it from reading the store."""


def encode_findings(findings: msgspec.Struct) -> pa.RecordBatch:
    """Return what a task has found as the one row that it answers with."""
    return pa.RecordBatch.from_pydict({"seen": pa.array([msgspec.json.encode(findings)], pa.binary())})


@dataclass(frozen=True)
class ClusterProbe:
    """The body of the job: each task answers with one row."""

    store: str
    path: str
    """An object of the store that is there; empty: none is looked for."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tell what this machine is and has."""
        for _ in batches:
            pass
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        findings = MachineFindings(socket.gethostname(), version, compute_engine_digest(), self._find_fault())
        yield encode_findings(findings)

    def _find_fault(self) -> str:
        if not self.path:
            return ""
        try:
            found = open_object_store(self.store, create=False).head(self.path)
        except StorageError as error:
            return str(error)
        return "" if found is not None else f"{self.path} is not there"


@lru_cache(maxsize=1)
def compute_engine_digest() -> str:
    """Return a text that is another one where any module of the engine is."""
    folder = Path(engine.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def check_cluster(spark: EngineSpark, store: Hummock) -> None:
    """Raise EnvironmentNotReady, in one sentence, if tasks of a cluster cannot do what views of a store ask of them.

    One job for each Spark and store of this process; none where tasks run in the driver's process.
    """
    if is_local(spark.master):
        return
    known = spark.checked_stores
    if store.url not in known:
        with _provide_object(store) as path:
            _check_executors(spark, spark.master, store.url, path)
        if not known:  # where a session begins; each epoch sets it anew
            spark.configure("spark.sql.shuffle.partitions", str(spark.count_parallel_tasks()))
        known.add(store.url)


@contextmanager
def _provide_object(store: Hummock) -> Iterator[str]:
    """Give the path of an object that a store has: its newest manifest, without any, as in a new branch, one made for this."""
    if number := store.version.number:
        yield manifest_path(number)
        return
    path = f"{find_branch_place(store.url)}{_PROBES}/{uuid.uuid4()}"
    store.objects.put(path, b"")
    try:
        yield path
    finally:
        store.objects.delete([path])


def read_executor_timeout() -> float:
    """Return for how long an executor is waited for; raises EnvironmentNotReady for a setting that is no time."""
    text = os.environ.get(WAIT) or str(WAIT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise EnvironmentNotReady(
            f"{WAIT} is '{text}': set it to a number of seconds above 0, such as {WAIT_SECONDS:.0f}"
        )
    return seconds


def _check_executors(spark: EngineSpark, master: str, store: str, path: str) -> None:
    for answer in collect_task_answers(spark, master, ClusterProbe(store, path)):
        check_findings(msgspec.json.decode(answer, type=MachineFindings), master, store)


def collect_task_answers(spark: EngineSpark, master: str, body: Body) -> list[bytes]:
    """Return what each task of a small job answers in the column `seen`; raises EnvironmentNotReady where none can be run."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    mark = f"tideline-probe-{uuid.uuid4()}"
    seconds = read_executor_timeout()
    late = threading.Timer(seconds, lambda: spark.stop_jobs(mark))
    late.daemon = True
    late.start()
    try:
        spark.mark_jobs(mark)
        frame = spark.session.range(0, MOST_TASKS).mapInArrow(body, "seen binary")
        return [bytes(row.seen) for row in frame.collect()]
    except (PySparkException, Py4JError) as error:  # some of Spark's own PySpark does not know
        raise EnvironmentNotReady(_format_failure(error, master, seconds)) from error
    finally:
        late.cancel()
        spark.unmark_jobs(mark)


def check_findings(findings: MachineFindings, master: str, store: str) -> None:
    """Raise EnvironmentNotReady if a machine's Python or engine is another one, or if it does not see the store."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if findings.python != own:
        raise EnvironmentNotReady(
            f"the executor on {findings.host} of {master} runs Python {findings.python}, and this process "
            f"{own}: use the same minor "
            "version at both, as functions go from one to the other"
        )
    if findings.engine != compute_engine_digest():
        raise EnvironmentNotReady(
            f"the executor on {findings.host} of {master} has another version of `engine` than this process: {PACK_AGAIN}"
        )
    if findings.wrong and store.startswith("file:"):
        raise EnvironmentNotReady(
            f"the executor on {findings.host} of {master} does not see the store {store}, a folder of this "
            f"machine: take a bucket "
            "(s3://bucket/prefix), or a folder that all machines have at the same path"
        )
    if findings.wrong:
        raise EnvironmentNotReady(
            f"the executor on {findings.host} of {master} cannot read the store {store} ({findings.wrong}): give each worker's "
            "environment, or its machine's role, access to the bucket"
        )


def _format_failure(error: Exception, master: str, seconds: float) -> str:
    text = str(error)
    if is_job_cancelled(error):
        return (
            f"no executor of {master} has run a task within {seconds:.0f} s: look at the master's page for workers with free "
            f"cores and memory for one, and whether they reach this process ({DRIVER_HOST}); {WAIT} waits longer"
        )
    if missing := re.search(r"No module named '?([\w.]+)", text):
        other = ", or only another version of it is" if missing[1].startswith("engine.") else ""
        return f"{missing[1]} is not in the Python of the executors at {master}{other}: {PACK_AGAIN}"
    if missing := re.search(r'Cannot run program "([^"]+)"', text):
        return (
            f"the executors of {master} have no Python at {missing[1]}: name an archive of `tideline cluster pack` in "
            f"{PACKED}, or in PYSPARK_PYTHON the Python of the executors"
        )
    if versions := re.search(r"different version: ([\d.]+) than that in driver:? ([\d.]+)", text):
        return (
            f"the executors of {master} run Python {versions[1]}, and this process {versions[2]}: use the same minor version at "
            "both, as functions go from one to the other"
        )
    return f"the executors of {master} cannot run a task ({simplify_message(text)}): see their logs on the master's page"
