"""The rows of sources, which the store does not keep: read where they are, or loaded for a view that begins with them.

A view that is computed as a whole loads the rows as they were at the epoch that it begins at, as files that nobody sees as a
table of theirs; a pin in the name of the view's domain holds them until it has its content. Afterwards it lives on changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.errors import Conflict, SourceError, UnknownTable
from engine.hummock import Commit, Hummock, Reader, Version
from engine.hummock.in_flight_store import SPOOL
from engine.hummock.manifests.pass_through import build_load
from engine.hummock.manifests.preconditions import require_same_tables
from engine.hummock.version import Run
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import Domain, find_domain_name, format_holder, parse_holder
from engine.runtime.executor import Executor
from engine.sql.catalog import Relation

Spark = Callable[[], SparkSession]


class SourceReader(Protocol):
    """Reads sources where they are, at the offsets at which they stood at an epoch of a version."""

    def rows(
        self, session: SparkSession, store: Hummock, relation: Relation, version: Version, epoch: int
    ) -> pa.Table | DataFrame:
        """Return a source's rows with all columns of its key; raises SourceError where they cannot be read any more."""
        ...

    def runs(
        self, spark: Spark, store: Hummock, relation: Relation, version: Version, epoch: int
    ) -> tuple[Run, ...]:
        """Write a source's rows as files, and return them newest first; raises SourceError as `rows` does."""
        ...


_offered: list[SourceReader] = []


def register_source_reader(reader: SourceReader) -> None:
    """Let a reader answer for all sources of this process."""
    _offered[:] = [reader]


def get_source_reader() -> SourceReader:
    """Return who reads sources; raises SourceError in a process that has loaded no connectors."""
    if not _offered:
        raise SourceError(
            "this process has no connectors, by which the rows of sources are read: use a Session"
        )
    return _offered[0]


def open_direct_reader(store: Hummock) -> Reader:
    """Return a reader whose files are in the store as soon as they are written, and not left for a later upload."""
    return Reader.open(store.url, build_direct_options(store))


def build_direct_options(store: Hummock) -> dict[str, object]:
    """Return the options of such a reader, for tasks."""
    return {name: value for name, value in store.options.items() if name != SPOOL}


def list_sources(stored: StoredCatalog, names: Collection[str]) -> tuple[Relation, ...]:
    """Return those of some relations that are sources."""
    found = (stored.catalog.relations.get(name) for name in names)
    return tuple(relation for relation in found if relation is not None and relation.is_pass_through)


def hold_sources(
    store: Hummock,
    executor: Executor,
    stored: StoredCatalog,
    domain: Domain,
    names: Collection[str],
    epoch: int,
) -> None:
    """Have the rows of those of some tables that are sources in the store, as they were at an epoch, until `release_sources`.

    Raises Conflict if another process has gone on with one of them at the same time, SourceError where one cannot be read.
    """
    pin = format_holder(domain.name)
    for relation in list_sources(stored, names):
        version = store.version
        name, table = relation.name, version.tables[relation.name]
        if epoch < table.safe_epoch:
            raise Conflict(f"{name} has advanced in the meantime")
        if not table.has_rows_at(epoch):
            upto = min(epoch, table.committed_epoch)
            if table.generations[-1].upto > upto:
                raise Conflict(f"{name} was loaded, or has gone on, at the same time")
            done = build_load(table, upto, executor.load(relation, version, epoch))
            store.commit(
                Commit(
                    compactions={name: done},
                    pins={name: {pin: upto}},
                    precondition=require_same_tables({name: table}),
                )
            )
        elif pin not in table.pins:
            at = max(one.upto for one in table.generations if one.upto <= epoch)

            def check_held(now: Version, name: str = name) -> None:
                if name not in now.tables or not now.tables[name].has_rows_at(epoch):
                    raise Conflict(f"the rows of {name} were released at the same time")

            store.commit(Commit(pins={name: {pin: at}}, precondition=check_held))


def merge_held(version: Version, newest: Version, names: Collection[str]) -> Version:
    """Return a version with tables as they are in a newer one."""
    return replace(version, tables={**version.tables, **{name: newest.tables[name] for name in names}})


def release_sources(store: Hummock, stored: StoredCatalog, domain: Domain) -> None:
    """Let go of the rows of sources that were loaded for a domain, once all of it has content; a later run does, if not this.

    Those that were loaded for a domain that is no more, or has another name by now, go as well.
    """
    version = store.version
    now = load_catalog(version)
    whole = all(find_computed_table(version, table) is not None for table in domain.tables)
    pins: dict[str, dict[str, int | None]] = {}
    for relation in list_sources(stored, domain.inputs):
        found = [(pin, parse_holder(pin)) for pin in _list_pins(version, relation.name)]
        known = {find_domain_name(now, owner) for owner in now.plans} if found else set()
        over = [pin for pin, name in found if name and (whole if name == domain.name else name not in known)]
        if over:
            pins[relation.name] = dict.fromkeys(over)
    if not pins:
        return
    tables = {name: version.tables[name] for name in pins}
    upto = {name: table.committed_epoch for name, table in tables.items()}
    with suppress(Conflict, UnknownTable):  # a source was dropped at this moment
        store.commit(Commit(pins=pins, truncate=upto, precondition=require_same_tables(tables)))


def _list_pins(version: Version, name: str) -> Collection[str]:
    table = version.tables.get(name)
    return () if table is None else table.pins
