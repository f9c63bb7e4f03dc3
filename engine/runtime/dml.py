"""Writes to source tables: rows are checked and typed, then durable in one commit before the statement returns."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from engine.errors import Conflict, DuplicateKey, InvalidRow, SqlError
from engine.hummock import Delete, Hummock, Put, TableVersion, Version
from engine.meta.catalog_store import StoredCatalog
from engine.runtime.query import register, visible_columns
from engine.sql.catalog import Relation
from engine.sql.point_read import query_tables, to_spark
from engine.sql.statements import DeleteFrom, Insert, Update
from engine.sql.types import to_arrow
from engine.sql.values import literal_rows

Mode = Literal["insert", "upsert", "delete"]
ROW_ID = "_row_id"
WRITE_DEADLINE_SECONDS = 60.0


def source_table(stored: StoredCatalog, name: str, verb: str) -> Relation:
    """Return the relation if users may write to it; raises InvalidRow for a view."""
    relation = stored.catalog.get(name)
    if relation.kind != "table":
        raise InvalidRow(f"cannot {verb} {name}: it is a {relation.kind}; write to the tables that it reads")
    return relation


def write(store: Hummock, stored: StoredCatalog, name: str, rows: pa.Table, mode: Mode) -> int:
    """Write rows to a source table and return the epoch of their commit.

    "insert": a known key is an error; "upsert": the newest row of a key wins; "delete": the key columns suffice.
    """
    if mode not in ("insert", "upsert", "delete"):
        raise InvalidRow(f'mode "{mode}" is unknown: use "insert", "upsert" or "delete"')
    relation = source_table(stored, name, f"{mode} rows of")
    if relation.append_only and mode != "insert":
        if mode == "delete" or ROW_ID not in relation.primary_key:
            raise InvalidRow(f"table {name} is APPEND ONLY: rows can only be inserted")
        mode = "insert"
    if mode == "delete":
        keys = typed_rows(relation, rows, relation.primary_key)
        return store.ingest_batch({name: [Delete(keys)]})
    typed = typed_rows(relation, rows, tuple(column.name for column in relation.columns))
    if mode == "upsert":
        return store.ingest_batch({name: [Put(typed)]})
    return _insert(store, relation, typed)


def typed_rows(relation: Relation, rows: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """Return the rows with just `columns` in the table's types: left-out columns are null, the key never is."""
    unknown = [name for name in rows.column_names if name not in {c.name for c in relation.columns}]
    if unknown:
        known = ", ".join(visible_columns(relation))
        raise InvalidRow(f"table {relation.name} has no column {', '.join(unknown)}; its columns are {known}")
    types = {column.name: column for column in relation.columns}
    arrays = []
    for name in columns:
        kind = to_arrow(types[name].type)
        if name == ROW_ID and name not in rows.column_names:
            array = _row_ids(rows.num_rows)
        elif name in rows.column_names:
            array = _cast(relation, name, rows.column(name), kind)
        elif types[name].default is not None:
            raise InvalidRow(
                f"column {name} of {relation.name} has a default: give its value through SQL INSERT"
            )
        else:
            array = pa.nulls(rows.num_rows, kind)
        if array.null_count and (name in relation.primary_key or not types[name].nullable):
            why = "part of the primary key" if name in relation.primary_key else "NOT NULL"
            raise InvalidRow(
                f"column {name} of {relation.name} is {why}, but {array.null_count} rows have no value"
            )
        arrays.append(array)
    return pa.Table.from_arrays(arrays, names=list(columns))


