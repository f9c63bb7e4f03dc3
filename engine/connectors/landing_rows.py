"""Rows of a landing file against one table: typed, in order, and the rows that do not fit set aside with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_values, either, nulls, repeated
from engine.connectors.file_formats import BadLine, FileRows, MalformedFile
from engine.connectors.partition_folders import FolderValue, typed_values, unlike
from engine.hummock.ordering import one_chunk
from engine.sql.catalog import Column
from engine.sql.typing.conversions import convert, shown_value
from engine.sql.typing.documents import is_document, kept_documents
from engine.sql.typing.text_lengths import fitted, too_long

OPERATION = "_op"
ROW_ID = "_row_id"
UPSERT_WORDS = frozenset({"insert", "upsert", "update", "i", "u", "c", "+i", "+u"})
DELETE_WORDS = frozenset({"delete", "d", "-d"})
LONGEST_SHOWN_VALUE = 60
MOST_UNKNOWN = 20


@dataclass(frozen=True)
class Target:
    """The table that rows land in; `required` are its columns that may not be null, the key's among them.

    `defaults` are the values of columns that a file lacks, `limited` the columns whose texts have a length, or are json or jsonb.
    """

    name: str
    schema: pa.Schema
    primary_key: tuple[str, ...]
    required: frozenset[str]
    append_only: bool = False
    defaults: Mapping[str, pa.Scalar[Any]] = field(default_factory=dict)
    limited: Mapping[str, Column] = field(default_factory=dict)


@dataclass(frozen=True)
class LandedRows:
    """Rows of a file in the table's types, in the file's order; `deletes` says which rows remove their key.

    `unknown` are the file's columns, and fields of structs, that the table lacks. `place` gives line and text of the rows that
    `lines` names; it is kept only where rows may have to be set aside later, for an APPEND ONLY table.
    """

    rows: pa.Table
    deletes: np.ndarray
    lines: np.ndarray
    bad: tuple[BadLine, ...]
    unknown: tuple[str, ...]
    place: Callable[[int], tuple[int, str]] | None = None


def land(file: FileRows, target: Target) -> LandedRows:
    """Type some rows of a file; raises MalformedFile if it lacks a column of the key, or has none of the table's."""
    matched = _matched_columns(file, target, _given_by_folders(file, target))
    reasons: dict[int, str] = {}
    _check_common(file, target, matched, reasons)
    unknown: list[str] = []
    deletes = _operations(file, target, reasons)
    arrays = []
    for column in target.schema:
        arrays.append(_column(file, matched, column, target, deletes, reasons, unknown))
    rows = pa.Table.from_arrays(arrays, names=target.schema.names)
    bad = list(file.bad)
    for index in sorted(reasons):
        line, raw = file.place(index)
        bad.append(BadLine(line, reasons[index], raw))
    keep = np.ones(file.rows, dtype=bool)
    keep[list(reasons)] = False
    lines = np.arange(file.rows)
    if reasons:
        rows, deletes, lines = rows.filter(pa.array(keep)), deletes[keep], lines[keep]
    left_out = (*_unknown_columns(file, matched), *unknown)[:MOST_UNKNOWN]
    return LandedRows(rows, deletes, lines, tuple(bad), left_out, file.place if target.append_only else None)


class _Matched(NamedTuple):
    """Where the values of the table's columns are: the file's columns, and what the names of its folders give."""

    found: Mapping[str, str]
    given: Mapping[str, FolderValue]


def _given_by_folders(file: FileRows, target: Target) -> dict[str, FolderValue]:
    if any(name.lower() == OPERATION for name in file.folders):
        raise MalformedFile(f"a folder's name gives {OPERATION}: an operation stands in the rows of a file")
    return typed_values(file.folders, (column for column in target.schema if column.name != ROW_ID))


def _check_common(file: FileRows, target: Target, matched: _Matched, reasons: dict[int, str]) -> None:
    """Raise MalformedFile for a file that has no column of the table, and give a reason for a row that has none: it would be
    a row of nulls.
    """
    columns = [name for name in target.schema.names if name != ROW_ID]
    if matched.given.keys() >= set(columns):
        return
    told = f"has no column of {target.name}, which has {', '.join(columns[:40])}"
    if not matched.found and not file.by_row and (file.rows or not file.bad):
        raise MalformedFile(f"the file {told}; it has {', '.join(file.names[:40]) or 'none'}")
    for index in () if file.foreign is None else file.foreign.tolist():
        reasons[index] = f"the row {told}"


def _matched_columns(file: FileRows, target: Target, given: Mapping[str, FolderValue]) -> _Matched:
    """Return the file's column of each table column: the same name, else the same but for case."""
    lower = _same_but_for_case(file)
    found = {}
    for name in target.schema.names:
        if name == ROW_ID:
            continue
        match = name if name in file.columns else lower.get(name.lower())
        if match is not None:
            found[name] = match
    there = found.keys() | given.keys() | {ROW_ID}
    missing = [name for name in target.primary_key if name not in there]
    if missing and not file.by_row and (file.rows or not file.bad):
        raise MalformedFile(
            f"the file has no column {', '.join(missing)}, the key of {target.name}; "
            f"it has {', '.join(file.names[:40]) or 'none'}"
        )
    return _Matched(found, given)


