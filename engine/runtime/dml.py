"""Writes to source tables: rows are checked and typed, then durable in one commit before the statement returns."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import DuplicateKey, InvalidRow, SqlError
from engine.hummock import Delete, Hummock, Put
from engine.meta.catalog_store import StoredCatalog
from engine.runtime.conflicts import insert_rows, last_by_key, refuse_twice, resolved
from engine.runtime.dml_queries import assignable, key_is_meant, refuse_append_only, selection, update_items
from engine.runtime.dml_run import TWO_NEW_ROWS, Spark, StatementRun, whole_rows
from engine.runtime.drop import known, place_of
from engine.runtime.rows import ROW_ID, shown_names, stored_names, typed_rows, with_row_ids
from engine.runtime.spilled import Spilled
from engine.sql.catalog import Relation
from engine.sql.statement_types import DeleteFrom, Insert, Update
from engine.sql.values import known_columns, rows_by_default

Mode = Literal["insert", "upsert", "delete"]


def source_table(stored: StoredCatalog, name: str, verb: str, sql: str = "") -> Relation:
    """Return the relation if users may write to it; raises InvalidRow for a view, or SqlError with the place in `sql`."""
    relation = known(stored, "", name, sql, system=True) if sql else stored.catalog.get(name)
    if relation.kind != "table" and sql:
        line, column = place_of(name, sql)
        message = f"cannot {verb} {name}: it is a {relation.kind}"
        hint = "write to the tables that it reads"
        raise SqlError(message, sql=sql, line=line, column=column, hint=hint)
    if relation.kind != "table":
        raise InvalidRow(f"cannot {verb} {name}: it is a {relation.kind}; write to the tables that it reads")
    return relation


def write(store: Hummock, stored: StoredCatalog, spark: Spark, name: str, rows: pa.Table, mode: Mode) -> int:
    """Write rows to a source table and return the epoch of their commit.

    "insert": a known key is an error, or what the table's ON CONFLICT says; "upsert": the newest row of a key wins;
    "delete": the key columns suffice. Columns that are left out get their DEFAULT.
    """
    if mode not in ("insert", "upsert", "delete"):
        raise InvalidRow(f'mode "{mode}" is unknown: use "insert", "upsert" or "delete"')
    relation = source_table(stored, name, f"{mode} rows of")
    if relation.append_only and mode != "insert":
        if mode == "delete" or ROW_ID not in relation.primary_key:
            raise InvalidRow(f"table {relation.name} is APPEND ONLY: rows can only be inserted")
        mode = "insert"
    if mode == "delete":
        key = [c.name for c in relation.columns if c.source in relation.primary_key]
        keys = stored_names(relation, typed_rows(relation, rows, key))
        return store.ingest_batch({relation.name: [Delete(keys)]})
    typed = whole_rows(relation, rows, spark)
    if mode == "upsert":  # the store keeps the last row of a key: looking for it here would only cost memory
        return store.ingest_batch({relation.name: [Put(typed)]})
    return insert_rows(store, relation, typed, relation.on_conflict)[0]


def insert(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: Insert, dialect: str
) -> pa.Table | None:
    """Run INSERT … VALUES or INSERT … SELECT; returns what RETURNING asks for."""
    relation = source_table(stored, statement.table, "insert into", statement.sql)
    known_columns(statement, relation)
    conflict = statement.conflict
    if conflict is not None:
        key_is_meant(relation, conflict, statement.sql)
        if conflict.assignments:
            refuse_append_only(relation, "ON CONFLICT DO UPDATE")
    run = StatementRun(store, stored, spark, relation, dialect, statement.sql)
    parts = [run.given(part) for part in rows_by_default(statement, relation)]
    if isinstance(parts[0], Spilled):
        run.insert_spilled(parts[0], conflict)
        return None
    rows = pa.concat_tables(
        [whole_rows(relation, part, spark) for part in parts if isinstance(part, pa.Table)]
    )
    if conflict is None:
        _, written = insert_rows(store, relation, rows, relation.on_conflict)
    elif not conflict.assignments:
        _, written = insert_rows(store, relation, rows, "ignore")
    else:
        rows = with_row_ids(store, rows)
        refuse_twice(relation, rows)
        _, written = resolved(
            store, relation, rows, lambda new, known, old: run.merged(conflict, new, known, old)
        )
    return run.returned(statement.returning, shown_names(relation, written), None)


def update(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: Update, dialect: str
) -> pa.Table | None:
    """Run UPDATE: rows are read and written under the condition that the table did not change meanwhile."""
    relation = source_table(stored, statement.table, "update", statement.sql)
    refuse_append_only(relation, "UPDATE")
    run = StatementRun(store, stored, spark, relation, dialect, statement.sql)
    alias = statement.alias or relation.name
    changed = assignable(relation, statement.assignments, statement.sql)
    items = update_items(relation, alias, changed)
    query = selection(relation, alias, items, statement.sources, statement.where)

    def put(rows: pa.Table) -> tuple[Put, pa.Table]:
        whole = whole_rows(relation, rows, spark)
        if statement.sources and last_by_key(whole, relation.primary_key).num_rows != whole.num_rows:
            raise DuplicateKey(TWO_NEW_ROWS.format(table=relation.name))
        return Put(whole), whole

    written = run.read_and_write(query, put, "once", statement)
    if written is None:
        return None
    return run.returned(statement.returning, shown_names(relation, written), alias)


def delete(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: DeleteFrom, dialect: str
) -> pa.Table | None:
    """Run DELETE under the condition that the table did not change meanwhile."""
    relation = source_table(stored, statement.table, "delete from", statement.sql)
    refuse_append_only(relation, "DELETE")
    run = StatementRun(store, stored, spark, relation, dialect, statement.sql)
    alias = statement.alias or relation.name
    names = [c.name for c in relation.columns if statement.returning or c.source in relation.primary_key]
    items: list[exp.Expr] = [exp.column(exp.to_identifier(name, quoted=True), table=alias) for name in names]
    query = selection(relation, alias, items, statement.sources, statement.where)

    def drop(rows: pa.Table) -> tuple[Delete, pa.Table]:
        gone = stored_names(relation, typed_rows(relation, rows, names))
        gone = last_by_key(gone, relation.primary_key)
        return Delete(gone.select(list(relation.primary_key))), gone

    written = run.read_and_write(query, drop, "delete", statement)
    if written is None:
        return None
    return run.returned(statement.returning, shown_names(relation, written), alias)
