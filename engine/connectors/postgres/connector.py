"""The connector of PostgreSQL: what CREATE TABLE asks of a database, and the trial of a source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from engine.connectors.contract.connector import Connector, Spark, StatementProblem
from engine.connectors.contract.discovery import FoundTable
from engine.connectors.postgres.columns import FollowingTable, find_problem, read_table
from engine.connectors.postgres.discovery import SCHEMES, discover_tables
from engine.connectors.postgres.positions import decode_offset, format_lsn
from engine.connectors.postgres.server import PostgresServer
from engine.connectors.postgres.settings import (
    CONNECTOR,
    OPTIONS,
    parse_settings,
    read_settings,
    validate_options,
)
from engine.connectors.postgres.source import PostgresGroup, PostgresSource, find_group
from engine.errors import SourceError
from engine.hummock import Hummock
from engine.sql.catalog import Relation
from engine.sql.parsing.statement_errors import mask_literals, unsupported_error_at
from engine.sql.statements.statement_types import CreateTable


class PostgresConnector(Connector):
    """A table of PostgreSQL, followed by logical decoding; tables of one slot commit together."""

    name = CONNECTOR
    options = OPTIONS
    statement = "CREATE TABLE t (…) WITH (connector = 'postgres-cdc', table = 's.t', …)"
    page = "postgres.md"
    schemes = SCHEMES
    can_resync = True

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return which option is missing or means nothing, or which clause a table that follows another one cannot have."""
        return validate_options(statement.options) or _validate_clauses(statement)

    def resolve_columns(self, statement: CreateTable) -> CreateTable:
        """Return the statement once the database was asked whether a table of these columns can follow its table there."""
        settings = parse_settings(statement.options)
        following = FollowingTable(statement.name, statement.columns, statement.primary_key)
        with PostgresServer(settings) as server:
            problem = find_problem(server, following)
        if problem is not None:
            at = _locate(statement, problem.option)
            raise unsupported_error_at(problem.message, statement.sql, at, problem.hint)
        return statement

    def discover_tables(self, place: str, options: Mapping[str, str]) -> Iterator[FoundTable]:
        """Return the tables of a database that the role may read."""
        return discover_tables(place, options)

    def find_group(self, relation: Relation) -> str:
        """Return the slot with its database."""
        return find_group(relation)

    def open_group(self, store: Hummock, group: str) -> PostgresGroup:
        """Return what feeds the tables of a slot."""
        return PostgresGroup(store, group)

    def open_source(self, store: Hummock, relation: Relation) -> PostgresSource:
        """Return the source of a table."""
        return PostgresSource(store, relation)

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say which server answers, that the table can be followed, and where the source goes on."""
        settings = read_settings(relation)
        with PostgresServer(settings) as server:
            ((version,),) = server.query("SELECT pg_catalog.current_setting('server_version')")
            yield f"{settings.address} answers, version {version}, as the role {settings.username}"
            columns = {column.storage_name: column.name for column in relation.columns}
            key = tuple(columns.get(name, name) for name in relation.primary_key)
            following = FollowingTable(relation.name, relation.visible_columns, key)
            problem = find_problem(server, following)
            there = read_table(server)
            if problem is not None or there is None:
                why = "its table is gone" if problem is None else f"{problem.message}: {problem.hint}"
                raise SourceError(f"table {relation.name}: {why}")
            ((rows,),) = server.query(
                "SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = %s::oid", there.oid
            )
            about = f", which has about {rows:,} rows" if rows >= 0 else ""
            yield f"{settings.path}{about}, can be read, and the publication {settings.publication} tells its changes"
            yield _describe_resuming(server, store, relation)


def _describe_resuming(server: PostgresServer, store: Hummock, relation: Relation) -> str:
    slot, name = server.read_slot(), server.settings.slot
    table = store.version.tables.get(relation.name)
    offset = None
    if table is not None:
        group = PostgresGroup(store, find_group(relation))
        members = {member.name: member.offset for member in group.list_members(store.version)}
        offset = members.get(relation.name)
    if offset is None:
        makes = "" if slot is not None else f", and make the slot {name}"
        return f"it would begin with a snapshot{makes}"
    position = decode_offset(offset.text).position
    if slot is None or slot.is_lost:
        raise SourceError(
            f"table {relation.name}: the slot {name} is {'gone' if slot is None else 'lost'}: ALTER TABLE "
            f"{relation.name} RESYNC makes "
            "it again, and writes the difference"
        )
    held = f"the slot {name} holds back {slot.held_bytes:,} bytes of log"
    return f"it goes on after {format_lsn(position.lsn)}; {held}"


def _validate_clauses(statement: CreateTable) -> StatementProblem | None:
    if not statement.primary_key:
        message = (
            f"the connector {CONNECTOR} needs a PRIMARY KEY, by which updates and deletions find their rows"
        )
        return StatementProblem("", message, "write PRIMARY KEY (…) in the list of columns")
    if statement.append_only or statement.watermark is not None:
        what = "is APPEND ONLY" if statement.append_only else "has a WATERMARK"
        message = f"{statement.name} {what}, but rows of a table of PostgreSQL are changed and deleted"
        return StatementProblem("", message, "leave it out, and filter by time in a view")
    if statement.on_conflict not in ("", "overwrite") or statement.version_columns:
        message = "rows of PostgreSQL overwrite those of the same key"
        return StatementProblem("", message, "leave ON CONFLICT out, or write OVERWRITE")
    for column in statement.columns:
        if column.generated is not None or column.default is not None:
            what = "is generated" if column.generated is not None else "has a DEFAULT"
            message = f"column {column.name} {what}, but PostgreSQL gives each column its values"
            return StatementProblem("", message, "compute it in a view over the table")
    return None


def _locate(statement: CreateTable, name: str) -> int:
    """Return where an option, or else a column, stands in the statement."""
    if name in statement.places:
        return statement.places[name]
    listed = max(statement.sql.find("("), 0)
    pattern = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)
    found = pattern.search(mask_literals(statement.sql), listed) if name else None
    return found.start() if found else statement.places.get("connector", listed)
