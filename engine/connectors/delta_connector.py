"""The connector of Delta tables: what CREATE TABLE asks of one, and the trial of one."""

from __future__ import annotations

import os
from collections.abc import Iterator

from engine.connectors.contract import Connector, Elsewhere, Spark, Unfit, source_options
from engine.connectors.delta import CONNECTOR, NO_FEED, OPTIONS, DeltaSource
from engine.connectors.delta_columns import check_reading, with_columns, wrong_table
from engine.connectors.delta_log import DeltaLog, DeltaPlace, delta_place
from engine.connectors.delta_offsets import standing_of
from engine.connectors.delta_pending import check_pending
from engine.connectors.delta_read import check_seen, reading, snapshot_of, taken_columns
from engine.connectors.delta_steps import HistoryGone
from engine.errors import SourceError
from engine.hummock import Hummock
from engine.sql.catalog import Relation
from engine.sql.statements.statement_types import CreateTable

SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Variables of the environment whose values are never shown."""


class DeltaConnector(Connector):
    """A Delta table, whose one split is its log."""

    name = CONNECTOR
    options = OPTIONS
    statement = "CREATE TABLE t (…, PRIMARY KEY (…)) WITH (connector = 'delta', path = 'folder')"
    page = "delta.md"
    tells_columns = True
    resyncs = True
    passes = "changes"

    def unfit(self, statement: CreateTable) -> Unfit | None:
        """Return why a table cannot follow a Delta table."""
        if not statement.options.get("path"):
            hint = f"WITH (connector = '{self.name}', path = 'folder')"
            return Unfit("", f"the connector {self.name} needs a path", hint)
        return wrong_table(statement)

    def with_columns(self, statement: CreateTable) -> CreateTable:
        """Return the statement with the columns of the Delta table, if it lists none."""
        return with_columns(statement)

    def check_reading(self, statement: CreateTable, spark: Spark) -> None:
        """Let Spark look at a Delta table on S3."""
        check_reading(statement, spark)

    def check_executors(self, statement: CreateTable, elsewhere: Elsewhere) -> None:
        """Let tasks on other machines look for a Delta table in a folder of this one."""
        place = _place(statement)
        session = None if place.is_remote else elsewhere()
        if session is not None:
            check_seen(session, statement.name, place)

    def advice(self, statement: CreateTable) -> str:
        """Say that a Delta table has no change data feed."""
        log = DeltaLog(_place(statement))
        return "" if log.metadata(log.newest()).has_feed else f"{statement.name}: {NO_FEED}"

    def source(self, store: Hummock, relation: Relation) -> DeltaSource:
        """Return the source of a table."""
        return DeltaSource(store, relation)

    def trial(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say at which version the Delta table is, that Spark can read it, and after which version the source goes on."""
        try:
            yield from _tried(store, relation, spark)
        except HistoryGone as gone:
            if relation.name not in store.version.tables:  # there is nothing yet to be brought on from
                raise SourceError(f"{relation.kind} {relation.name}: {gone.why}") from gone
            raise gone.of_source() if relation.passes else gone from gone


def _tried(store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
    place = delta_place(source_options(relation).get("path", ""))
    log = DeltaLog(place)
    newest = log.newest()
    metadata = log.metadata(newest)
    keys = f"; {_secrets()}" if place.is_remote else ""
    yield f"the Delta table at {place.shown} is at version {newest}{keys}"
    columns = taken_columns(relation, metadata, place)
    with reading(spark, relation.name, place) as session:
        check_seen(session, relation.name, place)
        snapshot_of(session, relation, newest, place, columns).limit(1).toArrow()
    yield f"version {newest} can be read, {'with its change data feed' if metadata.has_feed else NO_FEED}"
    source = DeltaSource(store, relation)
    standing = standing_of(source.offset()) if relation.name in store.version.tables else None
    if standing is None:
        yield f"it would begin with the snapshot at version {newest}"
        return
    check_pending(log, relation, standing.at, spark)
    behind = f"{newest - standing.at.version} are pending" if source.pending() else "nothing is pending"
    yield f"it goes on after version {standing.at.version}, {behind}"


def _place(statement: CreateTable) -> DeltaPlace:
    return delta_place(statement.options["path"])


def _secrets() -> str:
    told = (f"{name} is {'set' if os.environ.get(name) else 'not set'}" for name in SECRETS)
    return ", ".join(told)
