"""The Spark session that Tideline runs on: local, a standalone master, or Spark Connect."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from engine.assumptions import PREPARED_SESSION
from engine.jars import check_java
from engine.jsonb.functions import FUNCTIONS, PREFIX
from engine.runtime.spark.connect import LOOPBACK, close_at_exit, connect_to
from engine.runtime.spark.functions import compute_functions_digest, register_functions
from engine.runtime.spark.logging import silence_own_calls
from engine.runtime.spark.masters import (
    CLASS_CACHE,
    CLASSES,
    CLASSES_OF_SPARK,
    build_start_error,
    build_start_settings,
    check_answers,
    check_master,
    is_local,
    read_driver_memory,
)
from engine.runtime.spark.ui import build_ui_settings
from engine.spark_internals import activate, is_in_process, remember_classes
from engine.verification import build_assumption_error, should_verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_LOG = logging.getLogger(__name__)

SparkTarget: TypeAlias = "SparkSession | str | None"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.EliminateSorts",
}
"""EliminateSorts: Spark 4.2 takes the ORDER BY away below a LIMIT over whose rows a scalar subquery is selected and joined."""
CHANGED_SETTINGS = {"spark.sql.shuffle.partitions": "2"}
"""Where a session begins with a setting that each epoch sets anew."""
PREPARED = "spark.tideline.prepared"
"""Says in a session of a server, which outlives the processes that use it, that it has the settings and functions."""
PARALLELISM = "spark.tideline.parallelism"
"""Says in a session of a server how many tasks run there at the same time."""
MOST_TASKS = 4096

_OWN: weakref.WeakSet[SparkSession] = weakref.WeakSet()
"""The sessions of this process that `connect` has made."""
_CONFIGURED: weakref.WeakKeyDictionary[SparkSession, dict[str, str]] = weakref.WeakKeyDictionary()
_CORES: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()
"""How many tasks run at the same time, of the sessions of servers and of local masters."""
_SHARED: weakref.WeakKeyDictionary[SparkSession, SparkSession] = weakref.WeakKeyDictionary()


def connect(spark: SparkTarget | Callable[[], SparkTarget] = None) -> SparkSession:
    """Return a session for `spark`: one that exists, `sc://host:port`, a master's address, a function that says which, or None.

    None takes SPARK_REMOTE from the environment where it is set, else local[*]. A session that somebody else has made, handed in
    or found in this process, keeps its settings and temporary views: what is returned is another one on the same Spark, with
    SETTINGS. Raises EnvironmentNotReady without Java or jars, or when a server refuses the token.
    """
    if callable(spark):  # a session is none
        spark = spark()
    if isinstance(spark, str) or spark is None:
        target = spark or os.environ.get("SPARK_REMOTE") or "local[*]"
        session = connect_to(target) if target.startswith("sc://") else _start_classic(target)
    elif spark in _OWN and _has_settings(spark):
        return spark
    else:
        session = _find_shared_session(spark)
    return _prepare_session(session)


def build_server_settings(master: str) -> dict[str, str]:
    """Return the settings that a Spark of this master is started with where it is a process apart, a server of Spark Connect.

    Raises EnvironmentNotReady as `build_start_settings` does.
    """
    return {"spark.master": master, **build_start_settings(master, serves=True), **SETTINGS}


def configure(session: SparkSession, key: str, value: str) -> None:
    """Change a setting of a session; in one of a server only where this process has set it to something else: it is a request."""
    known = {} if is_in_process(session) else _CONFIGURED.setdefault(session, {})
    if known.get(key) != value:
        session.conf.set(key, value)
        known[key] = value


def share_session(session: SparkSession) -> SparkSession:
    """Return another session on the same Spark, with settings of its own, the same for all who ask."""
    found = _find_shared_session(session)
    return found if found in _OWN else _prepare_session(found)


def create_separate_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return one more session on the same Spark, the caller's alone, with settings beside SETTINGS; without functions."""
    made = _clone_session(session)
    for key, value in {**SETTINGS, **settings}.items():
        made.conf.set(key, value)
    return made


def _prepare_session(session: SparkSession) -> SparkSession:
    silence_own_calls()
    if is_in_process(session):
        remember_classes(session)
    settings = {**SETTINGS, **CHANGED_SETTINGS}
    mark = f"{compute_functions_digest()} {sorted(settings.items())}"
    is_marked = session.conf.get(PREPARED, None) == mark
    if is_in_process(session):  # a setting of it may have been changed since
        is_marked = is_marked and session in _OWN and _has_settings(session)
    if not is_marked:
        _check_class_cache(session)
        for key, value in settings.items():
            session.conf.set(key, value)
        register_functions(session)
        session.conf.set(PREPARED, mark)
    elif should_verify() and not is_in_process(session):
        _check_prepared(session)
    _OWN.add(session)
    return session


def _check_class_cache(session: SparkSession) -> None:
    """Warn where a Spark that somebody else has started keeps few classes; only its start can change that."""
    cached = int(str(session.conf.get(CLASS_CACHE)))
    if cached <= CLASSES_OF_SPARK:
        _LOG.warning(
            "this Spark keeps %s generated classes (%s): a project of many views compiles them again in each epoch; "
            "start it with %s=%s",
            cached,
            CLASS_CACHE,
            CLASS_CACHE,
            CLASSES,
        )


def _has_settings(session: SparkSession) -> bool:
    return all(session.conf.get(key, None) == value for key, value in SETTINGS.items())


