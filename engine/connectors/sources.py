"""All sources of a store together: what an epoch run polls, and what the sensor finds pending."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from dataclasses import replace

from engine.connectors.contract.connector import Source, SourceReport, Spark, get_connector_name, no_spark
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
    reports = []
    for relation in list_fed_tables(catalog, tables):
        with track_traffic(store.counters, f"source {relation.name}") as traffic:
            report = _poll_source(store, relation, spark)
        reports.append(replace(report, driver_bytes=traffic.bytes))
    return reports


def _poll_source(store: Hummock, relation: Relation, spark: Spark) -> SourceReport:
    try:
        return open_source(store, relation).poll(spark)
    except TidelineError as error:
        return SourceReport(relation.name, error=str(error))
    except Exception as error:  # a table's fault stops no other table, even one that nobody expected
        _LOG.exception("polling the source of %s", relation.name)
        return SourceReport(relation.name, error=f"{type(error).__name__}: {error}")


def compute_pending_digest(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None = None
) -> tuple[int, str]:
    """Return how many files and other splits are pending, and a digest of it that lasts until something is taken.

    A source that cannot be looked at has nothing pending, and none of a branch has.
    """
    if store.is_branch:
        return 0, ""
    count, digest = 0, hashlib.sha256()
    for relation in list_fed_tables(catalog, tables):
        try:
            waiting = open_source(store, relation).list_pending()
        except (TidelineError, OSError):
            continue  # the poll of an epoch run tells it
        for split in waiting:
            count += 1
            digest.update(f"{relation.name}\0{split.split}\0{split.token}\n".encode())
    return count, digest.hexdigest()[:16] if count else ""
