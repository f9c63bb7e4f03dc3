"""Whether a source can be connected to, read and resumed, in words, before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pyspark.sql import SparkSession

from engine.connectors import delta, landing, nexmark
from engine.connectors.delta import DeltaSource
from engine.connectors.delta_log import DeltaLog, delta_place
from engine.connectors.delta_offsets import Offset, offset_of
from engine.connectors.delta_read import reading, snapshot_of, taken_columns
from engine.connectors.delta_steps import next_step
from engine.connectors.file_formats import FileOptions
from engine.connectors.landing_folder import is_read, landing_path, look_at, unreadable
from engine.connectors.landing_options import wrong_option
from engine.connectors.landing_tables import all_taken, source_options
from engine.connectors.nexmark import NexmarkSource
from engine.errors import SourceError, TidelineError
from engine.hummock import Hummock
from engine.sql.catalog import Catalog, Relation

SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Variables of the environment whose values are never shown."""
Spark = Callable[[], SparkSession]


class Finding(NamedTuple):
    """What was asked of a source, whether it can, and in words what was found or what is wrong."""

    asked: str
    works: bool
    words: str


def sources_of(catalog: Catalog) -> tuple[Relation, ...]:
    """Return the tables that a connector feeds."""
    return tuple(r for r in catalog.relations.values() if r.kind == "table" and connector_of(r))


def connector_of(relation: Relation) -> str:
    """Return the connector of a table, "" if it has none."""
    return source_options(relation.options).get("connector", "")


def try_source(store: Hummock, relation: Relation, spark: Spark) -> list[Finding]:
    """Ask whether a source can be connected to, read and resumed; what fails ends it. Nothing is written.

    The table need not exist: then it is said where the source would begin.
    """
    tried = {landing.CONNECTOR: _landing, nexmark.CONNECTOR: _nexmark, delta.CONNECTOR: _delta}
    found: list[Finding] = []
    left = ["connect", "read", "resume"]
    try:
        for words in tried[connector_of(relation)](store, relation, spark):
            found.append(Finding(left.pop(0), True, words))
    except (TidelineError, OSError) as error:
        found.append(Finding(left.pop(0), False, str(error)))
    return found


def _landing(store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
    options = source_options(relation.options)
    wrong = wrong_option(options)
    if wrong is not None:
        raise SourceError(f"{wrong.message}: {wrong.hint}")
    folder = landing_path(options["path"])
    kinds = FileOptions(options.get("format"), ("",), options.get("delimiter", ","))
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if is_read(entry.name, kinds))
    except OSError as error:
        raise unreadable(relation.name, folder, error) from error
    yield f"the folder {folder} can be listed"
    for name in names:
        found = look_at(folder, name)
        if found is not None and found.fault is not None:
            raise SourceError(f"{name}: {found.fault}")
        with open(folder / name, "rb") as file:
            file.read(1)
    yield f"{len(names)} files in it can be opened"
    table = store.version.tables.get(relation.name)
    if table is None:
        yield "it would begin with the first file"
    else:
        taken = all_taken(store, relation.name, table.table_id).num_rows
        yield f"{taken} files are taken and known again"


def _nexmark(store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
    source = NexmarkSource(store, relation)
    yield "rows are made by a generator in this process"
    yield f"its {source.kind}s have the columns of the table"
    if relation.name in store.version.tables:
        yield f"it goes on with event {source.pending()[0]}"
    else:
        yield "it would begin with event 0"


def _delta(store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
    place = delta_place(source_options(relation.options).get("path", ""))
    log = DeltaLog(place)
    newest = log.newest()
    metadata = log.metadata(newest)
    keys = f"; {_secrets()}" if place.is_remote else ""
    yield f"the Delta table at {place.shown} is at version {newest}{keys}"
    columns = taken_columns(relation, metadata, place)
    with reading(spark, relation.name, place) as session:
        snapshot_of(session, relation, newest, place, columns).limit(1).collect()
    feed = "with its change data feed" if metadata.has_feed else delta.NO_FEED
    yield f"version {newest} can be read, {feed}"
    table = store.version.tables.get(relation.name)
    offset = None if table is None else offset_of(store, store.version, table)
    yield _resumes(store, relation, log, newest, offset)


def _resumes(store: Hummock, relation: Relation, log: DeltaLog, newest: int, offset: Offset | None) -> str:
    if offset is None:
        return f"it would begin with the snapshot at version {newest}"
    next_step(log, relation.name, offset.at)
    source = DeltaSource(store, relation)
    behind = "nothing is pending" if source.pending() is None else f"{newest - offset.at.version} are pending"
    return f"it goes on after version {offset.at.version}, {behind}"


def _secrets() -> str:
    told = (f"{name} is {'set' if os.environ.get(name) else 'not set'}" for name in SECRETS)
    return ", ".join(told)