def _check_prepared(session: SparkSession) -> None:
    """Check `PREPARED_SESSION` of one that bears the mark; what epochs set anew may be anything."""
    other = {key: found for key in SETTINGS if (found := session.conf.get(key, None)) != SETTINGS[key]}
    known = {function.name for function in session.catalog.listFunctions(pattern=f"{PREFIX}*")}
    lacking = sorted({function.name for function in FUNCTIONS} - known)
    if other or lacking:
        differences = [f"{key} = {found}" for key, found in other.items()] + [
            f"no function {n}" for n in lacking
        ]
        raise build_assumption_error(
            PREPARED_SESSION, f"a session that says it is prepared has {', '.join(differences)}"
        )


def is_of_this_process(spark: object) -> bool:
    """Tell whether a target names a Spark that `connect` starts here, so that its tasks run on this machine."""
    if spark is not None and not isinstance(spark, str):
        return False
    return (spark or os.environ.get("SPARK_REMOTE") or "local[*]").startswith("local")


def can_start_here(spark: SparkTarget | Callable[[], SparkTarget]) -> bool:
    """Tell whether connecting to a target may start a Spark on this machine, which takes seconds; a function may say anything."""
    return callable(spark) or is_of_this_process(spark)


def _find_shared_session(spark: SparkSession) -> SparkSession:
    """Return a session beside another one, the same for all who ask; of Spark Connect a clone, which begins with its settings."""
    if spark not in _SHARED:
        _SHARED[spark] = _clone_session(spark)
    return _SHARED[spark]


def _clone_session(session: SparkSession) -> SparkSession:
    clone = getattr(session, "cloneSession", None)
    if clone is None:
        return session.newSession()
    made: SparkSession = clone()
    close_at_exit(made)
    return made


def register_source(session: SparkSession, source: type[DataSource]) -> None:
    """Register a Python data source in a session, whatever other sessions of this process have registered.

    Spark looks for one of that name in the session that is active in this thread, and refuses the name if that is another one.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    try:
        session.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        before = SparkSession.getActiveSession()
        activate(session)
        try:
            session.dataSource.register(source)
        finally:
            if before is not None:
                activate(before)


def count_parallel_tasks(spark: SparkSession) -> int:
    """Return how many tasks of the session run at the same time: of a cluster as many as its executors have cores now."""
    if is_in_process(spark) and not is_local(spark.sparkContext.master or ""):
        return int(spark.sparkContext.defaultParallelism)
    if spark not in _CORES and is_in_process(spark):
        _CORES[spark] = int(spark.sparkContext.defaultParallelism)
    if spark not in _CORES:
        count = spark.conf.get(PARALLELISM, None)
        if count is None:  # into so many parts a server takes what nobody has said the parts of
            rows = spark.range(0, MOST_TASKS).selectExpr("spark_partition_id() AS part")
            count = str(rows.distinct().count())
            spark.conf.set(PARALLELISM, count)
        _CORES[spark] = int(count)
    return _CORES[spark]


def mark_jobs(spark: SparkSession, mark: str) -> None:
    """Put a mark on the jobs that this thread starts from now on, by which `stop_jobs` finds them."""
    if is_in_process(spark):
        spark.sparkContext.addJobTag(mark)  # a session's own tags do not reach its jobs here
    else:
        spark.addTag(mark)


def share_fairly(spark: SparkSession, pool: str) -> None:
    """Let the jobs that this thread starts from now on share Spark's tasks with those of other pools, as one among them."""
    if is_in_process(spark):
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def unmark_jobs(spark: SparkSession, mark: str) -> None:
    """Take a mark from the jobs that this thread starts from now on."""
    if is_in_process(spark):
        spark.sparkContext.removeJobTag(mark)
    else:
        spark.removeTag(mark)


def stop_jobs(spark: SparkSession, mark: str) -> None:
    """End the jobs with a mark, on a server as well; whoever waits for one of them gets an error."""
    if is_in_process(spark):
        spark.sparkContext.cancelJobsWithTag(mark)
    else:
        spark.interruptTag(mark)


def _find_running() -> SparkSession | None:
    """Return a session of the engine's on the Spark that runs in this process, None if none does.

    Asking the builder for one would write settings into the session that somebody else has made.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        there = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return there if there in _OWN else _find_shared_session(there)


def _start_classic(master: str) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    check_master(master)
    check_java()
    if (session := _find_running()) is not None:
        return session
    memory = read_driver_memory()
    check_answers(master)
    own = build_start_settings(master)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with _ignore_remote(), _keep_interrupts():
        builder = SparkSession.builder.master(master).appName("tideline")
        builder = builder.config("spark.driver.memory", memory)
        for key, value in {**own, **build_ui_settings(os.environ), **SETTINGS, **CHANGED_SETTINGS}.items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except Py4JError as error:
            if is_local(master):
                raise
            raise build_start_error(master, error) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _ignore_remote() -> Iterator[None]:
    """Let a master that was asked for be taken where SPARK_REMOTE names a server, too: Spark refuses the two together."""
    remote = os.environ.pop("SPARK_REMOTE", None)
    try:
        yield
    finally:
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote


@contextmanager
def _keep_interrupts() -> Iterator[None]:
    """Let a process that handles interrupts by itself go on to: Spark would raise KeyboardInterrupt in the place of its error."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        own = before not in (signal.default_int_handler, None)
        if own and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
