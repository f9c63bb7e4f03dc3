"""The Spark session that Tideline runs on: local, a standalone master, or Spark Connect."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.assumptions import PREPARED_SESSION
from engine.jars import check_java
from engine.jsonb.functions import FUNCTIONS, PREFIX
from engine.python_functions.definition import list_known
from engine.runtime.spark.connect import SERVERS
from engine.runtime.spark.driver import start_driver
from engine.runtime.spark.functions import (
    compute_functions_digest,
    register_functions,
    register_python_functions,
)
from engine.runtime.spark.logging import silence_own_calls
from engine.runtime.spark.masters import (
    CLASS_CACHE,
    CLASSES,
    CLASSES_OF_SPARK,
    build_start_settings,
    check_master,
    is_local,
)
from engine.spark_internals import activate, attach, is_in_process, is_stopped, remember_classes
from engine.verification import build_assumption_error, should_verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_LOG = logging.getLogger(__name__)

SparkTarget: TypeAlias = "SparkSession | str | None"
Origin = Literal["own", "connect", "beside", "given"]

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # `${…}` in a text of SQL is what it says, and no setting or variable of the environment
    "spark.sql.variable.substitute": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.EliminateSorts,"
    "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates",
}
"""EliminateSorts: Spark 4.2 takes the ORDER BY away below a LIMIT over whose rows a scalar subquery is selected and joined.

