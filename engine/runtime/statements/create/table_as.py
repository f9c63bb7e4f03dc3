"""CREATE TABLE AS: a table's columns by its query's schema, and its rows as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from engine.errors import UnsupportedSql
from engine.hummock import SstInfo, Table
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.query_policy import choose_epochs
from engine.runtime.reads.spark_read import (
    TablesAtEpochs,
    analyze_sql,
    make_view_prefix,
    register_temporary_views,
)
from engine.runtime.rows import assign_row_ids, convert_rows, to_stored_names
from engine.runtime.statement_context import StatementContext
from engine.runtime.writes.conflicts import refuse_duplicates
from engine.runtime.writes.spill import SpilledRows
from engine.runtime.writes.statement_rows import StatementQuery
from engine.runtime.writes.write_tasks import WriteRows, append_operation, order_spilled, write_frame
from engine.spark_internals import derive_arrow_schema
from engine.sql.batch.ad_hoc import build_spark_query, query_tables
from engine.sql.catalog import ROW_ID, Relation, RelationColumn, check_name
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.statements.statement_types import CreateTable
from engine.sql.typing.types import from_arrow


@contextmanager
def open_table_query(
    statement: CreateTable, stored: StoredCatalog, context: StatementContext
) -> Iterator[StatementQuery]:
    """Give the query of CREATE TABLE AS, analysed and not run yet."""
    store, query = context.store, statement.as_query
    version = store.version
    assert query is not None
    query_tables(query, stored.catalog, statement.sql)
    spark_query = build_spark_query(query, stored.catalog, context.dialect, make_view_prefix(), statement.sql)
    tables = tuple(r.table for r in spark_query.readings if r.moment is None)
    epochs = choose_epochs(version, stored, tables, "consistent")
    session = context.spark()
    with register_temporary_views(session, TablesAtEpochs(store, version, stored, epochs), spark_query):
        frame = analyze_sql(session, spark_query.text, statement.sql)
        yield StatementQuery(store, session, version, spark_query, frame, statement.sql)


def build_columns(
    rows: StatementQuery, statement: CreateTable, documents: Mapping[str, str]
) -> tuple[tuple[RelationColumn, ...], tuple[str, ...]]:
    """Return the columns and the key of a table that is made from a query; raises SqlError for names and types it cannot have."""
    query, key = statement.as_query, statement.primary_key
    schema = derive_arrow_schema(rows.frame.schema)
    kinds = []
    for field in schema:
        try:
            kinds.append(from_arrow(field.type))
        except UnsupportedSql as error:
            hint = "cast it in the SELECT"
            raise sql_error(f"column {field.name}: {error.message}", query, statement.sql, hint) from error
    names = [check_name(field.name, "column", statement.sql) for field in schema]
    for name in names:
        if [n.lower() for n in names].count(name.lower()) > 1:
            raise sql_error(
                f"two columns are named {name}", query, statement.sql, "give one of them another name with AS"
            )
    for name in key:
        if name not in names:
            message = f"PRIMARY KEY names {name}, which is no column of {statement.name}"
            raise sql_error(message, query, statement.sql, f"columns are {', '.join(names)}")
    found = (
        RelationColumn(name, kind, name not in key, sql_type=documents.get(name))
        for name, kind in zip(names, kinds, strict=True)
    )
    return tuple(found), key


def write_query_rows(query: StatementQuery, relation: Relation, table: Table) -> tuple[SstInfo, ...]:
    """Run the query and return the files of its rows: few are written here, many by Spark's tasks.

    Raises DuplicateKey for a key that occurs twice, and InvalidRow for one without a value.
    """
    store = query.store
    rows = query.read()
    if isinstance(rows, SpilledRows):
        numbered = ROW_ID in relation.primary_key
        rows = rows.assign_row_ids(store) if numbered else rows
        body = WriteRows(store.url, dict(store.options), relation, table, "new" if numbered else "once")
        return write_frame(body, order_spilled(body, rows, query.session), query.sql)[0]
    whole = convert_rows(relation, rows, [column.name for column in relation.columns])
    typed = assign_row_ids(store, to_stored_names(relation, whole))
    if ROW_ID not in relation.primary_key:
        refuse_duplicates(relation, typed)
    return tuple(store.reader.write_run(table, append_operation(table, typed, delete=False)))
