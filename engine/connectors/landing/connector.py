"""The connector of landing folders: its options, and the trial of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from engine.connectors.contract.connector import Connector, Spark, StatementProblem, source_options
from engine.connectors.contract.discovery import FoundTable
from engine.connectors.formats.file_format import FileOptions
from engine.connectors.landing.bucket import LandingBucket, build_found_file
from engine.connectors.landing.discovery import discover_tables
from engine.connectors.landing.folder import build_unreadable_error, look_at
from engine.connectors.landing.options import (
    CONNECTOR,
    OPTIONS,
    build_file_options,
    parse_landing_place,
    validate_options,
)
from engine.connectors.landing.place import is_readable_name, is_readable_path
from engine.connectors.landing.sequences import build_sequence_relation, validate_sequence
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import read_file_records
from engine.errors import SourceError
from engine.hummock import Hummock
from engine.sql.catalog import Relation
from engine.sql.statements.statement_types import CreateTable

_LISTED = 1_000
"""So many names a trial lists: one request."""


class LandingConnector(Connector):
    """Files of a folder, whose splits are the files."""

    name = CONNECTOR
    options = OPTIONS
    statement = "CREATE TABLE t (…) WITH (connector = 'landing', path = 'folder')"
    page = "landing.md"
    schemes = ("file", "s3", "s3a")

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return the first option that can't be used."""
        options = {name: value for name, value in statement.options.items() if name in OPTIONS}
        return validate_options(options) or validate_sequence(statement)

    def check_reading(self, statement: CreateTable, spark: Spark) -> None:
        """Refuse a folder or a bucket that cannot be listed."""
        place = parse_landing_place(statement.options["path"])
        if isinstance(place, LandingBucket):
            next(iter(place.list_objects()), None)
            return
        try:
            os.scandir(place.folder).close()
        except OSError as error:
            raise build_unreadable_error(statement.name, place.folder, error) from error

    def build_companion(self, relation: Relation) -> Relation | None:
        """Return the table of the sequences that a table has taken."""
        return build_sequence_relation(relation)

    def discover_tables(self, place: str, options: Mapping[str, str]) -> Iterator[FoundTable]:
        """Return what the files of a folder, or of those in it, could be landed as."""
        return discover_tables(place, options)

    def open_source(self, store: Hummock, relation: Relation) -> LandingSource:
        """Return the source of a table."""
        return LandingSource.of_relation(store, relation)

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say that the place can be listed, that its files can be opened, and how many are taken."""
        options = source_options(relation)
        wrong = validate_options(options)
        if wrong is not None:
            raise SourceError(f"{wrong.message}: {wrong.hint}")
        place = parse_landing_place(options["path"])
        kinds = build_file_options(options)
        if isinstance(place, LandingBucket):
            yield from _try_bucket(place, kinds)
        else:
            yield from _try_folder(relation.name, place.folder, kinds)
        table = store.version.tables.get(relation.name)
        if table is None:
            yield "it would begin with the first file"
        else:
            recorded = read_file_records(store, relation.name, table.table_id).num_rows
            yield f"{recorded} files are taken and known again"


def _try_folder(table: str, folder: Path, kinds: FileOptions) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if is_readable_name(entry.name, kinds))
    except OSError as error:
        raise build_unreadable_error(table, folder, error) from error
    yield f"the folder {folder} can be listed"
    for name in names:
        found = look_at(folder, name)
        if found is not None and found.fault is not None:
            raise SourceError(f"{name}: {found.fault}")
        with open(folder / name, "rb") as file:
            file.read(1)
    yield f"{len(names)} files in it can be opened"


def _try_bucket(place: LandingBucket, kinds: FileOptions) -> Iterator[str]:
    listed = list(islice(place.list_objects(), _LISTED))
    if not listed:
        raise SourceError(
            f"the bucket {place.bucket} is there, but no object lies below {place.display_name}: correct "
            f"the prefix, or land a file"
        )
    yield f"{place.display_name} can be listed"
    files = [
        file
        for file in map(build_found_file, listed)
        if file is not None and is_readable_path(file.path, kinds)
    ]
    for file in files[:1]:
        with place.open(file.path, 1, handed_on=False) as opened:
            opened.read(1)
    count = (
        f"{len(files)} files" if len(listed) < _LISTED else f"{len(files)} files among the first {_LISTED:,}"
    )
    yield f"{count} in it can be read{', the first one was' if files else ''}"