DecimalAggregates: it averages short decimals by floating point, which rounds some ties to other digits than a kept view.
"""
CHANGED_SETTINGS = {"spark.sql.shuffle.partitions": "2"}
"""Where a session begins with a setting that each epoch sets anew."""
PREPARED = "spark.tideline.prepared"
"""Says in a session of a server, which outlives the processes that use it, that it has the settings and functions."""
PARALLELISM = "spark.tideline.parallelism"
"""Says in a session of a server how many tasks run there at the same time."""
MOST_TASKS = 4096


def connect(spark: SparkTarget | Callable[[], SparkTarget] = None) -> SparkSession:
    """Return a session for `spark`: one that exists, `sc://host:port`, a master's address, a function that says which, or None.

    None takes SPARK_REMOTE from the environment where it is set, else local[*]. A session that somebody else has made, handed in
    or found in this process, keeps its settings and temporary views: what is returned is another one on the same Spark, with
    SETTINGS. Raises EnvironmentNotReady without Java or jars, or when a server refuses the token.
    """
    return EngineSpark.open(spark).session


def build_server_settings(master: str) -> dict[str, str]:
    """Return the settings that a Spark of this master is started with where it is a process apart, a server of Spark Connect.

    Raises EnvironmentNotReady as `build_start_settings` does.
    """
    return {"spark.master": master, **build_start_settings(master, serves=True), **SETTINGS}


def is_of_this_process(spark: object) -> bool:
    """Tell whether a target names a Spark that `connect` starts here, so that its tasks run on this machine."""
    if spark is not None and not isinstance(spark, str):
        return False
    return _choose_address(spark).startswith("local")


def can_start_here(spark: SparkTarget | Callable[[], SparkTarget]) -> bool:
    """Tell whether connecting to a target may start a Spark on this machine, which takes seconds; a function may say anything."""
    return callable(spark) or is_of_this_process(spark)


def _choose_address(spark: str | None) -> str:
    return spark or os.environ.get("SPARK_REMOTE") or "local[*]"


class EngineSpark:
    """A Spark session with all that the engine knows of it: where it comes from, what was set, checked and registered in it.

    `origin` is "own" for a session of the Spark that this process has started, "connect" for one of a server, "beside" for
    another one on the Spark of somebody's session, and "given" for a session that somebody else has made: it stays as it is.
    A session carries its one EngineSpark, so whoever has the session, or a frame of it, has both.
    """

    def __init__(self, session: SparkSession, origin: Origin) -> None:
        self.session, self.origin = session, origin
        self.is_prepared = False
        """Whether the session has had SETTINGS and the engine's functions; somebody may have changed a setting since."""
        self.checked_stores: set[str] = set()
        """The stores that the executors of the cluster were found to read."""
        self._configured: dict[str, str] = {}
        self._parallelism: int | None = None
        self._sources: set[type[DataSource]] = set()
        self._sharing = threading.Lock()
        self._functions_seen = 0
        self._sharing_functions = threading.Lock()
        self._shared: EngineSpark | None = None

    @classmethod
    def of(cls, session: SparkSession, origin: Origin = "given") -> EngineSpark:
        """Return what a session carries; one that has nothing yet gets it, with that origin."""
        return attach(session, lambda: cls(session, origin))

    @classmethod
    def open(cls, target: SparkTarget | Callable[[], SparkTarget] = None) -> EngineSpark:
        """Return the prepared session for a target; targets and errors are those of `connect`."""
        if callable(target):  # a session is none
            target = target()
        if isinstance(target, str) or target is None:
            address = _choose_address(target)
            found = cls.connect(address) if address.startswith("sc://") else cls.start(address)
        else:
            found = cls.of(target)
            if found.is_prepared and found._has_settings():
                return found
            found = found._find_shared()
        return found._prepare()

    @classmethod
    def start(cls, master: str) -> EngineSpark:
        """Return the session of a Spark that is started here; if one runs, the engine's on that, whatever its master."""
        check_master(master)
        check_java()
        if (session := _find_running()) is None:
            return cls.of(start_driver(master, SETTINGS | CHANGED_SETTINGS), "own")
        running = cls.of(session)
        return running if running.is_prepared else running._find_shared()

    @classmethod
    def connect(cls, address: str) -> EngineSpark:
        """Return the session of a server at `sc://host:port/…`, the same for all in this process who name that address."""
        return cls.of(SERVERS.connect(address), "connect")

    def share(self) -> EngineSpark:
        """Return another session on the same Spark, with settings of its own, the same for all who ask."""
        found = self._find_shared()
        found = found if found.is_prepared else found._prepare()
        found.register_users_functions()
        return found

    def separate(self, settings: Mapping[str, str]) -> EngineSpark:
        """Return one more session on the same Spark, the caller's alone, with settings beside SETTINGS; without functions."""
        made = self._clone()
        for key, value in {**SETTINGS, **settings}.items():
            made.session.conf.set(key, value)
        return made

    @property
    def is_in_process(self) -> bool:
        """Whether the driver is in this process."""
        return is_in_process(self.session)

    @property
    def is_stopped(self) -> bool:
        """Whether the Spark that runs in this process was stopped."""
        return is_stopped(self.session)

    @cached_property
    def master(self) -> str:
        """The master of the Spark, as its driver names it."""
        return self.session.conf.get("spark.master", None) or "local"

    def register_users_functions(self) -> None:
        """Give the session the functions in Python that this process has seen since it was asked last."""
        known = list_known()
        if self._functions_seen < len(known):
            with self._sharing_functions:
                register_python_functions(self.session, known[self._functions_seen :])
                self._functions_seen = len(known)

    def configure(self, key: str, value: str) -> None:
        """Change a setting; in a session of a server only where this process has set it to something else: it is a request."""
        known = {} if self.is_in_process else self._configured
        if known.get(key) != value:
            self.session.conf.set(key, value)
            known[key] = value

    def register_source(self, source: type[DataSource]) -> None:
        """Register a Python data source once, whatever other sessions of this process have registered.

        Spark looks for one of that name in the session that is active in this thread, and refuses the name if that is another.
        """
        from pyspark.errors import AnalysisException
        from pyspark.sql import SparkSession

        if source in self._sources:
            return
        try:
            self.session.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
            before = SparkSession.getActiveSession()
            activate(self.session)
            try:
                self.session.dataSource.register(source)
            finally:
                if before is not None:
                    activate(before)
        self._sources.add(source)

    @property
    def is_local(self) -> bool:
        """Whether its tasks run on this machine, below the driver."""
        return self.is_in_process and is_local(self.session.sparkContext.master or "")

    def count_parallel_tasks(self) -> int:
        """Return how many tasks run at the same time: of a cluster as many as its executors have cores now."""
        if self.is_in_process:
            if self._parallelism is not None:
                return self._parallelism
            found = int(self.session.sparkContext.defaultParallelism)
            if self.is_local:  # its cores stay what they are
                self._parallelism = found
            return found
        if self._parallelism is None:
            count = self.session.conf.get(PARALLELISM, None)
            if count is None:  # into so many parts a server takes what nobody has said the parts of
                rows = self.session.range(0, MOST_TASKS).selectExpr("spark_partition_id() AS part")
                count = str(rows.distinct().count())
                self.session.conf.set(PARALLELISM, count)
            self._parallelism = int(count)
        return self._parallelism

    def mark_jobs(self, mark: str) -> None:
        """Put a mark on the jobs that this thread starts from now on, by which `stop_jobs` finds them."""
        if self.is_in_process:
            self.session.sparkContext.addJobTag(mark)  # a session's own tags do not reach its jobs here
        else:
            self.session.addTag(mark)

    def unmark_jobs(self, mark: str) -> None:
        """Take a mark from the jobs that this thread starts from now on."""
        if self.is_in_process:
            self.session.sparkContext.removeJobTag(mark)
        else:
            self.session.removeTag(mark)

    def stop_jobs(self, mark: str) -> None:
        """End the jobs with a mark, on a server as well; whoever waits for one of them gets an error."""
        if self.is_in_process:
            self.session.sparkContext.cancelJobsWithTag(mark)
        else:
            self.session.interruptTag(mark)

    def share_fairly(self, pool: str) -> None:
        """Let the jobs that this thread starts from now on share Spark's tasks with those of other pools, as one among them."""
        if self.is_in_process:
            self.session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)

    def _find_shared(self) -> EngineSpark:
        """Return the session beside this one, the same for all who ask; a clone of Spark Connect begins with its settings."""
        with self._sharing:
            if self._shared is None:
                self._shared = self._clone()
            return self._shared

    def _clone(self) -> EngineSpark:
        clone = getattr(self.session, "cloneSession", None)
        if clone is None:
            return EngineSpark.of(self.session.newSession(), "beside")
        made: SparkSession = clone()
        SERVERS.close_at_exit(made)
        return EngineSpark.of(made, "beside")

    def _prepare(self) -> EngineSpark:
        """Give the session SETTINGS and functions where it does not have them."""
        silence_own_calls()
        if self.is_in_process:
            remember_classes(self.session)
        settings = {**SETTINGS, **CHANGED_SETTINGS}
        mark = f"{compute_functions_digest()} {sorted(settings.items())}"
        is_marked = self.session.conf.get(PREPARED, None) == mark
        if self.is_in_process:  # a setting of it may have been changed since
            is_marked = is_marked and self.is_prepared and self._has_settings()
        if not is_marked:
            self._check_class_cache()
            for key, value in settings.items():
                self.session.conf.set(key, value)
            register_functions(self.session)
            self.session.conf.set(PREPARED, mark)
        elif should_verify() and not self.is_in_process:
            self._check_prepared()
        self.is_prepared = True
        return self

    def _check_class_cache(self) -> None:
        """Warn where a Spark that somebody else has started keeps few classes; only its start can change that."""
        cached = int(str(self.session.conf.get(CLASS_CACHE)))
        if cached <= CLASSES_OF_SPARK:
            _LOG.warning(
                "this Spark keeps %s generated classes (%s): a project of many views compiles them again in each epoch; "
                "start it with %s=%s",
                cached,
                CLASS_CACHE,
                CLASS_CACHE,
                CLASSES,
            )

    def _has_settings(self) -> bool:
        return all(self.session.conf.get(key, None) == value for key, value in SETTINGS.items())

    def _check_prepared(self) -> None:
        """Check `PREPARED_SESSION` of one that bears the mark; what epochs set anew may be anything."""
        conf, catalog = self.session.conf, self.session.catalog
        other = {key: found for key in SETTINGS if (found := conf.get(key, None)) != SETTINGS[key]}
        known = {function.name for function in catalog.listFunctions(pattern=f"{PREFIX}*")}
        lacking = sorted({function.name for function in FUNCTIONS} - known)
        if other or lacking:
            differences = [f"{key} = {found}" for key, found in other.items()] + [
                f"no function {n}" for n in lacking
            ]
            raise build_assumption_error(
                PREPARED_SESSION, f"a session that says it is prepared has {', '.join(differences)}"
            )


def _find_running() -> SparkSession | None:
    """Return the session that is active on the Spark that runs in this process, None if none does.

    Asking the builder for one would write settings into the session that somebody else has made.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None
