"""Rows of a landing file against one table: typed, in order, and the rows that do not fit set aside with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import Column as Values
from engine.arrow import as_values, choose_values, make_nulls, repeat_value
from engine.connectors.formats.file_format import BadLine, FileRows, MalformedFile
from engine.connectors.formats.time_formats import Formats
from engine.connectors.landing.partition_folders import FolderValue, convert_folder_values, find_mismatches
from engine.hummock.rows.ordering import one_chunk
from engine.sql.catalog import ROW_ID, RelationColumn
from engine.sql.column_names import match_columns
from engine.sql.typing.column_conversion import ConvertedColumn, convert_to_type, format_scalar
from engine.sql.typing.json_documents import is_document, normalize_documents
from engine.sql.typing.text_lengths import fit_texts, validate_length

OPERATION = "_op"
UPSERT_WORDS = frozenset({"insert", "upsert", "update", "i", "u", "c", "+i", "+u"})
DELETE_WORDS = frozenset({"delete", "d", "-d"})
LONGEST_VALUE = 60
MOST_UNKNOWN = 20


@dataclass(frozen=True)
class RowOptions:
    """How rows tell what they are: the column of their operation and its words, and how their dates and times are written.

    A column that is `named` has to be there, and to have a value.
    """

    operation: str = OPERATION
    operation_required: bool = False
    upserts: frozenset[str] = UPSERT_WORDS
    deletes: frozenset[str] = DELETE_WORDS
    formats: Formats = field(default_factory=Formats)


class SequenceColumn(NamedTuple):
    """What orders the changes of a key: its column in files, how it is shown, and its type."""

    column: str
    shown: str
    kind: pa.DataType


@dataclass(frozen=True)
class LandingTarget:
    """The table that rows land in; `required` are its columns that may not be null, the key's among them.

    `defaults` are the values of columns that a file lacks, `limited` the columns whose texts have a length, or are json or jsonb.
    `shown` are the names of columns that are stored under others.
    """

    name: str
    schema: pa.Schema
    primary_key: tuple[str, ...]
    required: frozenset[str]
    append_only: bool = False
    defaults: Mapping[str, pa.Scalar[Any]] = field(default_factory=dict)
    limited: Mapping[str, RelationColumn] = field(default_factory=dict)
    visible_names: Mapping[str, str] = field(default_factory=dict)
    options: RowOptions = field(default_factory=RowOptions)
    sequence: SequenceColumn | None = None

    def find_file_column(self, column: str) -> str:
        """Return the name that files have for a column of the store."""
        return self.visible_names.get(column, column)

    @cached_property
    def columns_to_read(self) -> frozenset[str]:
        """What is read of a file: the columns, but no row ids, and what is done to each row."""
        names = {self.find_file_column(name) for name in self.schema.names if name != ROW_ID}
        names |= {self.options.operation} if self.has_operations else set()
        return frozenset(names if self.sequence is None else names | {self.sequence.column})

    @property
    def documents(self) -> frozenset[str]:
        """The columns that are json or jsonb."""
        return frozenset(
            self.find_file_column(name) for name, column in self.limited.items() if is_document(column)
        )

    @property
    def has_operations(self) -> bool:
        """Whether a file's column says what is done to each row: a column `_op` of the table is one as any other, one that the
        table's options name does both.
        """
        return self.options.operation_required or not any(
            map(self.is_operation, map(self.find_file_column, self.schema.names))
        )

    def is_operation(self, name: str) -> bool:
        """Tell whether a name is that of the operation's column."""
        return name.lower() == self.options.operation.lower()


@dataclass(frozen=True)
class LandedRows:
    """Rows of a file in the table's types, in the file's order; `deletes` says which rows remove their key.

    `unknown` are the file's columns, and fields of structs, that the table lacks. `place` gives line and text of the rows that
    `lines` names; it is kept only where rows may have to be set aside later, for an APPEND ONLY table. `sequences` order the
    changes of a key, in a table that has such.
    """

    rows: pa.Table
    deletes: np.ndarray
    lines: np.ndarray
    bad: tuple[BadLine, ...]
    unknown: tuple[str, ...]
    locate_row: Callable[[int], tuple[int, str]] | None = None
    sequences: Values | None = None


