"""Rows on their way into a table: typed, completed by defaults and generated columns, checked."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.arrow import make_nulls, repeat_value
from engine.errors import InvalidRow
from engine.hummock import Hummock
from engine.spark_internals import derive_spark_schema
from engine.sql.catalog import ROW_ID, Relation, RelationColumn
from engine.sql.column_names import ADDED, match_columns
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.ddl.defaults import compute_local_default
from engine.sql.statements.dml.literal_rows import NotLiteral
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.conversions import find_refused_part, format_arrow_type, is_unchanged, suggest_remedy
from engine.sql.typing.json_documents import is_document, normalize_documents
from engine.sql.typing.text_lengths import fit_texts, validate_length
from engine.sql.typing.types import to_arrow


def list_visible_columns(relation: Relation) -> tuple[str, ...]:
    """Return the columns that a user sees."""
    return tuple(column.name for column in relation.visible_columns)


def match_column_names(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return rows under the names that a table's columns have, by the rule of `matched`.

    Raises InvalidRow for a column that two of the rows' names mean, and for one that the table lacks.
    """
    names = list(rows.column_names)
    found = match_columns([column.name for column in relation.columns], names)
    if found.twice:
        raise InvalidRow(f"the rows for {relation.name} name column {found.describe_ambiguity()}")
    for name, at in found.found.items():
        names[at] = name
    unknown = [name for at, name in enumerate(names) if at not in found.places]
    if unknown:
        raise build_no_column_error(relation, unknown)
    return rows.rename_columns(names)


def build_no_column_error(relation: Relation, names: Collection[str]) -> InvalidRow:
    """Return the error for rows with columns that a table lacks."""
    listed = ", ".join(dict.fromkeys(names))
    known = ", ".join(list_visible_columns(relation))
    return InvalidRow(f"table {relation.name} has no column {listed}; its columns are {known}")


def complete_rows(relation: Relation, rows: pa.Table, spark: Callable[[], SparkSession]) -> pa.Table:
    """Return the rows with the values of left-out columns that have a DEFAULT, and with the generated columns.

    Spark is asked only for expressions that are neither literals nor the clock. Raises InvalidRow for a row that gives a
    generated column, or on which an expression fails.
    """
    refuse_generated(relation, rows.column_names)
    names = set(rows.column_names)
    now = datetime.datetime.now(datetime.UTC)
    defaulted = []
    for column in relation.columns:
        if column.default is None or column.name in names:
            continue
        try:
            value = pa.scalar(compute_local_default(column, now), to_arrow(column.type))
            rows = rows.append_column(column.name, repeat_value(value, rows.num_rows))
        except (NotLiteral, pa.ArrowInvalid, pa.ArrowTypeError):
            defaulted.append(column)
    rows = _compute_columns(relation, rows, defaulted, spark, lambda column: column.default)
    generated = [column for column in relation.columns if column.generated is not None]
    if generated:
        inputs = [c.name for c in relation.columns if c.generated is None and c.name != ROW_ID]
        rows = convert_rows(relation, rows, [*inputs, *([ROW_ID] if ROW_ID in rows.column_names else [])])
    return _compute_columns(relation, rows, generated, spark, lambda column: column.generated)


def refuse_generated(relation: Relation, names: Collection[str]) -> None:
    """Raise InvalidRow if rows that have the columns `names` give a generated one."""
    for column in relation.columns:
        if column.generated is not None and column.name in names:
            raise InvalidRow(f"column {column.name} of {relation.name} is generated: leave it out")


def complete_frame(relation: Relation, frame: DataFrame) -> DataFrame:
    """Return what `completed` returns for the rows of a frame, all by Spark, with further columns of the frame at the end.

    Left-out columns without a default are null.
    """
    refuse_generated(relation, frame.columns)
    present, known = set(frame.columns), {column.name for column in relation.columns}
    further = [quote(name) for name in frame.columns if name not in known]
    items, computed = [], []
    for column in relation.columns:
        name = quote(column.name)
        if column.generated is not None:
            computed.append(f"CAST({column.generated} AS {column.type}) AS {name}")
            continue
        value = name if column.name in present else column.default or "NULL"
        items.append(f"CAST({value} AS {column.type}) AS {name}")
        computed.append(name)
    return frame.selectExpr(*items, *further).selectExpr(*computed, *further)


def _compute_columns(
    relation: Relation,
    rows: pa.Table,
    columns: Collection[RelationColumn],
    spark: Callable[[], SparkSession],
    text: Callable[[RelationColumn], str | None],
) -> pa.Table:
    if not columns:
        return rows
    place = f"{ADDED}place"
    placed = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    items = [f"CAST({text(c)} AS {c.type}) AS {quote(c.name)}" for c in columns]
    try:
        found = create_frame(spark(), placed).selectExpr(quote(place), *items).toArrow().sort_by(place)
    except PySparkException as error:
        message = (error.getMessage() or str(error)).splitlines()[0]
        names = ", ".join(column.name for column in columns)
        raise InvalidRow(f"columns {names} of {relation.name} cannot be computed: {message}") from error
    for column in columns:
        rows = rows.append_column(column.name, found.column(column.name))
    return rows