def _same_but_for_case(file: FileRows) -> dict[str, str]:
    """Return the file's columns by their names in lower case; of several the first one."""
    lower: dict[str, str] = {}
    for name in file.columns:
        lower.setdefault(name.lower(), name)
    return lower


def _unknown_columns(file: FileRows, matched: _Matched) -> tuple[str, ...]:
    known = set(matched.found.values())
    folders = {one.name for one in matched.given.values()}
    unknown = [f"{name} (of a folder)" for name in file.folders if name not in folders]
    unknown += [name for name in file.names if name and name not in known and name.lower() != OPERATION]
    return tuple(unknown)[:MOST_UNKNOWN]


def _operations(file: FileRows, target: Target, reasons: dict[int, str]) -> np.ndarray:
    """Return which rows are deletes; an operation that nobody knows is a reason."""
    deletes = np.zeros(file.rows, dtype=bool)
    name = OPERATION if OPERATION in file.columns else _same_but_for_case(file).get(OPERATION)
    if name is None:
        return deletes
    words = convert(file.columns[name], pa.string()).values
    encoded = pc.utf8_lower(pc.utf8_trim_whitespace(words)).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, word in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        if word in DELETE_WORDS and ROW_ID in target.primary_key:
            told = f"table {target.name} has no PRIMARY KEY: which row to delete is not to be told"
            reasons.update(dict.fromkeys(rows.tolist(), told))
        elif word in DELETE_WORDS and not target.append_only:
            deletes[rows] = True
        elif word in DELETE_WORDS:
            reasons.update(
                dict.fromkeys(rows.tolist(), f"table {target.name} is APPEND ONLY: no row is deleted")
            )
        elif word and word not in UPSERT_WORDS:
            told = f'column {OPERATION}: "{word[:LONGEST_SHOWN_VALUE]}" is none of insert, upsert, update, delete'
            reasons.update(dict.fromkeys(rows.tolist(), told))
    return deletes


def _column(
    file: FileRows,
    matched: _Matched,
    column: pa.Field[Any],
    target: Target,
    deletes: np.ndarray,
    reasons: dict[int, str],
    unknown: list[str],
) -> pa.Array[Any]:
    """Return one typed column; a delete needs nothing but a valid key. Fields that its type lacks are noted as `unknown`."""
    name = column.name
    source, folder = matched.found.get(name), matched.given.get(name)
    in_key = name in target.primary_key
    if source is None:
        if name == ROW_ID:
            return nulls(file.rows, column.type)  # they get their ids when they are committed
        if folder is not None:
            values = repeated(folder.value, file.rows)
        elif name in target.defaults:
            return repeated(target.defaults[name], file.rows)
        else:
            values = nulls(file.rows, column.type)
    else:
        converted = convert(file.columns[source], column.type, calendar=True)
        values = converted.values
        unknown += [f"{source}.{field}" for field in converted.unknown]
        fill = target.defaults.get(name) if folder is None else folder.value
        if fill is not None and len(absent := file.absent.get(source, ())):
            lacks = np.zeros(file.rows, dtype=bool)
            lacks[absent] = True
            values = either(pa.array(lacks, pa.bool_()), fill, values)
        for index, fault in sorted(converted.faults.items()):
            if in_key or not deletes[index]:
                reasons.setdefault(index, fault.told(name))
        for index, why in () if folder is None else _unlike_folder(file, source, values, folder):
            if in_key or not deletes[index]:
                reasons.setdefault(index, f"column {name}: {why}")
    limited = target.limited.get(name)
    if limited is not None and is_document(limited):
        values, wrong = kept_documents(values, limited)
        for index, why in wrong.items():
            if in_key or not deletes[index]:
                reasons.setdefault(index, f"column {name} is {limited.sql_type}: {why}")
    elif limited is not None:
        given = values
        found = fitted(given, limited)
        values = one_chunk(found.kept)
        for index in as_values(found.places):
            if in_key or not deletes[index]:
                long = too_long(given[index].as_py(), limited)
                reasons.setdefault(index, f"column {name}: {long}")
    if name in target.required and values.null_count:
        why = "the key has no value" if in_key else "NOT NULL, but there is no value"
        empty = np.flatnonzero(pc.is_null(values).to_numpy(zero_copy_only=False))
        for index in empty.tolist():
            if in_key or not deletes[index]:
                reasons.setdefault(index, f"column {name}: {why}")
    return values


def _unlike_folder(
    file: FileRows, source: str, values: pa.Array[Any], folder: FolderValue
) -> Iterator[tuple[int, str]]:
    """Yield the rows whose value is not the one that a folder's name gives, and why they are set aside."""
    said = f"{folder.name}={file.folders[folder.name]}"
    for index in unlike(values, folder.value).tolist():
        yield index, f'"{shown_value(file.columns[source][index])}", but the folder says {said}'
