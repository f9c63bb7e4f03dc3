"""Folders of files that could be landed: columns and types by the beginning of the newest file of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from engine.connectors.contract.discovery import (
    HOW_TO_NAME_KEY,
    FoundColumn,
    FoundTable,
    keep_columns,
    to_found_columns,
    to_table_name,
)
from engine.connectors.formats.compression import open_decompressed
from engine.connectors.formats.file_format import FileOptions, MalformedFile, detect_codec, detect_format
from engine.connectors.formats.inference import find_delimiter, infer_csv_schema, infer_json_schema
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.bucket import LandingBucket, build_found_file
from engine.connectors.landing.options import (
    CONNECTOR,
    build_file_options,
    parse_landing_place,
    validate_options,
)
from engine.connectors.landing.partition_folders import parse_folder_values
from engine.connectors.landing.place import FoundFile, LandingPlace, is_readable_path
from engine.connectors.landing.rows import OPERATION
from engine.errors import SourceError

SAMPLE_BYTES = 4 << 20
"""So much of a file says what its columns are."""
MOST_FILES = 10_000
"""So many files of a place are looked at."""


class _Sample(NamedTuple):
    """What the beginning of a file shows: columns, and options by which it is read, besides its format."""

    columns: list[FoundColumn]
    options: dict[str, str]
    notes: tuple[str, ...] = ()


def discover_tables(place: str, given: Mapping[str, str]) -> Iterator[FoundTable]:
    """Yield what lies in a place: a table of its files, or else one of the files of each folder in it."""
    options = {"connector": CONNECTOR, "path": place, **given}
    wrong = validate_options(options)
    if wrong is not None:
        raise SourceError(f"{wrong.message}: {wrong.hint}")
    kinds = build_file_options(options)
    where = parse_landing_place(place)
    tables = dict[str, list[FoundFile]]()
    for file in _list_files(where):
        if is_readable_path(file.path, kinds):
            tables.setdefault(_find_table(file.path), []).append(file)
    if "" in tables:  # the files of inner folders land with those that lie beside the folders
        tables = {"": [file for files in tables.values() for file in files]}
    for folder, files in sorted(tables.items()):
        newest = max(files, key=lambda file: (file.mtime_ns, file.path))
        path = f"{place.rstrip('/')}/{folder}" if folder else place
        name = to_table_name(Path(path.rstrip("/")).name)
        yield _describe(where, newest, FoundTable(name, path, (), (), options | {"path": path}), len(files))


def _find_table(path: str) -> str:
    """Return the folder, below the place, whose files make a table: the first one, or "" for what lies in the place itself."""
    first, *rest = path.split("/")
    return first if rest and "=" not in first else ""


def _list_files(where: LandingPlace) -> Iterator[FoundFile]:
    if isinstance(where, LandingBucket):
        for at, info in enumerate(where.list_objects()):
            file = build_found_file(info)
            if file is not None:
                yield file
            if at + 1 >= MOST_FILES:
                return
        return
    folder, seen = Path(where.display_name), 0
    if not folder.is_dir():
        raise SourceError(f"there is no folder {folder}: create it, or correct its path")
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = where.look_at(os.path.relpath(os.path.join(base, name), folder))
            if file is not None and file.fault is None:
                yield file
                seen += 1
            if seen >= MOST_FILES:
                return


def _describe(where: LandingPlace, newest: FoundFile, table: FoundTable, files: int) -> FoundTable:
    kinds = build_file_options(table.options)
    form = detect_format(newest.path, kinds) or "csv"
    about = f"{files:,} files, the newest is {newest.path}"
    try:
        with where.open(newest.path, newest.size, handed_on=False) as file:
            sample = _READERS[form](file, newest, kinds)
        folders = [FoundColumn(name, "string", "folder") for name in parse_folder_values(newest.path)]
    except (MalformedFile, OSError, pa.ArrowException, ValueError) as error:
        return replace(table, needs=(f"{newest.path} can't be read: {error}",), notes=(about,))
    known = {column.name.lower() for column in sample.columns}
    listed = [one for one in sample.columns if one.name != OPERATION]
    columns, notes = keep_columns([*listed, *(one for one in folders if one.name.lower() not in known)])
    is_change = len(listed) < len(sample.columns) or "envelope" in sample.options
    need = f"its rows say what they do, to which row: {HOW_TO_NAME_KEY}" if is_change else ""
    note = "" if is_change else "every row is added; with a PRIMARY KEY rows replace those of their key"
    return replace(
        table,
        columns=columns,
        options=dict(table.options) | sample.options,
        notes=(about, *sample.notes, *notes),
        key_need=need,
        key_note=note,
    )


def _read_beginning(file: BinaryIO, found: FoundFile, kinds: FileOptions) -> bytes:
    """Return whole lines of the beginning of a text in UTF-8."""
    codec = detect_codec(found.path)
    opened = open_decompressed(file, codec, found.size, ReadLimits()) if codec else file
    data = opened.read(SAMPLE_BYTES + 1)
    is_whole = len(data) <= SAMPLE_BYTES
    text = data.decode(kinds.encoding or "utf-8-sig", "strict" if is_whole else "ignore")
    lines = text if is_whole else text[: text.rfind("\n") + 1]
    if text and not lines:
        raise MalformedFile(f"its first line is longer than the {SAMPLE_BYTES >> 20} MiB that are looked at")
    return lines.encode()


def _read_csv(file: BinaryIO, found: FoundFile, kinds: FileOptions) -> _Sample:
    data = _read_beginning(file, found, kinds)
    delimiter = kinds.adapt_to_file(found.path).delimiter
    options = dict[str, str]()
    if not delimiter:
        delimiter = find_delimiter(data)
        if delimiter != ",":
            options["delimiter"] = "\\t" if delimiter == "\t" else delimiter
    return _Sample(to_found_columns(infer_csv_schema(data, replace(kinds, delimiter=delimiter))), options)


def _read_json(file: BinaryIO, found: FoundFile, kinds: FileOptions) -> _Sample:
    data = _read_beginning(file, found, kinds)
    schema, is_debezium = infer_json_schema(data.splitlines())
    return _Sample(to_found_columns(schema), {"envelope": "debezium"} if is_debezium else {})


def _read_parquet(file: BinaryIO, found: FoundFile, kinds: FileOptions) -> _Sample:
    return _Sample(to_found_columns(pq.read_schema(file)), {})


_READERS = {"csv": _read_csv, "json": _read_json, "parquet": _read_parquet}
