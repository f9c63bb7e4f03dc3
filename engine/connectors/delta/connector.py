"""The connector of Delta tables: what CREATE TABLE asks of one, and the trial of one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from engine.connectors.contract.connector import Connector, Elsewhere, Spark, StatementProblem, source_options
from engine.connectors.contract.discovery import FoundTable
from engine.connectors.delta.columns import check_reading, resolve_columns, validate_table
from engine.connectors.delta.discovery import discover_tables
from engine.connectors.delta.frames import (
    check_visible,
    has_row_ids,
    match_delta_columns,
    open_read_session,
    read_snapshot,
)
from engine.connectors.delta.log import DeltaLog, DeltaPlace, parse_delta_place
from engine.connectors.delta.offsets import decode_offset
from engine.connectors.delta.pending import PendingCheck
from engine.connectors.delta.source import CONNECTOR, OPTIONS, DeltaSource
from engine.connectors.delta.steps import HistoryGone
from engine.connectors.delta.ways import FEED_WAY, describe_way
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
    schemes = ("file", "s3", "s3a")
    discovers_columns = True
    can_resync = True
    pass_through = "changes"

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return why a table cannot follow a Delta table."""
        if not statement.options.get("path"):
            hint = f"WITH (connector = '{self.name}', path = 'folder')"
            return StatementProblem("", f"the connector {self.name} needs a path", hint)
        return validate_table(statement)

    def resolve_columns(self, statement: CreateTable) -> CreateTable:
        """Return the statement with the columns of the Delta table, if it lists none."""
        return resolve_columns(statement)

    def check_reading(self, statement: CreateTable, spark: Spark) -> None:
        """Let Spark look at a Delta table on S3."""
        check_reading(statement, spark)

    def check_executors(self, statement: CreateTable, elsewhere: Elsewhere) -> None:
        """Let tasks on other machines look for a Delta table in a folder of this one."""
        place = _parse_place(statement)
        session = None if place.is_remote else elsewhere()
        if session is not None:
            check_visible(session, statement.name, place)

    def give_advice(self, statement: CreateTable) -> str:
        """Say how a Delta table that has no change data feed is followed."""
        log = DeltaLog(_parse_place(statement))
        metadata = log.read_metadata(log.find_newest_version())
        way = describe_way(metadata, not statement.primary_key)
        return f"{statement.name}: {way}" if way else ""

    def discover_tables(self, place: str, options: Mapping[str, str]) -> Iterator[FoundTable]:
        """Return the Delta tables at a place, or in the folders of one."""
        return discover_tables(place, options)

    def open_source(self, store: Hummock, relation: Relation) -> DeltaSource:
        """Return the source of a table."""
        return DeltaSource(store, relation)

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say at which version the Delta table is, that Spark can read it, and after which version the source goes on."""
        try:
            yield from _try_source(store, relation, spark)
        except HistoryGone as gone:
            if relation.name not in store.version.tables:  # there is nothing yet to be brought on from
                raise SourceError(f"{relation.kind} {relation.name}: {gone.why}") from gone
            raise gone.as_source_error() if relation.is_pass_through else gone from gone


def _try_source(store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
    place = parse_delta_place(source_options(relation).get("path", ""))
    log = DeltaLog(place)
    newest = log.find_newest_version()
    metadata = log.read_metadata(newest)
    keys = f"; {_describe_secrets()}" if place.is_remote else ""
    yield f"the Delta table at {place.display_name} is at version {newest}{keys}"
    columns = match_delta_columns(relation, metadata, place)
    with open_read_session(spark, relation.name, place) as session:
        check_visible(session, relation.name, place)
        read_snapshot(session, relation, newest, place, columns).limit(1).toArrow()
    yield f"version {newest} can be read, {describe_way(metadata, has_row_ids(relation)) or FEED_WAY}"
    source = DeltaSource(store, relation)
    offset = decode_offset(source.find_offset()) if relation.name in store.version.tables else None
    if offset is None:
        yield f"it would begin with the snapshot at version {newest}"
        return
    told = PendingCheck(log, relation, spark).run(offset.at)
    behind = f"{newest - offset.at.version} are pending" if source.list_pending() else "nothing is pending"
    yield f"it goes on after version {offset.at.version}, {behind}" + (f": {told}" if told else "")


def _parse_place(statement: CreateTable) -> DeltaPlace:
    return parse_delta_place(statement.options["path"])


def _describe_secrets() -> str:
    states = (f"{name} is {'set' if os.environ.get(name) else 'not set'}" for name in SECRETS)
    return ", ".join(states)
