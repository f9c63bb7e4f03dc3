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

from engine.arrow import nulls, repeated
from engine.errors import InvalidRow
from engine.hummock import Hummock
from engine.spark_internals import spark_schema
from engine.sql.catalog import ROW_ID, Column, Relation
from engine.sql.column_names import ADDED, matched
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.defaults import local_default
from engine.sql.statements.values import NotLiteral
from engine.sql.typing.conversions import refused_part, remedy_of, shown_type, stays
from engine.sql.typing.converted import convert
from engine.sql.typing.documents import is_document, kept_documents
from engine.sql.typing.text_lengths import fitted, too_long
from engine.sql.typing.types import to_arrow


def visible_columns(relation: Relation) -> tuple[str, ...]:
    """Return the columns that a user sees."""
    return tuple(column.name for column in relation.columns if not column.hidden)


def named_as(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return rows under the names that a table's columns have, by the rule of `matched`.

    Raises InvalidRow for a column that two of the rows' names mean, and for one that the table lacks.
    """
    names = list(rows.column_names)
    found = matched([column.name for column in relation.columns], names)
    if found.twice:
        raise InvalidRow(f"the rows for {relation.name} name column {found.told()}")
    for name, at in found.found.items():
        names[at] = name
    unknown = [name for at, name in enumerate(names) if at not in found.places]
    if unknown:
        raise no_column(relation, unknown)
    return rows.rename_columns(names)


def no_column(relation: Relation, names: Collection[str]) -> InvalidRow:
    """Return the error for rows with columns that a table lacks."""
    told = ", ".join(dict.fromkeys(names))
    known = ", ".join(visible_columns(relation))
    return InvalidRow(f"table {relation.name} has no column {told}; its columns are {known}")


def completed(relation: Relation, rows: pa.Table, spark: Callable[[], SparkSession]) -> pa.Table:
    """Return the rows with the values of left-out columns that have a DEFAULT, and with the generated columns.

    Spark is asked only for expressions that are neither literals nor the clock. Raises InvalidRow for a row that gives a
    generated column, or on which an expression fails.
    """
    refuse_generated(relation, rows.column_names)
    names = set(rows.column_names)
    now = datetime.datetime.now(datetime.UTC)
    asked = []
    for column in relation.columns:
        if column.default is None or column.name in names:
            continue
        try:
            value = pa.scalar(local_default(column, now), to_arrow(column.type))
            rows = rows.append_column(column.name, repeated(value, rows.num_rows))
        except (NotLiteral, pa.ArrowInvalid, pa.ArrowTypeError):
            asked.append(column)
    rows = _computed(relation, rows, asked, spark, lambda column: column.default)
    generated = [column for column in relation.columns if column.generated is not None]
    if generated:
        inputs = [c.name for c in relation.columns if c.generated is None and c.name != ROW_ID]
        rows = typed_rows(relation, rows, [*inputs, *([ROW_ID] if ROW_ID in rows.column_names else [])])
    return _computed(relation, rows, generated, spark, lambda column: column.generated)


def refuse_generated(relation: Relation, names: Collection[str]) -> None:
    """Raise InvalidRow if rows that have the columns `names` give a generated one."""
    for column in relation.columns:
        if column.generated is not None and column.name in names:
            raise InvalidRow(f"column {column.name} of {relation.name} is generated: leave it out")


def completed_frame(relation: Relation, frame: DataFrame) -> DataFrame:
    """Return what `completed` returns for the rows of a frame, all by Spark, with further columns of the frame at the end.

    Left-out columns without a default are null.
    """
    refuse_generated(relation, frame.columns)
    given, known = set(frame.columns), {column.name for column in relation.columns}
    further = [quote(name) for name in frame.columns if name not in known]
    items, computed = [], []
    for column in relation.columns:
        name = quote(column.name)
        if column.generated is not None:
            computed.append(f"CAST({column.generated} AS {column.type}) AS {name}")
            continue
        value = name if column.name in given else column.default or "NULL"
        items.append(f"CAST({value} AS {column.type}) AS {name}")
        computed.append(name)
    return frame.selectExpr(*items, *further).selectExpr(*computed, *further)


def _computed(
    relation: Relation,
    rows: pa.Table,
    columns: Collection[Column],
    spark: Callable[[], SparkSession],
    text: Callable[[Column], str | None],
) -> pa.Table:
    if not columns:
        return rows
    place = f"{ADDED}place"
    given = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    items = [f"CAST({text(c)} AS {c.type}) AS {quote(c.name)}" for c in columns]
    try:
        found = frame_of(spark(), given).selectExpr(quote(place), *items).toArrow().sort_by(place)
    except PySparkException as error:
        message = (error.getMessage() or str(error)).splitlines()[0]
        names = ", ".join(column.name for column in columns)
        raise InvalidRow(f"columns {names} of {relation.name} cannot be computed: {message}") from error
    for column in columns:
        rows = rows.append_column(column.name, found.column(column.name))
    return rows


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow rows as a Spark frame, timestamps without a zone as such."""
    nullable = pa.schema([field.with_nullable(True) for field in rows.schema])
    return spark.createDataFrame(rows.cast(nullable), spark_schema(nullable))


def typed_rows(relation: Relation, rows: pa.Table, columns: Collection[str]) -> pa.Table:
    """Return the rows with just `columns` in the table's types: left-out columns are null, the key never is.

    Rows of a table without a key get their ids later, by `with_row_ids`.
    """
    unknown = [name for name in rows.column_names if name not in {c.name for c in relation.columns}]
    if unknown:
        raise no_column(relation, unknown)
    types = {column.name: column for column in relation.columns}
    arrays: list[pa.Array[Any] | pa.ChunkedArray[Any]] = []
    for name in columns:
        kind = to_arrow(types[name].type)
        if name == ROW_ID and name not in rows.column_names:
            if len(columns) == 1:
                raise InvalidRow(
                    f"table {relation.name} has no PRIMARY KEY to delete rows by: write DELETE FROM {relation.name} WHERE …"
                )
            arrays.append(nulls(rows.num_rows, kind))  # `with_row_ids` gives them, when they are written
            continue
        elif name in rows.column_names:
            array = converted(relation, name, rows.column(name), kind)
        else:
            array = pa.chunked_array([nulls(rows.num_rows, kind)])
        if array.null_count and relation.is_never_null(types[name]):
            raise no_value(relation, types[name], array.null_count)
        if types[name].length is not None:
            array = _fitted(relation, types[name], array)
        if is_document(types[name]):
            array = _documents(relation, types[name], array)
        arrays.append(array)
    return pa.Table.from_arrays(arrays, names=list(columns))


def no_value(relation: Relation, column: Column, rows: int) -> InvalidRow:
    """Return the error for rows that lack a value which they must have."""
    why = "part of the primary key" if column.source in relation.unique_key else "NOT NULL"
    return InvalidRow(f"column {column.name} of {relation.name} is {why}, but {rows} rows have no value")


def _fitted(relation: Relation, column: Column, array: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return texts as a VARCHAR(n) or CHAR(n) keeps them; raises InvalidRow for one that is too long."""
    found = fitted(array, column)
    if len(found.long):
        raise text_too_long(relation, column, len(found.long), pc.min(found.long).as_py())
    return found.kept if isinstance(found.kept, pa.ChunkedArray) else pa.chunked_array([found.kept])


def _documents(relation: Relation, column: Column, array: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return texts as a column of json or jsonb keeps them; raises InvalidRow for one that is no JSON."""
    kept, wrong = kept_documents(array, column)
    if wrong:
        first = next(iter(wrong.values()))
        raise InvalidRow(
            f"column {column.name} of {relation.name} is {column.sql_type}: {first}; {len(wrong)} rows are no JSON"
        )
    return pa.chunked_array([kept])


def text_too_long(relation: Relation, column: Column, rows: int, least: str) -> InvalidRow:
    """Return the error for rows with texts that a VARCHAR(n) or CHAR(n) cannot keep, `least` the first of them in order."""
    told = too_long(least, column)
    return InvalidRow(f"column {column.name} of {relation.name}: {told}; {rows} rows are too long")


def stored_names(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return the rows under the names that their columns have in the store."""
    names = {column.name: column.source for column in relation.columns}
    return rows.rename_columns([names[name] for name in rows.column_names])


def shown_names(relation: Relation, rows: pa.Table) -> pa.Table:
    """Return rows of the store under the names that their columns have for users."""
    names = {column.source: column.name for column in relation.columns}
    return rows.rename_columns([names[name] for name in rows.column_names])


def converted(
    relation: Relation, name: str, column: pa.ChunkedArray[Any], kind: pa.DataType
) -> pa.ChunkedArray[Any]:
    """Return a column in its table's type by the table of conversions; raises InvalidRow for what does not fit."""
    if stays(column.type, kind):
        return column.cast(kind) if pa.types.is_nested(kind) else column
    if (refused := refused_part(column.type, kind)) is not None:
        path, given, wanted = refused
        raise not_taken(relation.name, name + path, given, wanted)
    found = convert(column, kind)
    if found.unknown:
        raise InvalidRow(
            f"column {name} of {relation.name} has no field {', '.join(found.unknown)}: it is {shown_type(kind)}"
        )
    if found.faults:
        first = found.faults[min(found.faults)]
        raise InvalidRow(
            f"{first.told(name, relation.name)}; {len(found.faults)} rows do not fit: give values that "
            f"{shown_type(first.wanted)} has, or the column another type"
        )
    return pa.chunked_array([found.values])


def not_taken(table: str, column: str, given: pa.DataType, wanted: pa.DataType) -> InvalidRow:
    """Return the error for rows whose column is of a type that its table's does not take, whatever the values."""
    remedy = remedy_of(given, wanted) or "cast it before it is written"
    return InvalidRow(
        f"column {column} of {table} is {shown_type(wanted)}, which takes no {shown_type(given)}: {remedy}"
    )


def awaits_row_ids(rows: pa.Table) -> bool:
    """Tell whether rows are of a table without a key and have got no ids yet."""
    return (
        ROW_ID in rows.column_names and rows.num_rows > 0 and rows.column(ROW_ID).null_count == rows.num_rows
    )


def with_row_ids(store: Hummock, rows: pa.Table) -> pa.Table:
    """Return the rows with ids that no other writer gives, if they are of a table without a key and have none yet."""
    if not awaits_row_ids(rows):
        return rows
    at = rows.column_names.index(ROW_ID)
    return rows.set_column(at, rows.schema.field(at), pa.array(store.row_ids(rows.num_rows)))
