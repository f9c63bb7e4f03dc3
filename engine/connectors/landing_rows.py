"""Rows of a landing file against one table: typed, in order, and the rows that do not fit set aside with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_values, either, nulls, repeated
from engine.connectors.change_envelopes import OPERATION
from engine.connectors.conversion import convert
from engine.connectors.file_formats import BadLine, FileRows, MalformedFile
from engine.connectors.time_formats import in_iso
from engine.hummock.ordering import one_chunk
from engine.sql.catalog import Column
from engine.sql.typing.documents import is_document, kept_documents
from engine.sql.typing.text_lengths import fitted, too_long
from engine.sql.typing.types import to_arrow

ROW_ID = "_row_id"
UPSERT_WORDS = frozenset({"insert", "upsert", "update", "i", "u", "c", "+i", "+u"})
DELETE_WORDS = frozenset({"delete", "d", "-d"})
LONGEST_SHOWN_VALUE = 60
MOST_UNKNOWN = 20
NAMED_TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)


@dataclass(frozen=True)
class RowOptions:
    """How rows tell what they are: the column of their operation and its words, and how their dates and times are written.

    A column that is `named` has to be there, and to have a value.
    """

    operation: str = OPERATION
    named: bool = False
    upserts: frozenset[str] = UPSERT_WORDS
    deletes: frozenset[str] = DELETE_WORDS
    date_format: str | None = None
    timestamp_format: str | None = None

    def format_of(self, kind: pa.DataType) -> str | None:
        """Return how values of a type are written in texts, None where that is as ISO 8601 has it."""
        if pa.types.is_timestamp(kind):
            return self.timestamp_format
        return self.date_format if pa.types.is_date(kind) else None


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
    options: RowOptions = field(default_factory=RowOptions)


@dataclass(frozen=True)
class LandedRows:
    """Rows of a file in the table's types, in the file's order; `deletes` says which rows remove their key.

    `unknown` are the file's columns that the table lacks. `place` gives line and text of the rows that `lines` names; it is kept
    only where rows may have to be set aside later, for an APPEND ONLY table.
    """

    rows: pa.Table
    deletes: np.ndarray
    lines: np.ndarray
    bad: tuple[BadLine, ...]
    unknown: tuple[str, ...]
    place: Callable[[int], tuple[int, str]] | None = None


def land(file: FileRows, target: Target) -> LandedRows:
    """Type some rows of a file; raises MalformedFile if it lacks a column of the key."""
    found = _matched_columns(file, target)
    reasons: dict[int, str] = {}
    deletes = _operations(file, target, reasons)
    arrays = []
    for column in target.schema:
        arrays.append(_column(file, found.get(column.name), column, target, deletes, reasons))
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
    unknown = _unknown_columns(file, found, target)
    return LandedRows(rows, deletes, lines, tuple(bad), unknown, file.place if target.append_only else None)


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


def _unknown_columns(file: FileRows, found: Mapping[str, str], target: Target) -> tuple[str, ...]:
    known, operation = set(found.values()), target.options.operation.lower()
    unknown = (name for name in file.names if name and name not in known and name.lower() != operation)
    return tuple(unknown)[:MOST_UNKNOWN]


def _operations(file: FileRows, target: Target, reasons: dict[int, str]) -> np.ndarray:
    """Return which rows are deletes; an operation that nobody knows is a reason."""
    deletes, options = np.zeros(file.rows, dtype=bool), target.options
    wanted = options.operation
    name = wanted if wanted in file.columns else _same_but_for_case(file).get(wanted.lower())
    if name is None:
        if options.named and not file.by_row and file.rows:
            raise MalformedFile(
                f"the file has no column {wanted}, which operation names; it has {', '.join(file.names[:40]) or 'none'}"
            )
        if options.named:
            reasons.update(
                dict.fromkeys(range(file.rows), f"column {wanted}, which operation names, has no value")
            )
        return deletes
    words = convert(file.columns[name], pa.string()).values
    encoded = pc.utf8_lower(pc.utf8_trim_whitespace(words)).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, word in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        if word in options.deletes and ROW_ID in target.primary_key:
            told = f"table {target.name} has no PRIMARY KEY: which row to delete is not to be told"
            reasons.update(dict.fromkeys(rows.tolist(), told))
        elif word in options.deletes and not target.append_only:
            deletes[rows] = True
        elif word in options.deletes:
            reasons.update(
                dict.fromkeys(rows.tolist(), f"table {target.name} is APPEND ONLY: no row is deleted")
            )
        elif (word or options.named) and word not in options.upserts:
            shown = (word or "")[:LONGEST_SHOWN_VALUE]
            told = f'column {wanted}: "{shown}" is none of {_known_words(options)}'
            reasons.update(dict.fromkeys(rows.tolist(), told))
    if options.named:
        lacking = np.flatnonzero(codes == -1).tolist()
        reasons.update(dict.fromkeys(lacking, f"column {wanted}, which operation names, has no value"))
    return deletes


def _known_words(options: RowOptions) -> str:
    if (options.upserts, options.deletes) == (UPSERT_WORDS, DELETE_WORDS):
        return "insert, upsert, update, delete"
    return ", ".join((*sorted(options.upserts), *sorted(options.deletes)))


def _column(
    file: FileRows,
    source: str | None,
    column: pa.Field[Any],
    target: Target,
    deletes: np.ndarray,
    reasons: dict[int, str],
) -> pa.Array[Any]:
    """Return one typed column; a delete needs nothing but a valid key."""
    name = column.name
    in_key = name in target.primary_key
    if source is None:
        if name == ROW_ID:
            return nulls(file.rows, column.type)  # they get their ids when they are committed
        if name in target.defaults:
            return repeated(target.defaults[name], file.rows)
        values = nulls(file.rows, column.type)
    else:
        converted = convert(_in_iso(file.columns[source], column.type, target.options), column.type)
        values = converted.values
        if name in target.defaults and len(absent := file.absent.get(source, ())):
            lacks = np.zeros(file.rows, dtype=bool)
            lacks[absent] = True
            values = either(pa.array(lacks, pa.bool_()), target.defaults[name], values)
        for index in converted.bad.tolist():
            if in_key or not deletes[index]:
                told = _shown_value(file.columns[source][index])
                reasons.setdefault(index, f'column {name}: "{told}" is no {_type_name(column.type)}')
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


def _in_iso(given: Any, kind: pa.DataType, options: RowOptions) -> Any:
    """Return values of a file with texts that are written in a format of their own as ISO 8601 has them."""
    format = options.format_of(kind)
    if format is None or not pa.types.is_string(given.type):
        return given
    return in_iso(one_chunk(given), format, kind)


def _shown_value(value: pa.Scalar[Any]) -> str:
    try:
        return str(value.as_py())[:LONGEST_SHOWN_VALUE]
    except (ValueError, OverflowError):  # a date that Python does not know
        return f"a {value.type} out of range"


def _type_name(kind: pa.DataType) -> str:
    """Return the name that SQL has for a type."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return next((name.upper() for name in NAMED_TYPES if to_arrow(name) == kind), str(kind))