@dataclass
class _RowFindings:
    """What is said of rows of a file: why one is set aside, and which fields of structs its columns lack."""

    reasons: dict[int, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def land_rows(file: FileRows, target: LandingTarget) -> LandedRows:
    """Type some rows of a file; raises MalformedFile if it lacks a column of the key, or has none of the table's."""
    matching = _match_columns(file, target, _convert_folder_values(file, target))
    findings = _RowFindings()
    reasons = findings.reasons
    _check_common(file, target, matching, reasons)
    operation = matching.found.get(target.options.operation) if target.has_operations else None
    deletes = _find_deletes(file, operation, target, reasons)
    arrays = []
    for column in target.schema:
        arrays.append(_build_column(file, matching, column, target, deletes, findings))
    rows = pa.Table.from_arrays(arrays, names=target.schema.names)
    sequence = target.sequence
    sequences = None if sequence is None else _sequences(file, matching, target, sequence, arrays, findings)
    bad = list(file.bad)
    for index in sorted(reasons):
        line, raw = file.locate_row(index)
        bad.append(BadLine(line, reasons[index], raw))
    keep = np.ones(file.rows, dtype=bool)
    keep[list(reasons)] = False
    lines = np.arange(file.rows)
    if reasons:
        rows, deletes, lines = rows.filter(pa.array(keep)), deletes[keep], lines[keep]
        sequences = None if sequences is None else sequences.filter(pa.array(keep))
    left_out = (*_list_unknown_columns(file, matching), *findings.unknown)[:MOST_UNKNOWN]
    place = file.locate_row if target.append_only else None
    return LandedRows(rows, deletes, lines, tuple(bad), left_out, place, sequences)


class _ColumnMatch(NamedTuple):
    """The file's column, or what the name of a folder gives, for the columns of the table by their names in files."""

    found: Mapping[str, str]
    folder_values: Mapping[str, FolderValue]


def _convert_folder_values(file: FileRows, target: LandingTarget) -> dict[str, FolderValue]:
    if target.has_operations and any(map(target.is_operation, file.folders)):
        reason = (
            f"a folder's name gives {target.options.operation}: an operation belongs to the rows of a file"
        )
        raise MalformedFile(reason)
    columns = (column for column in target.schema if column.name != ROW_ID)
    named = [column.with_name(target.find_file_column(column.name)) for column in columns]
    order = target.sequence
    if order is not None and order.column not in {column.name for column in named}:
        named.append(pa.field(order.column, order.kind))
    return convert_folder_values(file.folders, named, target.options.formats)


def _check_common(
    file: FileRows, target: LandingTarget, matching: _ColumnMatch, reasons: dict[int, str]
) -> None:
    """Raise MalformedFile for a file that has no column of the table, and give a reason for a row that has none: it would be
    a row of nulls.
    """
    columns = [target.find_file_column(name) for name in target.schema.names if name != ROW_ID]
    if matching.folder_values.keys() >= set(columns):
        return
    reason = f"has no column of {target.name}, which has {', '.join(columns[:40])}"
    is_foreign = matching.found.keys().isdisjoint(columns)
    if is_foreign and not file.by_row and (file.rows or not file.bad):
        raise MalformedFile(f"the file {reason}; it has {', '.join(file.names[:40]) or 'none'}")
    for index in () if file.foreign is None else file.foreign.tolist():
        reasons[index] = f"the row {reason}"


def _match_columns(
    file: FileRows, target: LandingTarget, folder_values: Mapping[str, FolderValue]
) -> _ColumnMatch:
    """Return the file's column of each column of the table, and of the operation."""
    names = tuple(file.columns)
    match = match_columns(target.columns_to_read, names)
    if match.twice:
        raise MalformedFile(f"the file names {match.describe_ambiguity()}")
    found = {name: names[at] for name, at in match.found.items()}
    key = [target.find_file_column(name) for name in target.primary_key if name != ROW_ID]
    missing = [name for name in key if name not in found and name not in folder_values]
    if missing and not file.by_row and (file.rows or not file.bad):
        raise MalformedFile(
            f"the file has no column {', '.join(missing)}, the key of {target.name}; "
            f"it has {', '.join(file.names[:40]) or 'none'}"
        )
    return _ColumnMatch(found, folder_values)


def _list_unknown_columns(file: FileRows, matching: _ColumnMatch) -> tuple[str, ...]:
    known = set(matching.found.values())
    folders = {one.name for one in matching.folder_values.values()}
    unknown = [f"{name} (of a folder)" for name in file.folders if name not in folders]
    unknown += [name for name in file.names if name and name not in known]
    return tuple(unknown)[:MOST_UNKNOWN]


def _find_deletes(
    file: FileRows, name: str | None, target: LandingTarget, reasons: dict[int, str]
) -> np.ndarray:
    """Return which rows are deletes by a column of the file; an operation that nobody knows is a reason."""
    deletes, options = np.zeros(file.rows, dtype=bool), target.options
    operation = options.operation
    if name is None:
        if options.operation_required and not file.by_row and file.rows:
            raise MalformedFile(
                f"the file has no column {operation}, which operation names; it has {', '.join(file.names[:40]) or 'none'}"
            )
        if options.operation_required:
            reasons.update(
                dict.fromkeys(range(file.rows), f"column {operation}, which operation names, has no value")
            )
        return deletes
    words = convert_to_type(file.columns[name], pa.string()).values
    encoded = pc.utf8_lower(pc.utf8_trim_whitespace(words)).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, word in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        if word in options.deletes and ROW_ID in target.primary_key:
            reason = f"table {target.name} has no PRIMARY KEY: nothing says which row to delete"
            reasons.update(dict.fromkeys(rows.tolist(), reason))
        elif word in options.deletes and not target.append_only:
            deletes[rows] = True
        elif word in options.deletes:
            reasons.update(
                dict.fromkeys(rows.tolist(), f"table {target.name} is APPEND ONLY: no row is deleted")
            )
        elif (word or options.operation_required) and word not in options.upserts:
            reason = f'column {operation}: "{(word or "")[:LONGEST_VALUE]}" is none of {_format_known_words(options)}'
            reasons.update(dict.fromkeys(rows.tolist(), reason))
    if options.operation_required:
        lacking = np.flatnonzero(codes == -1).tolist()
        reasons.update(dict.fromkeys(lacking, f"column {operation}, which operation names, has no value"))
    return deletes


def _format_known_words(options: RowOptions) -> str:
    if (options.upserts, options.deletes) == (UPSERT_WORDS, DELETE_WORDS):
        return "insert, upsert, update, delete"
    return ", ".join((*sorted(options.upserts), *sorted(options.deletes)))


def _build_column(
    file: FileRows,
    matching: _ColumnMatch,
    column: pa.Field[Any],
    target: LandingTarget,
    deletes: np.ndarray,
    findings: _RowFindings,
) -> pa.Array[Any]:
    """Return one typed column; a delete needs nothing but a valid key, and a sequence where the table has one."""
    reasons = findings.reasons
    name, visible_name = column.name, target.find_file_column(column.name)
    source, folder = matching.found.get(visible_name), matching.folder_values.get(visible_name)
    in_key = name in target.primary_key
    is_needed = in_key or (target.sequence is not None and visible_name == target.sequence.column)
    if source is None:
        if name == ROW_ID:
            return make_nulls(file.rows, column.type)  # they get their ids when they are committed
        if folder is not None:
            values = repeat_value(folder.value, file.rows)
        elif name in target.defaults:
            return repeat_value(target.defaults[name], file.rows)
        else:
            values = make_nulls(file.rows, column.type)
    else:
        converted = _convert_column(file, source, column, target)
        values = converted.values
        findings.unknown += [f"{source}.{part}" for part in converted.unknown]
        fill = target.defaults.get(name) if folder is None else folder.value
        values = values if fill is None else _fill_absent(file, source, values, fill)
        for index, fault in sorted(converted.faults.items()):
            if is_needed or not deletes[index]:
                reasons.setdefault(index, fault.describe(visible_name))
    limited = target.limited.get(name)
    if limited is not None and is_document(limited):
        values, wrong = normalize_documents(values, limited)
        for index, why in wrong.items():
            if is_needed or not deletes[index]:
                reasons.setdefault(index, f"column {visible_name} is {limited.sql_type}: {why}")
    elif limited is not None:
        texts = values
        found = fit_texts(texts, limited)
        values = one_chunk(found.fitted)
        for index in as_values(found.places):
            if is_needed or not deletes[index]:
                long = validate_length(texts[index].as_py(), limited)
                reasons.setdefault(index, f"column {visible_name}: {long}")
    if source is not None and folder is not None:
        for index, why in _find_folder_mismatches(file, source, values, folder, limited):
            if is_needed or not deletes[index]:
                reasons.setdefault(index, f"column {visible_name}: {why}")
    if name in target.required:
        for index, why in _find_missing_values(values, in_key=in_key):
            if is_needed or not deletes[index]:
                reasons.setdefault(index, f"column {visible_name}: {why}")
    return values


def _sequences(
    file: FileRows,
    matching: _ColumnMatch,
    target: LandingTarget,
    sequence: SequenceColumn,
    arrays: Sequence[Values],
    findings: _RowFindings,
) -> Values:
    """Return what orders the rows; one that has no such value has no place among the changes of its key."""
    source, shown = matching.found.get(sequence.column), sequence.shown
    if source is None and sequence.column not in matching.folder_values and not file.by_row and file.rows:
        names = ", ".join(file.names[:40]) or "none"
        raise MalformedFile(f"the file has no column {shown}, which sequence names; it has {names}")
    columns = [target.find_file_column(name) for name in target.schema.names]
    if sequence.column in columns:
        values = convert_to_type(arrays[columns.index(sequence.column)], sequence.kind).values
    elif source is None:
        folder = matching.folder_values.get(sequence.column)
        given = pa.scalar(None, sequence.kind) if folder is None else folder.value
        values = repeat_value(given, file.rows)
    else:
        converted = _convert_column(file, source, pa.field(sequence.column, sequence.kind), target)
        values = converted.values
        for index, fault in sorted(converted.faults.items()):
            findings.reasons.setdefault(
                index, f"{fault.describe(shown)}; a sequence of another type is a column of the table"
            )
        folder = matching.folder_values.get(sequence.column)
        if folder is not None:
            values = _fill_absent(file, source, values, folder.value)
            for index, why in _find_folder_mismatches(file, source, values, folder):
                findings.reasons.setdefault(index, f"column {shown}: {why}")
    for index in np.flatnonzero(pc.is_null(values).to_numpy(zero_copy_only=False)).tolist():
        findings.reasons.setdefault(index, f"column {shown}, which sequence names, has no value")
    return values


def _fill_absent(file: FileRows, source: str, values: pa.Array[Any], fill: pa.Scalar[Any]) -> pa.Array[Any]:
    """Return a column of a file with a value in the rows that lack it, of a file whose rows have columns of their own."""
    lacks = np.zeros(file.rows, dtype=bool)
    lacks[file.absent.get(source, np.empty(0, dtype=np.int64))] = True
    return choose_values(pa.array(lacks, pa.bool_()), fill, values) if lacks.any() else values


def _convert_column(
    file: FileRows, source: str, column: pa.Field[Any], target: LandingTarget
) -> ConvertedColumn:
    """Return a column of a file in the table's type; its faults show what stands in the file."""
    documents = column.name in target.limited and is_document(target.limited[column.name])
    return convert_to_type(
        file.columns[source],
        column.type,
        calendar=True,
        in_json=file.by_row,
        documents=documents,
        reads=target.options.formats.reads,
    )


def _find_missing_values(values: pa.Array[Any], *, in_key: bool) -> Iterator[tuple[int, str]]:
    """Yield the rows that lack a value which they must have, and why."""
    why = "the key has no value" if in_key else "NOT NULL, but there is no value"
    for index in np.flatnonzero(pc.is_null(values).to_numpy(zero_copy_only=False)).tolist():
        yield index, why


def _find_folder_mismatches(
    file: FileRows,
    source: str,
    values: pa.Array[Any],
    folder: FolderValue,
    limited: RelationColumn | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the rows whose value, as the table keeps it, is not the one of a folder's name, and why they are set aside."""
    said = f"{folder.name}={file.folders[folder.name]}"
    given = repeat_value(folder.value, 1)
    if limited is not None:
        is_text = not is_document(limited)
        given = (
            one_chunk(fit_texts(given, limited).fitted) if is_text else normalize_documents(given, limited)[0]
        )
    for index in find_mismatches(values, given[0]).tolist():
        yield index, f'"{format_scalar(file.columns[source][index])}", but the folder says {said}'
