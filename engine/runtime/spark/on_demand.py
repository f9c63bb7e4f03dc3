"""The Spark of one session: connected to when it is first needed, and the same for all threads from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import EnvironmentNotReady
from engine.hummock import Hummock
from engine.runtime.spark.probe import check_cluster
from engine.runtime.spark.session import EngineSpark, SparkTarget, can_start_here
from engine.runtime.spark.ui import announce_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


class SparkOnDemand:
    """What a target names, once it is opened for work on a store: `started` until then None, `ui` its page if it shows one."""

    def __init__(
        self, target: SparkTarget | Callable[[], SparkTarget], store: Hummock, source: type[DataSource]
    ) -> None:
        self.target, self._store, self._source = target, store, source
        self._starting = threading.Lock()
        self.started: EngineSpark | None = None
        self.ui: str | None = None

    def open(self) -> EngineSpark:
        """Return the Spark; raises as `connect` and `check_cluster` do, and EnvironmentNotReady once it was stopped."""
        with self._starting:
            if self.started is None:
                started = EngineSpark.open(self.target)
                check_cluster(started, self._store)
                self.started, self.ui = started, announce_address(started.session)
            if self.started.is_stopped:
                raise EnvironmentNotReady(
                    "the Spark session that computes here was stopped: open another session, with a Spark that runs"
                )
            self.started.register_users_functions()
            return self.started

    def connect_with_source(self) -> SparkSession:
        """Return the Spark session with the data source registered in it, for which Spark starts another Python."""
        spark = self.open()
        with self._starting:
            spark.register_source(self._source)
        return spark.session

    def find_started(self) -> EngineSpark | None:
        """Return it where it has started, was handed in or runs elsewhere; None where it would have to start on this machine, or
        was stopped.
        """
        if self.started is None:
            return None if can_start_here(self.target) else self.open()
        return None if self.started.is_stopped else self.started