def create_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow rows as a Spark frame, timestamps without a zone as such."""
    nullable = pa.schema([field.with_nullable(True) for field in rows.schema])
    return spark.createDataFrame(rows.cast(nullable), derive_spark_schema(nullable))


def convert_rows(relation: Relation, rows: pa.Table, columns: Collection[str]) -> pa.Table:
    """Return the rows with just `columns` in the table's types: left-out columns are null, the key never is.

    Rows of a table without a key get their ids later, by `assign_row_ids`.
    """
    unknown = [name for name in rows.column_names if name not in {c.name for c in relation.columns}]
    if unknown:
        raise build_no_column_error(relation, unknown)
    types = {column.name: column for column in relation.columns}
    arrays: list[pa.Array[Any] | pa.ChunkedArray[Any]] = []
    for name in columns:
        kind = to_arrow(types[name].type)
        if name == ROW_ID and name not in rows.column_names:
            if len(columns) == 1:
                raise InvalidRow(
                    f"table {relation.name} has no PRIMARY KEY to delete rows by: write DELETE FROM {relation.name} WHERE …"
                )
            arrays.append(
                make_nulls(rows.num_rows, kind)
            )  # `assign_row_ids` gives them, when they are written
            continue
        elif name in rows.column_names:
            array = convert_column(relation, name, rows.column(name), kind)
        else:
            array = pa.chunked_array([make_nulls(rows.num_rows, kind)])
        if array.null_count and relation.is_never_null(types[name]):
            raise build_no_value_error(relation, types[name], array.null_count)
        if types[name].length is not None:
            array = _fit_texts(relation, types[name], array)
        if is_document(types[name]):
            array = _convert_documents(relation, types[name], array)
        arrays.append(array)
    return pa.Table.from_arrays(arrays, names=list(columns))


def build_no_value_error(relation: Relation, column: RelationColumn, rows: int) -> InvalidRow:
    """Return the error for rows that lack a value which they must have."""
    why = "part of the primary key" if column.storage_name in relation.unique_key else "NOT NULL"
    return InvalidRow(f"column {column.name} of {relation.name} is {why}, but {rows} rows have no value")


def _fit_texts(
    relation: Relation, column: RelationColumn, array: pa.ChunkedArray[Any]
) -> pa.ChunkedArray[Any]:
    """Return texts as a VARCHAR(n) or CHAR(n) keeps them; raises InvalidRow for one that is too long."""
    found = fit_texts(array, column)
    if len(found.long):
        raise build_too_long_error(relation, column, len(found.long), pc.min(found.long).as_py())
    return found.fitted if isinstance(found.fitted, pa.ChunkedArray) else pa.chunked_array([found.fitted])


def _convert_documents(
    relation: Relation, column: RelationColumn, array: pa.ChunkedArray[Any]
) -> pa.ChunkedArray[Any]:
    """Return texts as a column of json or jsonb keeps them; raises InvalidRow for one that is no JSON."""
    documents, wrong = normalize_documents(array, column)
    if wrong:
        first = next(iter(wrong.values()))
        raise InvalidRow(
            f"column {column.name} of {relation.name} is {column.sql_type}: {first}; {len(wrong)} rows are no JSON"
        )
    return pa.chunked_array([documents])


def build_too_long_error(relation: Relation, column: RelationColumn, rows: int, least: str) -> InvalidRow:
    """Return the error for rows with texts that a VARCHAR(n) or CHAR(n) cannot keep, `least` the first of them in order."""
    reason = validate_length(least, column)
    return InvalidRow(f"column {column.name} of {relation.name}: {reason}; {rows} rows are too long")


def to_stored_names(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return the rows under the names that their columns have in the store."""
    names = {column.name: column.storage_name for column in relation.columns}
    return rows.rename_columns([names[name] for name in rows.column_names])


def to_visible_names(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return rows of the store under the names that their columns have for users."""
    names = {column.storage_name: column.name for column in relation.columns}
    return rows.rename_columns([names[name] for name in rows.column_names])


def convert_column(
    relation: Relation, name: str, column: pa.ChunkedArray[Any], kind: pa.DataType
) -> pa.ChunkedArray[Any]:
    """Return a column in its table's type by the table of conversions; raises InvalidRow for what does not fit."""
    if is_unchanged(column.type, kind):
        return column.cast(kind) if pa.types.is_nested(kind) else column
    if (refused := find_refused_part(column.type, kind)) is not None:
        path, actual, expected = refused
        raise build_type_error(relation.name, name + path, actual, expected)
    found = convert_to_type(column, kind)
    if found.unknown:
        raise InvalidRow(
            f"column {name} of {relation.name} has no field {', '.join(found.unknown)}: it is {format_arrow_type(kind)}"
        )
    if found.faults:
        first = found.faults[min(found.faults)]
        raise InvalidRow(
            f"{first.describe(name, relation.name)}; {len(found.faults)} rows do not fit: give values that "
            f"{format_arrow_type(first.target)} has, or the column another type"
        )
    return pa.chunked_array([found.values])


def build_type_error(table: str, column: str, actual: pa.DataType, expected: pa.DataType) -> InvalidRow:
    """Return the error for rows whose column is of a type that its table's does not take, whatever the values."""
    remedy = suggest_remedy(actual, expected) or "cast it before it is written"
    return InvalidRow(
        f"column {column} of {table} is {format_arrow_type(expected)}, which takes no {format_arrow_type(actual)}: {remedy}"
    )


def needs_row_ids(rows: pa.Table) -> bool:
    """Tell whether rows are of a table without a key and have got no ids yet."""
    return (
        ROW_ID in rows.column_names and rows.num_rows > 0 and rows.column(ROW_ID).null_count == rows.num_rows
    )


def assign_row_ids(store: Hummock, rows: pa.Table) -> pa.Table:
    """Return the rows with ids that no other writer gives, if they are of a table without a key and have none yet."""
    if not needs_row_ids(rows):
        return rows
    at = rows.column_names.index(ROW_ID)
    return rows.set_column(at, rows.schema.field(at), pa.array(store.row_ids(rows.num_rows)))
