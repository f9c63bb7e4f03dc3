"""The row of a view that is asked for: by the values of its key, or of any columns that tell it apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.arrow import as_values
from engine.errors import SqlError
from engine.hummock.epoch import format_epoch
from engine.hummock.rows.key_numbers import deduplicate
from engine.hummock.rows.ordering import one_chunk
from engine.meta.epochs.content import Content
from engine.runtime.answers.row_texts import shorten_text
from engine.runtime.answers.tables_read import StoreTables, Wanted
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.plan import Scan
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.json_documents import is_document, normalize_documents
from engine.sql.typing.types import to_arrow

AskedKey = Mapping[str, Any] | Sequence[Any] | str | int
"""The values of the key's columns in their order, one alone, or values by column; texts are read as the column's type."""
_REFUSED = (TypeError, ValueError, OverflowError, NotImplementedError)
"""What Arrow and Python raise for a value that is none of a type: pyarrow's own errors are of these kinds."""


def find_row(
    tables: StoreTables, relation: Relation, key: AskedKey, other: str = "--at names another epoch"
) -> pa.Table:
    """Return the one row of a view that has the values of a key, with all its columns under their stored names.

    Of rows that are equal in all shown columns it is the first. Raises SqlError for values that name no row, or several; `other`
    says how a row that is not there may be asked for.
    """
    asked = resolve_key(relation, key)
    rows = read_rows(tables, relation, convert_values(relation, asked))
    told = describe_asked(asked)
    epoch = tables.epochs[relation.name]
    if not rows.num_rows:
        named = f" with {told}" if told else ""
        newest = Content(tables.version, tables.stored.inputs).find_newest(
            relation.name, tables.version.epoch
        )
        raise SqlError(
            f"{relation.name} has no row{named} at epoch {format_epoch(epoch)}; its newest epoch is "
            f"{format_epoch(newest or epoch)}",
            hint=f"SELECT * FROM {relation.name} shows its rows; {other}",
        )
    shown = relation.visible_storage_names
    if deduplicate(rows.select(shown)).num_rows > 1:
        others = [c.name for c in relation.columns if not c.hidden and c not in asked]
        raise SqlError(
            f"{rows.num_rows:,} rows of {relation.name} have {told or 'no key that tells them apart'}",
            hint=f"name more columns, as column=value: {', '.join(others)}",
        )
    return rows.slice(0, 1)


def parse_key(relation: Relation, words: Sequence[str]) -> Mapping[str, Any] | Sequence[Any]:
    """Return what the words of a call say of a row: values by column where all are column=value, else those of the key."""
    columns = {column.name for column in relation.visible_columns}
    pairs = [word.partition("=") for word in words]
    if words and all(equal and name in columns for name, equal, _ in pairs):
        return {name: _parse_value(value) for name, _, value in pairs}
    return [_parse_value(word) for word in words]


def _parse_value(word: str) -> str | None:
    """Return a value as it was written, null for the word NULL."""
    return None if word == "NULL" else word


def read_rows(tables: StoreTables, relation: Relation, wanted: Wanted) -> pa.Table:
    """Return the rows of a view whose stored columns have wanted values, with all its columns under their stored names."""
    items = tuple((column.storage_name, column.storage_name) for column in relation.columns)
    scan = Scan(relation.name, items, relation.primary_key, relation.distribution_key)
    found = tables.read(scan, wanted)
    return found if isinstance(found, pa.Table) else found.toArrow()


def describe_asked(asked: Mapping[RelationColumn, Any]) -> str:
    """Return values by column as a condition."""
    return ", ".join(f"{column.name} = {shorten_text(str(value))}" for column, value in asked.items())


def convert_values(relation: Relation, asked: Mapping[RelationColumn, Any]) -> dict[str, pa.Array[Any]]:
    """Return values by stored column, each as one of its column's type; raises SqlError for one that is none."""
    return {column.storage_name: convert_value(relation, column, value) for column, value in asked.items()}


def resolve_key(relation: Relation, key: AskedKey) -> dict[RelationColumn, Any]:
    """Return the values that are asked for by column; raises SqlError for an unknown column, or too few or many values."""
    shown = {column.name: column for column in relation.visible_columns}
    if isinstance(key, Mapping):
        for name in key:
            if name not in shown:
                raise SqlError(
                    f"{relation.name} has no column {name}", hint=f"its columns are {', '.join(shown)}"
                )
        return {shown[name]: value for name, value in key.items()}
    values = list(key) if isinstance(key, Sequence) and not isinstance(key, str) else [key]
    by_stored = {column.storage_name: column for column in shown.values()}
    columns = [by_stored[name] for name in relation.primary_key if name in by_stored]
    if len(values) != len(columns):
        some = f"{len(values)} values were given" if len(values) != 1 else "one value was given"
        if not columns:
            raise SqlError(
                f"{relation.name} has no key among its shown columns, {some}",
                hint=f"name columns as column=value: {', '.join(shown)}",
            )
        names = ", ".join(column.name for column in columns)
        raise SqlError(
            f"the key of {relation.name} is {names}: {some}", hint="or name columns as column=value"
        )
    return dict(zip(columns, values, strict=True))


def convert_value(relation: Relation, column: RelationColumn, value: Any) -> pa.Array[Any]:
    """Return a value as one of a column's type, a text as a landing file's; raises SqlError if it is none."""
    kind = to_arrow(column.type)
    wrong = SqlError(
        f"{shorten_text(repr(value))} is no value of column {column.name} of {relation.name}, which is {column.visible_type}"
    )
    try:
        made: pa.Array[Any] = pa.array([value], pa.string() if isinstance(value, str) else kind)
    except _REFUSED:
        made = _cast_value(value, kind, wrong)
    if is_document(column):
        documents, unlike = normalize_documents(made, column)
        if unlike:
            raise wrong
        return documents
    if made.type != kind:
        found = convert_to_type(pa.chunked_array([made]), kind)
        if found.faults:
            raise wrong
        return one_chunk(found.values)
    whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if whole and isinstance(value, float | Decimal) and type(value)(as_values(made)[0]) != value:
        raise wrong  # Arrow has cut digits off
    return made


def _cast_value(value: Any, kind: pa.DataType, wrong: SqlError) -> pa.Array[Any]:
    """Return a value that Arrow does not take for one of a type at once, as 7.0 for a whole number."""
    try:
        made: pa.Array[Any] = pa.array([value]).cast(kind)
    except _REFUSED as error:
        raise wrong from error
    return made
