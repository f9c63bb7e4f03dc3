"""All sources of a store together: what an epoch run polls, and what the sensor finds pending."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.connectors.contract.connector import (
    PendingSplit,
    Source,
    SourceReport,
    Spark,
    get_connector_name,
    no_spark,
)
from engine.connectors.registry import CONNECTORS
from engine.errors import TidelineError
from engine.hummock import Hummock
from engine.hummock.monitoring.driver_traffic import track_traffic
from engine.meta.status.relation_status import SOURCE_PAUSED
from engine.sql.catalog import Catalog, Relation

_LOG = logging.getLogger(__name__)


def list_fed_tables(catalog: Catalog, tables: Collection[str] | None = None) -> tuple[Relation, ...]:
    """Return the tables of the catalog (or among `tables`) that a connector feeds."""
    return tuple(
        relation
        for relation in catalog.relations.values()
        if get_connector_name(relation) and (tables is None or relation.name in tables)
    )


def open_source(store: Hummock, relation: Relation) -> Source:
    """Return the source of a table that a connector feeds."""
    return CONNECTORS.find(get_connector_name(relation)).open_source(store, relation)


def poll_all(
    catalog: Catalog,
    store: Hummock,
    tables: Collection[str] | None = None,
    spark: Spark = no_spark,
) -> list[SourceReport]:
    """Poll every source of the catalog (or of `tables`); one that fails has its error in its report, the others go on.

    `spark` is asked for a session only where a source that is read by Spark has something to read. A branch follows no source.
    """
    if store.is_branch:
        return [SourceReport(fed.name, warnings=(SOURCE_PAUSED,)) for fed in list_fed_tables(catalog, tables)]
    reports: list[SourceReport] = []
    for fed in _list_units(catalog, tables):
        with track_traffic(store.counters, f"source {', '.join(fed.tables)}") as traffic:
            polled = _poll_unit(store, fed, spark)
        if polled:
            polled[0] = replace(polled[0], driver_bytes=traffic.bytes)
        reports += polled
    return reports


class _FedUnit(NamedTuple):
    """Tables that are polled as one: those of a `group`, or one alone."""

    connector: str
    group: str
    relations: tuple[Relation, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(relation.name for relation in self.relations)


def _list_units(catalog: Catalog, tables: Collection[str] | None) -> Iterator[_FedUnit]:
    """Yield what is polled; of a group all tables come, whichever of them were asked for."""
    groups: dict[tuple[str, str], list[Relation]] = {}
    for relation in list_fed_tables(catalog):
        name = get_connector_name(relation)
        offered = CONNECTORS.list_plugins().get(name)
        group = "" if offered is None else offered.find_group(relation)
        groups.setdefault((name, group or f"\0{relation.name}"), []).append(relation)
    for (name, group), members in groups.items():
        if tables is None or any(relation.name in tables for relation in members):
            yield _FedUnit(name, "" if group.startswith("\0") else group, tuple(members))


def _poll_unit(store: Hummock, fed: _FedUnit, spark: Spark) -> list[SourceReport]:
    try:
        if fed.group:
            return list(CONNECTORS.find(fed.connector).open_group(store, fed.group).poll(spark))
        return [open_source(store, relation).poll(spark) for relation in fed.relations]
    except TidelineError as error:
        return [SourceReport(name, error=str(error)) for name in fed.tables]
    except Exception as error:  # a table's fault stops no other table, even one that nobody expected
        _LOG.exception("polling the source of %s", ", ".join(fed.tables))
        return [SourceReport(name, error=f"{type(error).__name__}: {error}") for name in fed.tables]


def _list_pending_of(store: Hummock, fed: _FedUnit) -> Sequence[PendingSplit]:
    if fed.group:
        return CONNECTORS.find(fed.connector).open_group(store, fed.group).list_pending()
    return [split for relation in fed.relations for split in open_source(store, relation).list_pending()]


def compute_pending_digest(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None = None
) -> tuple[int, str]:
    """Return how many files and other splits are pending, and a digest of it that lasts until something is taken.

    A source that cannot be looked at has nothing pending, and none of a branch has.
    """
    if store.is_branch:
        return 0, ""
    count, digest = 0, hashlib.sha256()
    for fed in _list_units(catalog, tables):
        try:
            waiting = _list_pending_of(store, fed)
        except (TidelineError, OSError):
            continue  # the poll of an epoch run tells it
        for split in waiting:
            count += 1
            digest.update(f"{fed.tables[0]}\0{split.split}\0{split.token}\n".encode())
    return count, digest.hexdigest()[:16] if count else ""
