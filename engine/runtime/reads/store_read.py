"""Queries that the store answers alone: constants, and small reads of one table. Loads nothing of Spark."""

from __future__ import annotations

import time

import pyarrow as pa
import sqlglot.expressions as exp

from engine.hummock import Hummock, TableVersion, Version
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.content import Content
from engine.meta.epochs.query_policy import choose_epochs, find_epochs_at
from engine.meta.epochs.ttl_reads import hide_expired_rows
from engine.runtime.reads.constants import evaluate_constants
from engine.runtime.reads.local_read import answer_locally
from engine.runtime.reads.time_travel import locate_moment_errors
from engine.sql.batch.ad_hoc import query_tables
from engine.sql.batch.point_read import PointRead, point_read
from engine.sql.dialect import Dialect


def answer_from_store(
    store: Hummock,
    stored: StoredCatalog,
    query: exp.Query,
    sql: str,
    dialect: Dialect,
    policy: str = "consistent",
) -> pa.Table | None:
    """Return the rows of a query, or None where Spark should compute it; unknown names are reported first, with their places."""
    constants = evaluate_constants(query, sql)
    if constants is not None:
        return constants
    with locate_moment_errors(sql):
        version = store.refresh()
        query_tables(query, stored.catalog, sql)
        point = point_read(query, stored.catalog, dialect, sql)
        if point is None:
            return None
        try:
            return _answer_point_read(store, version, stored, point, policy)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            return None  # a comparison of unlike types: Spark's rules decide


def _answer_point_read(
    store: Hummock, version: Version, stored: StoredCatalog, point: PointRead, policy: str
) -> pa.Table | None:
    if point.moment is not None:
        epoch = find_epochs_at({point.table: point.moment}, version, stored, time.time())[point.table]
    else:
        version = hide_expired_rows(version, (point.table,), store.clock())
        epoch = choose_epochs(version, stored, (point.table,), policy)[point.table]
    indexes = _list_indexes(version, stored, point.table, epoch) if point.predicates else ()
    return answer_locally(store, version.tables[point.table], point, epoch, indexes)


def _list_indexes(
    version: Version, stored: StoredCatalog, table: str, epoch: int
) -> tuple[TableVersion, ...]:
    """Return the indexes of a table that are known at `epoch`; none where its rows hide by themselves: theirs do not."""
    found = []
    if stored.catalog.relations[table].hides_rows:
        return ()
    for name, relation in stored.catalog.relations.items():
        own = relation.kind == "index" and not relation.sql and relation.depends_on == (table,)
        if own and name in version.tables:
            found.append(name)
    if not found:
        return ()
    content = Content(version, stored.inputs)
    reached = (name for name in found if content.has_content(name, epoch))
    return tuple(version.tables[name] for name in reached if version.tables[name].safe_epoch <= epoch)