def _cast(relation: Relation, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidRow(f"column {name} of {relation.name} is {kind}: {error}") from error


def _row_ids(rows: int) -> pa.ChunkedArray:
    start = (int(time.time() * 1000) - 1_600_000_000_000) << 22 | secrets.randbits(22)
    return pa.chunked_array([pa.array(np.arange(start, start + rows, dtype=np.int64))])


def _insert(store: Hummock, relation: Relation, rows: pa.Table) -> int:
    keys = rows.select(list(relation.primary_key))
    distinct = keys.group_by(list(relation.primary_key)).aggregate([([], "count_all")])
    if distinct.num_rows != rows.num_rows:
        twice = distinct.filter(pc.greater(distinct.column("count_all"), 1)).drop_columns("count_all")
        raise DuplicateKey(
            f"insert into {relation.name}: the key {twice.slice(0, 1).to_pylist()[0]} stands twice"
        )
    deadline = time.monotonic() + WRITE_DEADLINE_SECONDS
    while True:
        table = store.refresh().tables[relation.name]
        _refuse_known(store, table, keys)
        try:
            return store.ingest_batch({relation.name: [Put(rows)]}, precondition=_unchanged(table))
        except Conflict:
            if time.monotonic() > deadline:
                raise


def _refuse_known(store: Hummock, table: TableVersion, keys: pa.Table) -> None:
    index, _ = store.reader.lookup(table, keys, table.committed_epoch, columns=list(table.primary_key))
    if len(index):
        known = keys.slice(int(index[0]), 1).to_pylist()[0]
        raise DuplicateKey(
            f"insert into {table.name}: {len(index)} rows have keys that exist, the first is {known}; "
            'use UPDATE, or write(..., mode="upsert")'
        )


def _unchanged(table: TableVersion) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        now = version.tables.get(table.name)
        if now is None or now.committed_epoch != table.committed_epoch or now.table_id != table.table_id:
            raise Conflict(f"table {table.name} changed since it was read")

    return check


def insert(
    store: Hummock, stored: StoredCatalog, spark: Callable[[], SparkSession], statement: Insert, dialect: str
) -> int:
    """Run INSERT … VALUES or INSERT … SELECT; returns the number of rows inserted."""
    relation = source_table(stored, statement.table, "insert into")
    columns = statement.columns or visible_columns(relation)
    literals = literal_rows(statement, relation, dialect)
    if literals is not None:
        kinds = {column.name: to_arrow(column.type) for column in relation.columns}
        values = list(zip(*literals, strict=True))
        try:
            arrays = [
                pa.array(list(column), kinds[name]) for name, column in zip(columns, values, strict=True)
            ]
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
            raise InvalidRow(f"insert into {relation.name}: {error}") from error
        rows = pa.Table.from_arrays(arrays, names=list(columns))
    else:
        query = statement.rows
        text = (
            to_spark(query, stored.catalog, dialect) if isinstance(query, exp.Query) else query.sql("spark")
        )
        tables = query_tables(query, stored.catalog, statement.sql) if isinstance(query, exp.Query) else ()
        rows = _evaluate(store, stored, spark, text, tables, statement.sql)
        if rows.num_columns != len(columns):
            raise SqlError(
                f"INSERT gives {rows.num_columns} values for {len(columns)} columns", sql=statement.sql
            )
        rows = rows.rename_columns(list(columns))
    rows = _with_defaults(spark, relation, rows)
    write(store, stored, relation.name, rows, "insert")
    return rows.num_rows


def _with_defaults(spark: Callable[[], SparkSession], relation: Relation, rows: pa.Table) -> pa.Table:
    for column in relation.columns:
        if column.default is not None and column.name not in rows.column_names:
            value = (
                spark().sql(f"SELECT CAST({column.default} AS {column.type}) AS v").toArrow().column("v")[0]
            )
            rows = rows.append_column(column.name, pa.repeat(value, rows.num_rows))
    return rows


def update(
    store: Hummock, stored: StoredCatalog, spark: Callable[[], SparkSession], statement: Update
) -> int:
    """Run UPDATE: rows are read and written under the condition that the table did not change meanwhile."""
    relation = source_table(stored, statement.table, "update")
    _refuse_append_only(relation, "UPDATE")
    changed = dict(statement.assignments)
    for column in changed:
        if column in relation.primary_key:
            raise InvalidRow(
                f"UPDATE of key column {column} of {relation.name}: DELETE the row and INSERT the new one"
            )
        if column not in visible_columns(relation):
            raise InvalidRow(f"table {relation.name} has no column {column}")
    items = [
        f"CAST({changed[c.name].sql('spark')} AS {c.type}) AS `{c.name}`"
        if c.name in changed
        else f"`{c.name}`"
        for c in relation.columns
    ]
    return _read_and_write(store, stored, spark, relation, items, statement.where, statement.sql, Put)


def delete(
    store: Hummock, stored: StoredCatalog, spark: Callable[[], SparkSession], statement: DeleteFrom
) -> int:
    """Run DELETE under the condition that the table did not change meanwhile."""
    relation = source_table(stored, statement.table, "delete from")
    _refuse_append_only(relation, "DELETE")
    items = [f"`{column}`" for column in relation.primary_key]
    return _read_and_write(store, stored, spark, relation, items, statement.where, statement.sql, Delete)


def _refuse_append_only(relation: Relation, verb: str) -> None:
    if relation.append_only:
        raise InvalidRow(f"{verb} on {relation.name}: the table is APPEND ONLY, rows can only be inserted")


def _read_and_write(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    relation: Relation,
    items: list[str],
    where: exp.Expression | None,
    sql: str,
    operation: type[Put] | type[Delete],
) -> int:
    text = f"SELECT {', '.join(items)} FROM `{relation.name}`"
    if where is not None:
        text += f" WHERE {where.sql('spark')}"
    deadline = time.monotonic() + WRITE_DEADLINE_SECONDS
    while True:
        table = store.refresh().tables[relation.name]
        rows = _evaluate(store, stored, spark, text, (relation.name,), sql)
        rows = typed_rows(relation, rows, tuple(rows.column_names))
        if rows.num_rows == 0:
            return 0
        try:
            store.ingest_batch({relation.name: [operation(rows)]}, precondition=_unchanged(table))
            return rows.num_rows
        except Conflict:
            if time.monotonic() > deadline:
                raise


def _evaluate(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    text: str,
    tables: tuple[str, ...],
    sql: str,
) -> pa.Table:
    session, version = spark(), store.version
    register(session, store, version, stored, dict.fromkeys(tables, version.epoch))
    try:
        return session.sql(text).toArrow()
    except AnalysisException as error:
        raise SqlError((error.getMessage() or str(error)).splitlines()[0], sql=sql) from error
    except PySparkException as error:
        raise InvalidRow(str(error).splitlines()[0]) from error
