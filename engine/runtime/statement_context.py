"""What a statement is carried out with: one value that each handler is given beside its statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.statements.session.session_statements import Prepare
from engine.sql.statements.session.settings import SessionSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.runtime.epoch.report import FlushReport
    from engine.runtime.spark.on_demand import SparkOnDemand

    OpenSpark = Callable[[], SparkSession]


class SinkRuns(Protocol):
    """What statements ask of a session's sinks."""

    def run(self, sources: Collection[str] | None = None, /) -> Any:
        """Deliver what the sinks of these views and tables have not delivered yet."""

    def collect_errors(self) -> Mapping[str, str]:
        """Return the errors of sinks that this process knows of."""


class OpenCursor(Protocol):
    """What statements ask of a cursor."""

    name: str
    source: str

    @property
    def epoch(self) -> int:
        """The epoch of the rows that were fetched last."""

    def fetch(self, count: int, seconds: float = 0.0) -> pa.Table:
        """Return the next rows; wait for the first one for so many seconds at most."""

    def close(self) -> None:
        """Acknowledge what was fetched, and end it."""

    def release(self) -> None:
        """End it without."""


class StatementSession(Protocol):
    """What statements ask of the session that they are given to."""

    store: Hummock
    settings: SessionSettings
    prepared: dict[str, Prepare]
    cursors: dict[str, OpenCursor]
    reaches_out: bool

    @property
    def on_demand(self) -> SparkOnDemand:
        """The Spark session that it runs on, whether or not anything has needed it yet."""

    def open_spark(self) -> SparkSession:
        """Return the Spark session that computes, started at the first call."""

    @property
    def stored(self) -> StoredCatalog:
        """Relations and plans as they are now in the store."""

    @property
    def sinks(self) -> SinkRuns:
        """What delivers to its sinks."""

    def notice(self, text: str) -> None:
        """Keep what a statement has to say beside its rows."""

    def flush(self, views: Collection[str] | None = None) -> FlushReport:
        """Run all that is pending."""

    def wait(self, views: Collection[str] = (), *, seconds: float) -> None:
        """Return when views that are being created are whole."""

    def reflect(self, table: str) -> None:
        """Return when the views reflect what has been written to a table."""


@dataclass(frozen=True)
class StatementContext:
    """What a statement is carried out with. It only refers to things: what is done with them is said by the handlers.

    `spark` opens the Spark session when it is first called. With `build` what is created has content when its statement returns.
    `policy` says at which epoch a SELECT reads, None: as the session's setting says.
    """

    session: StatementSession
    store: Hummock
    spark: OpenSpark
    settings: SessionSettings
    build: bool = True
    policy: str | None = None

    @classmethod
    def of(
        cls, session: StatementSession, *, build: bool = True, policy: str | None = None
    ) -> StatementContext:
        """Return the context of one call of a session."""
        return cls(session, session.store, session.open_spark, session.settings, build, policy)

    @property
    def dialect(self) -> Dialect:
        """Whose SQL is read."""
        return self.settings.dialect

    @property
    def stored(self) -> StoredCatalog:
        """Relations and plans as they are now in the store."""
        return self.session.stored

    def read_catalog(self) -> Catalog:
        """Return the relations as they are now in the store."""
        return self.stored.catalog
