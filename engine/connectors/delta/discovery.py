"""Delta tables that could be followed: the one at a place, or those in the folders of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from engine.connectors.contract.discovery import (
    FoundColumn,
    FoundTable,
    guess_key,
    keep_columns,
    to_table_name,
)
from engine.connectors.delta.log import LOG, DeltaLog, parse_delta_place
from engine.connectors.delta.source import CONNECTOR
from engine.connectors.delta.types import parse_schema
from engine.connectors.delta.ways import describe_way
from engine.errors import SourceError

DEPTH = 3
"""So many folders deep tables are looked for."""


def discover_tables(place: str, given: Mapping[str, str]) -> Iterator[FoundTable]:
    """Yield the Delta tables of a place: itself, or the folders in it; of a bucket only the table at the address."""
    for path in _list_tables(place):
        if given:
            raise SourceError(
                f"option {next(iter(given))} is of no Delta table, such as {path}: leave it out, or name a folder without any"
            )
        yield _describe(path)


def is_table(place: str) -> bool:
    """Tell whether a Delta table is at a place."""
    found = parse_delta_place(place)
    if not found.is_remote:
        return (found.folder / LOG).is_dir()
    return next(iter(found.open_store().list(LOG)), None) is not None


def _list_tables(place: str) -> Iterator[str]:
    if is_table(place):
        yield place
        return
    found = parse_delta_place(place)
    if not found.is_remote:
        for folder in _list_folders(found.folder, DEPTH):
            yield os.path.join(place, folder.relative_to(found.folder))


def _list_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders below one that hold a Delta table."""
    try:
        inner = sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
    except (FileNotFoundError, NotADirectoryError):  # who looks for files says so
        return
    except OSError as error:
        raise SourceError(f"the folder {folder} can't be read: {error.strerror}") from error
    for one in inner:
        if (one / LOG).is_dir():
            yield one
        elif depth > 1 and not one.name.startswith(("_", ".")):
            yield from _list_folders(one, depth - 1)


def _describe(path: str) -> FoundTable:
    options = {"connector": CONNECTOR, "path": path}
    name = to_table_name(Path(path.rstrip("/")).name)
    log = DeltaLog(parse_delta_place(path))
    try:
        version = log.find_newest_version()
        metadata = log.read_metadata(version)
    except SourceError as error:
        return FoundTable(name, path, (), (), options, (str(error),))
    there = parse_schema(metadata.schema_string)
    columns, notes = keep_columns(
        FoundColumn(one.name, one.type, one.delta_type) for one in there if one.type is not None
    )
    odd = [f"{one.name} is {one.delta_type}" for one in there if one.type is None]
    if odd:
        notes = (*notes, f"left out, as their types are not offered: {', '.join(odd)}")
    way = describe_way(metadata, keyless=False)
    table = FoundTable(name, path, columns, (), options)
    return guess_key(replace(table, notes=(f"at version {version}", *((way,) if way else ()), *notes)))
