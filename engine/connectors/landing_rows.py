"""Rows of a landing file against one table: typed, in order, and the rows that do not fit set aside with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_values, either, nulls, repeated
from engine.connectors.file_formats import BadLine, FileRows, MalformedFile
from engine.hummock.ordering import one_chunk
from engine.sql.catalog import Column
from engine.sql.typing.converted import convert
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


@dataclass
class _Told:
    """What is said of rows of a file: why one is set aside, and which fields of structs its columns lack."""

    reasons: dict[int, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def land(file: FileRows, target: Target) -> LandedRows:
    """Type some rows of a file; raises MalformedFile if it lacks a column of the key."""
    found = _matched_columns(file, target)
    told = _Told()
    reasons = told.reasons
    deletes = _operations(file, target, reasons)
    arrays = []
    for column in target.schema:
        arrays.append(_column(file, found.get(column.name), column, target, deletes, told))
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
    left_out = (*_unknown_columns(file, found), *told.unknown)[:MOST_UNKNOWN]
    return LandedRows(rows, deletes, lines, tuple(bad), left_out, file.place if target.append_only else None)


def _matched_columns(file: FileRows, target: Target) -> dict[str, str]:
    """Return the file's column of each table column: the same name, else the same but for case."""
    lower = _same_but_for_case(file)
    found = {}
    for name in target.schema.names:
        if name == ROW_ID:
            continue
        match = name if name in file.columns else lower.get(name.lower())
        if match is not None:
            found[name] = match
    missing = [name for name in target.primary_key if name not in found and name != ROW_ID]
    if missing and not file.by_row and (file.rows or not file.bad):
        raise MalformedFile(
            f"the file has no column {', '.join(missing)}, the key of {target.name}; "
            f"it has {', '.join(file.names[:40]) or 'none'}"
        )
    return found


def _same_but_for_case(file: FileRows) -> dict[str, str]:
    """Return the file's columns by their names in lower case; of several the first one."""
    lower: dict[str, str] = {}
    for name in file.columns:
        lower.setdefault(name.lower(), name)
    return lower


def _unknown_columns(file: FileRows, found: Mapping[str, str]) -> tuple[str, ...]:
    known = set(found.values())
    unknown = (name for name in file.names if name and name not in known and name.lower() != OPERATION)
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
    source: str | None,
    column: pa.Field[Any],
    target: Target,
    deletes: np.ndarray,
    told: _Told,
) -> pa.Array[Any]:
    """Return one typed column; a delete needs nothing but a valid key."""
    reasons = told.reasons
    name = column.name
    in_key = name in target.primary_key
    if source is None:
        if name == ROW_ID:
            return nulls(file.rows, column.type)  # they get their ids when they are committed
        if name in target.defaults:
            return repeated(target.defaults[name], file.rows)
        values = nulls(file.rows, column.type)
    else:
        converted = convert(file.columns[source], column.type, calendar=True)
        values = converted.values
        told.unknown += [f"{source}.{part}" for part in converted.unknown]
        if name in target.defaults and len(absent := file.absent.get(source, ())):
            lacks = np.zeros(file.rows, dtype=bool)
            lacks[absent] = True
            values = either(pa.array(lacks, pa.bool_()), target.defaults[name], values)
        for index, fault in sorted(converted.faults.items()):
            if in_key or not deletes[index]:
                reasons.setdefault(index, fault.told(name))
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
