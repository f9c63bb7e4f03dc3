"""CREATE TABLE AS: a table's columns by its query's schema, and its rows as files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from engine.errors import UnsupportedSql
from engine.hummock import Hummock, SstInfo, Table
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.runtime.reads.spark_read import TablesAt, analysed, temporary_views, view_prefix
from engine.runtime.rows import stored_names, typed_rows, with_row_ids
from engine.runtime.writes.conflicts import refuse_twice
from engine.runtime.writes.spilled import Spilled
from engine.runtime.writes.statement_rows import StatementRows
from engine.runtime.writes.write_tasks import WriteRows, spilled_rows, with_operation, write_frame
from engine.spark_internals import arrow_schema
from engine.sql.batch.ad_hoc import query_tables, spark_query
from engine.sql.catalog import ROW_ID, Column, Relation, check_name
from engine.sql.dialect import Dialect
from engine.sql.parsing.refusals import mistake
from engine.sql.statements.statement_types import CreateTable
from engine.sql.typing.types import from_arrow


@contextmanager
def table_query(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    statement: CreateTable,
    dialect: Dialect,
) -> Iterator[StatementRows]:
    """Give the query of CREATE TABLE AS, analysed and not run yet."""
    query, version = statement.as_query, store.version
    assert query is not None
    query_tables(query, stored.catalog, statement.sql)
    written = spark_query(query, stored.catalog, dialect, view_prefix(), statement.sql)
    tables = tuple(r.table for r in written.readings if r.moment is None)
    epochs = epochs_of(version, stored, tables, "consistent")
    session = spark()
    with temporary_views(session, TablesAt(store, version, stored, epochs), written):
        frame = analysed(session, written.text, statement.sql)
        yield StatementRows(store, session, version, written, frame, statement.sql)


def columns_of(
    rows: StatementRows, statement: CreateTable, documents: Mapping[str, str]
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return the columns and the key of a table that is made from a query; raises SqlError for names and types it cannot have."""
    query, key = statement.as_query, statement.primary_key
    schema = arrow_schema(rows.frame.schema)
    kinds = []
    for field in schema:
        try:
            kinds.append(from_arrow(field.type))
        except UnsupportedSql as error:
            hint = "cast it in the SELECT"
            raise mistake(f"column {field.name}: {error.message}", query, statement.sql, hint) from error
    names = [check_name(field.name, "column", statement.sql) for field in schema]
    for name in names:
        if [n.lower() for n in names].count(name.lower()) > 1:
            raise mistake(
                f"two columns are named {name}", query, statement.sql, "give one of them another name with AS"
            )
    for name in key:
        if name not in names:
            message = f"PRIMARY KEY names {name}, which is no column of {statement.name}"
            raise mistake(message, query, statement.sql, f"columns are {', '.join(names)}")
    found = (
        Column(name, kind, name not in key, sql_type=documents.get(name))
        for name, kind in zip(names, kinds, strict=True)
    )
    return tuple(found), key


def written_rows(query: StatementRows, relation: Relation, table: Table) -> tuple[SstInfo, ...]:
    """Run the query and return the files of its rows: few are written here, many by Spark's tasks.

    Raises DuplicateKey for a key that stands twice, and InvalidRow for one without a value.
    """
    store = query.store
    rows = query.read()
    if isinstance(rows, Spilled):
        numbered = ROW_ID in relation.primary_key
        rows = rows.numbered(store) if numbered else rows
        body = WriteRows(store.url, dict(store.options), relation, table, "new" if numbered else "once")
        return write_frame(body, spilled_rows(body, rows, query.session), query.sql)[0]
    whole = typed_rows(relation, rows, [column.name for column in relation.columns])
    typed = with_row_ids(store, stored_names(relation, whole))
    if ROW_ID not in relation.primary_key:
        refuse_twice(relation, typed)
    return tuple(store.reader.write_run(table, with_operation(table, typed, delete=False)))
