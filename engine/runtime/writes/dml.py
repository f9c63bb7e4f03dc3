"""Writes to source tables: rows are checked and typed, then durable in one commit before the statement returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import DuplicateKey, InvalidRow, SqlError
from engine.hummock import Delete, Hummock, Put, TableVersion
from engine.hummock.batch import Operation
from engine.hummock.driver_traffic import traffic_of
from engine.meta.catalog_store import StoredCatalog
from engine.runtime.relations import known, place_of
from engine.runtime.rows import named_as, shown_names, stored_names, typed_rows, with_row_ids
from engine.runtime.writes.conflicts import (
    Inserted,
    delete_by_key,
    insert_rows,
    last_by_key,
    refuse_twice,
    resolved,
)
from engine.runtime.writes.dml_queries import (
    assignable,
    constants_of,
    key_columns,
    key_is_meant,
    old_key_items,
    refuse_append_only,
    refuse_assignments,
    selection,
    update_items,
)
from engine.runtime.writes.dml_run import TWO_NEW_ROWS, Reading, Spark, StatementRun, whole_rows
from engine.runtime.writes.moved_rows import moved_rows
from engine.runtime.writes.returned_sources import Returned, returned_of
from engine.runtime.writes.row_versions import folded, newer
from engine.runtime.writes.spilled import Spilled
from engine.runtime.writes.watermarks import late_words
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.dialect import Dialect
from engine.sql.schemas import last_name
from engine.sql.statements.statement_types import DeleteFrom, Insert, Update
from engine.sql.statements.values import known_columns, rows_by_default

Mode = Literal["insert", "upsert", "delete"]
Notice = Callable[[str], None]


def source_table(stored: StoredCatalog, name: str, verb: str, sql: str = "") -> Relation:
    """Return the relation if users may write to it; raises InvalidRow for a view, or SqlError with the place in `sql`."""
    relation = known(stored, "", name, sql, system=True) if sql else stored.catalog.get(name)
    if relation.kind != "table" and sql:
        line, column = place_of(name, sql)
        message = f"cannot {verb} {name}: it is a {relation.kind}"
        hint = "its rows come by its connector" if relation.passes else "write to the tables that it reads"
        raise SqlError(message, sql=sql, line=line, column=column, hint=hint)
    if relation.kind != "table":
        raise InvalidRow(f"cannot {verb} {name}: it is a {relation.kind}; write to the tables that it reads")
    return relation


def write(
    store: Hummock, stored: StoredCatalog, spark: Spark, name: str, rows: pa.Table, mode: Mode
) -> tuple[int, str]:
    """Write rows to a source table and return the epoch of their commit, and a notice if rows were late, else "".

    "insert": a known key is an error, or what the table's ON CONFLICT says; "upsert": the newest row of a key wins;
    "delete": the key columns suffice. Columns that are left out get their DEFAULT.
    """
    if mode not in ("insert", "upsert", "delete"):
        raise InvalidRow(f'mode "{mode}" is unknown: use "insert", "upsert" or "delete"')
    relation = source_table(stored, name, f"{mode} rows of")
    store.counters.passed(f"statement {relation.name}", rows.nbytes)
    keyless = ROW_ID in relation.primary_key
    if relation.append_only and (mode == "delete" or (mode == "upsert" and not keyless)):
        raise InvalidRow(f"table {relation.name} is APPEND ONLY: rows can only be inserted")
    if mode == "upsert" and keyless:
        mode = "insert"
    rows = named_as(relation, rows)
    if mode == "delete":
        key = [c.name for c in relation.columns if c.source in relation.unique_key]
        keys = stored_names(relation, typed_rows(relation, rows, key))
        return delete_by_key(store, relation, keys), ""
    typed = whole_rows(relation, rows, spark)
    if mode == "upsert" and relation.unique_key != relation.primary_key:
        done = insert_rows(store, relation, typed, "overwrite")
        return done.epoch, late_words(relation, done.late)
    if mode == "upsert":  # the store keeps the last row of a key: looking for it here would only cost memory
        return store.ingest_batch({relation.name: [Put(typed)]}), ""
    done = insert_by_table(store, relation, typed)
    return done.epoch, late_words(relation, done.late)


def insert_by_table(store: Hummock, relation: Relation, rows: pa.Table) -> Inserted:
    """Insert rows by what the table says ON CONFLICT."""
    if not relation.version_columns:
        return insert_rows(store, relation, rows, relation.on_conflict)
    return resolved(store, relation, folded(relation, rows), partial(newer, relation))


def run(
    store: Hummock,
    stored: StoredCatalog,
    spark: Spark,
    statement: Insert | Update | DeleteFrom,
    dialect: Dialect,
    notice: Notice,
) -> pa.Table | None:
    """Run a statement that writes; returns what RETURNING asks for, and tells `notice` of rows that were late."""
    with traffic_of(store.counters, f"statement {statement.table}"):
        match statement:
            case Insert():
                return insert(store, stored, spark, statement, dialect, notice)
            case Update():
                return update(store, stored, spark, statement, dialect, notice)
            case DeleteFrom():
                return delete(store, stored, spark, statement, dialect)


def insert(
    store: Hummock,
    stored: StoredCatalog,
    spark: Spark,
    statement: Insert,
    dialect: Dialect,
    notice: Notice,
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
    run.check_returned(statement.returning, statement.alias)
    parts = [run.given(part) for part in rows_by_default(statement, relation, dialect)]
    if isinstance(parts[0], Spilled):
        notice(late_words(relation, run.insert_spilled(parts[0], conflict)))
        return None
    rows = pa.concat_tables(
        [whole_rows(relation, part, spark) for part in parts if isinstance(part, pa.Table)]
    )
    if conflict is None:
        done = insert_by_table(store, relation, rows)
    elif not conflict.assignments:
        done = insert_rows(store, relation, rows, "ignore")
    else:
        rows = with_row_ids(store, rows)
        refuse_twice(relation, rows)
        done = resolved(store, relation, rows, lambda new, known, old: run.merged(conflict, new, known, old))
    notice(late_words(relation, done.late))
    return run.returned(statement.returning, shown_names(relation, done.rows), statement.alias)


def update(
    store: Hummock,
    stored: StoredCatalog,
    spark: Spark,
    statement: Update,
    dialect: Dialect,
    notice: Notice,
) -> pa.Table | None:
    """Run UPDATE: rows are read and written under the condition that the table did not change meanwhile.

    A row whose key changes is deleted and comes again under its new one. Raises DuplicateKey if another row has that. One that
    is moved below the table's watermark is deleted, and late.
    """
    relation = source_table(stored, statement.table, "update", statement.sql)
    refuse_append_only(relation, "UPDATE")
    run = StatementRun(store, stored, spark, relation, dialect, statement.sql)
    alias = statement.alias or last_name(relation.name)
    returned = _returned(run, statement, alias)
    changed = assignable(relation, statement.assignments, statement.sql)
    refuse_assignments(relation, alias, changed, statement.sql)
    items = update_items(relation, alias, changed)
    moves = any(column.name in changed for column in key_columns(relation))
    if moves:
        items += old_key_items(relation, alias)
    query = selection(relation, alias, [*items, *returned.more], statement.sources, statement.where)
    constants = None if statement.sources else constants_of(relation, changed, dialect)
    plain = [item for item in items if item.alias_or_name not in changed]
    local = None if constants is None else selection(relation, alias, plain, (), statement.where)

    def put(rows: pa.Table, table: TableVersion) -> tuple[tuple[Operation, ...], pa.Table]:
        run.check_foreign(returned, rows, alias)
        if moves:
            steps, moved = moved_rows(store, relation, table, rows.drop_columns(returned.names), spark)
            return steps, _beside(moved, rows, returned)
        whole = whole_rows(relation, rows.drop_columns(returned.names), spark)
        if statement.sources and last_by_key(whole, relation.primary_key).num_rows != whole.num_rows:
            raise DuplicateKey(TWO_NEW_ROWS.format(table=relation.name))
        return (Put(whole),), _beside(whole, rows, returned)

    reading = Reading(query, None if moves else "once", local, constants or {})
    written = run.read_and_write(reading, put, statement, notice)
    if written is None:
        return None
    return run.returned_of(returned, written, alias)


def _returned(run: StatementRun, statement: Update | DeleteFrom, alias: str) -> Returned:
    """Return what RETURNING says, checked as far as that can be done before rows are read."""
    catalog = run.stored.catalog
    found = returned_of(statement.returning, run.relation, alias, statement.sources, catalog, run.sql)
    if not found.more:
        run.check_returned(found.items, alias)
    return found


def _beside(rows: pa.Table, read: pa.Table, returned: Returned) -> pa.Table:
    """Return rows with the columns of other tables that were read beside them."""
    for name in returned.names:
        rows = rows.append_column(name, read.column(name))
    return rows


def delete(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: DeleteFrom, dialect: Dialect
) -> pa.Table | None:
    """Run DELETE or TRUNCATE under the condition that the table did not change meanwhile."""
    truncates = statement.truncates
    relation = source_table(
        stored, statement.table, "truncate" if truncates else "delete from", statement.sql
    )
    refuse_append_only(relation, "TRUNCATE" if truncates else "DELETE")
    run = StatementRun(store, stored, spark, relation, dialect, statement.sql)
    alias = statement.alias or last_name(relation.name)
    returned = _returned(run, statement, alias)
    names = [c.name for c in relation.columns if statement.returning or c.source in relation.primary_key]
    items: list[exp.Expr] = [
        exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
        for name in names
    ]
    query = selection(relation, alias, [*items, *returned.more], statement.sources, statement.where)

    def drop(rows: pa.Table, _: TableVersion) -> tuple[tuple[Operation, ...], pa.Table]:
        run.check_foreign(returned, rows, alias)
        own = typed_rows(relation, rows.drop_columns(returned.names), names)
        gone = _beside(stored_names(relation, own), rows, returned)
        gone = last_by_key(gone, relation.primary_key)
        return (Delete(gone.select(list(relation.primary_key))),), gone

    reading = Reading(query, "delete", None if statement.sources else query)
    written = run.read_and_write(reading, drop, statement)
    if written is None:
        return None
    return run.returned_of(returned, written, alias)
