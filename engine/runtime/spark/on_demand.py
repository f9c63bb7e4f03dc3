"""The Spark of one session: connected to when it is first needed, and the same for all threads from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import EnvironmentNotReady
from engine.hummock import Hummock
from engine.runtime.spark.probe import check_cluster
from engine.runtime.spark.session import SparkTarget, can_start_here, connect, register_source
from engine.runtime.spark.ui import announce_address
from engine.spark_internals import is_stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


class SparkOnDemand:
    """What a target names, once it is called for work on a store: `started` until then None, `ui` its page if it shows one."""

    def __init__(
        self, target: SparkTarget | Callable[[], SparkTarget], store: Hummock, source: type[DataSource]
    ) -> None:
        self.target, self._store, self._source = target, store, source
        self._starting, self._has_source = threading.Lock(), False
        self.started: SparkSession | None = None
        self.ui: str | None = None

    def __call__(self) -> SparkSession:
        """Return the Spark session; raises as `connect` and `check_cluster` do, and EnvironmentNotReady once it was stopped."""
        with self._starting:
            if self.started is None:
                started = connect(self.target)
                check_cluster(started, self._store)
                self.started, self.ui = started, announce_address(started)
            if is_stopped(self.started):
                raise EnvironmentNotReady(
                    "the Spark session that computes here was stopped: open another session, with a Spark that runs"
                )
            return self.started

    def connect_with_source(self) -> SparkSession:
        """Return the Spark session with the data source registered in it, for which Spark starts another Python."""
        session = self()
        with self._starting:
            if not self._has_source:
                register_source(session, self._source)
                self._has_source = True
        return session

    def find_started(self) -> SparkSession | None:
        """Return it where it has started, was handed in or runs elsewhere; None where it would have to start on this machine, or
        was stopped.
        """
        if self.started is None:
            return None if can_start_here(self.target) else self()
        return None if is_stopped(self.started) else self.started
