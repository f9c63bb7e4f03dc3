"""Writes to source tables: rows are checked and typed, then durable in one commit before the statement returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import DuplicateKey, InvalidRow
from engine.hummock import Delete, Hummock, Put, TableVersion
from engine.hummock.monitoring.driver_traffic import track_traffic
from engine.hummock.writes.batch import Operation
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.runtime.relations import build_name_error, resolve_relation
from engine.runtime.rows import (
    assign_row_ids,
    convert_rows,
    match_column_names,
    to_stored_names,
    to_visible_names,
)
from engine.runtime.statement_context import StatementContext
from engine.runtime.writes.conflicts import (
    UPDATE_IF_NOT_NULL,
    Inserted,
    delete_by_key,
    insert_rows,
    refuse_duplicates,
    retain_last_by_key,
    write_resolved,
)
from engine.runtime.writes.dml_queries import (
    build_old_key_items,
    build_selection,
    build_update_items,
    check_conflict_key,
    find_constants,
    list_key_columns,
    refuse_append_only,
    refuse_assignments,
    resolve_assignments,
    value_items,
)
from engine.runtime.writes.dml_run import (
    TWO_NEW_ROWS,
    StatementRead,
    StatementRun,
    complete_stored_rows,
)
from engine.runtime.writes.moved_rows import move_rows
from engine.runtime.writes.returning import Returning, resolve_returning
from engine.runtime.writes.row_versions import resolve_versions
from engine.runtime.writes.spill import SpilledRows
from engine.runtime.writes.watermarks import ArrivingRows, format_late_notice
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.schemas import strip_schema
from engine.sql.statements.dml.literal_rows import check_known_columns, split_default_rows
from engine.sql.statements.statement_types import DeleteFrom, Insert, Update

Mode = Literal["insert", "upsert", "delete"]


def resolve_writable(stored: StoredCatalog, name: str, verb: str, sql: str = "") -> Relation:
    """Return the relation if users may write to it; raises InvalidRow for a view, or SqlError with the place in `sql`."""
    relation = resolve_relation(stored, "", name, sql, system=True) if sql else stored.catalog.get(name)
    if relation.kind != "table" and sql:
        message = f"cannot {verb} {name}: it is a {relation.kind}"
        hint = (
            "its rows come by its connector"
            if relation.is_pass_through
            else "write to the tables that it reads"
        )
        raise build_name_error(message, name, sql, hint)
    if relation.kind != "table":
        raise InvalidRow(f"cannot {verb} {name}: it is a {relation.kind}; write to the tables that it reads")
    return relation


def write_rows(name: str, rows: pa.Table, mode: Mode, context: StatementContext) -> tuple[int, str]:
    """Write rows to a source table and return the epoch of their commit, and a notice if rows were late, else "".

    "insert": a known key is an error, or what the table's ON CONFLICT says; "upsert": the newest row of a key wins;
    "delete": the key columns suffice. Columns that are left out get their DEFAULT.
    """
    store, stored = context.store, context.stored
    if mode not in ("insert", "upsert", "delete"):
        raise InvalidRow(f'mode "{mode}" is unknown: use "insert", "upsert" or "delete"')
    relation = resolve_writable(stored, name, f"{mode} rows of")
    store.counters.add_driver_bytes(f"statement {relation.name}", rows.nbytes)
    keyless = ROW_ID in relation.primary_key
    if relation.append_only and (mode == "delete" or (mode == "upsert" and not keyless)):
        raise InvalidRow(f"table {relation.name} is APPEND ONLY: rows can only be inserted")
    if mode == "upsert" and keyless:
        mode = "insert"
    rows = match_column_names(relation, rows)
    if mode == "delete":
        key = [c.name for c in relation.columns if c.storage_name in relation.unique_key]
        keys = to_stored_names(relation, convert_rows(relation, rows, key))
        return delete_by_key(store, relation, keys), ""
    typed = complete_stored_rows(relation, rows, context.spark)
    if mode == "upsert" and relation.watermark is not None:
        done = insert_rows(store, relation, typed, "overwrite")
        return done.epoch, format_late_notice(relation, done.late)
    if mode == "upsert":  # the store keeps the last row of a key: looking for it here would only cost memory
        return store.ingest_batch({relation.name: [Put(typed)]}), ""
    done = insert_by_policy(store, relation, typed)
    return done.epoch, format_late_notice(relation, done.late)


def insert_by_policy(store: Hummock, relation: Relation, rows: pa.Table) -> Inserted:
    """Insert rows by what the table says ON CONFLICT."""
    merges_late = relation.on_conflict == UPDATE_IF_NOT_NULL and relation.watermark is not None
    if not relation.version_columns and not merges_late:
        return insert_rows(store, relation, rows, relation.on_conflict)

    def resolve(found: pa.Table, known: np.ndarray, old: pa.Table) -> pa.Table:
        late = ArrivingRows(store, store.version, relation).mark_late(found)
        return resolve_versions(relation, found, known, old, late)

    return write_resolved(store, relation, rows, resolve)


Write = TypeVar("Write", Insert, Update, DeleteFrom)


def execute_insert(statement: Insert, context: StatementContext) -> pa.Table | None:
    """Run INSERT; returns what RETURNING asks for, and gives a notice of rows that were late."""
    return _execute(_insert, statement, context)


def execute_update(statement: Update, context: StatementContext) -> pa.Table | None:
    """Run UPDATE; returns what RETURNING asks for, and gives a notice of rows that were late."""
    return _execute(_update, statement, context)


def execute_delete(statement: DeleteFrom, context: StatementContext) -> pa.Table | None:
    """Run DELETE or TRUNCATE; returns what RETURNING asks for."""
    return _execute(_delete, statement, context)


def _execute(
    write: Callable[[Write, StoredCatalog, StatementContext], pa.Table | None],
    statement: Write,
    context: StatementContext,
) -> pa.Table | None:
    stored = context.stored
    with track_traffic(context.store.counters, f"statement {statement.table}"):
        done = write(statement, stored, context)
    if context.settings.is_on("rw_implicit_flush"):
        context.session.reflect(statement.table)
    return done


def _insert(statement: Insert, stored: StoredCatalog, context: StatementContext) -> pa.Table | None:
    """Run INSERT … VALUES or INSERT … SELECT."""
    store, dialect = context.store, context.dialect
    relation = resolve_writable(stored, statement.table, "insert into", statement.sql)
    check_known_columns(statement, relation)
    conflict = statement.conflict
    if conflict is not None:
        check_conflict_key(relation, conflict, statement.sql)
        if conflict.assignments:
            refuse_append_only(relation, "ON CONFLICT DO UPDATE")
    run = StatementRun(context, stored, relation, statement.sql)
    run.check_returning(statement.returning, statement.alias)
    parts = [run.read_given(part) for part in split_default_rows(statement, relation, dialect)]
    if isinstance(parts[0], SpilledRows):
        context.session.notice(format_late_notice(relation, run.insert_spilled(parts[0], conflict)))
        return None
    rows = pa.concat_tables(
        [complete_stored_rows(relation, part, context.spark) for part in parts if isinstance(part, pa.Table)]
    )
    if conflict is None:
        done = insert_by_policy(store, relation, rows)
    elif not conflict.assignments:
        done = insert_rows(store, relation, rows, "ignore")
    else:
        rows = assign_row_ids(store, rows)
        refuse_duplicates(relation, rows)
        done = write_resolved(
            store, relation, rows, lambda new, known, old: run.merge(conflict, new, known, old)
        )
    context.session.notice(format_late_notice(relation, done.late))
    return run.return_rows(statement.returning, to_visible_names(relation, done.rows), statement.alias)


def _update(statement: Update, stored: StoredCatalog, context: StatementContext) -> pa.Table | None:
    """Run UPDATE: rows are read and written under the condition that the table did not change meanwhile.

    A row whose key changes is deleted and comes again under its new one. Raises DuplicateKey if another row has that. One that
    is moved below the table's watermark is deleted, and late.
    """
    relation = resolve_writable(stored, statement.table, "update", statement.sql)
    refuse_append_only(relation, "UPDATE")
    run = StatementRun(context, stored, relation, statement.sql)
    alias = statement.alias or strip_schema(relation.name)
    returned = _parse_returning(run, statement, alias)
    changed = resolve_assignments(relation, statement.assignments, statement.sql)
    untyped = refuse_assignments(relation, alias, changed, statement.sql)
    items = build_update_items(relation, alias, changed)
    moves = any(column.name in changed for column in list_key_columns(relation))
    if moves:
        items += build_old_key_items(relation, alias)
    query = build_selection(relation, alias, [*items, *returned.more], statement.sources, statement.where)
    constants = None if statement.sources else find_constants(relation, changed, context.dialect)
    plain = [item for item in items if item.alias_or_name not in changed]
    local = None if constants is None else build_selection(relation, alias, plain, (), statement.where)

    def put(rows: pa.Table, table: TableVersion) -> tuple[tuple[Operation, ...], pa.Table]:
        run.check_foreign_returning(returned, rows, alias)
        if moves:
            steps, moved = move_rows(run, table, rows.drop_columns(returned.names))
            return steps, _append_columns(moved, rows, returned)
        whole = complete_stored_rows(relation, rows.drop_columns(returned.names), context.spark)
        if statement.sources and retain_last_by_key(whole, relation.primary_key).num_rows != whole.num_rows:
            raise DuplicateKey(TWO_NEW_ROWS.format(table=relation.name))
        return (Put(whole),), _append_columns(whole, rows, returned)

    values = build_selection(relation, alias, value_items(untyped), statement.sources, statement.where)
    reading = StatementRead(query, None if moves else "once", local, constants or {}, untyped, values)
    result = run.read_and_write(reading, put, statement)
    if result is None:
        return None
    return run.return_beside(returned, result, alias)


def _parse_returning(run: StatementRun, statement: Update | DeleteFrom, alias: str) -> Returning:
    """Return what RETURNING says, checked as far as that can be done before rows are read."""
    catalog = run.stored.catalog
    found = resolve_returning(statement.returning, run.relation, alias, statement.sources, catalog, run.sql)
    if not found.more:
        run.check_returning(found.items, alias)
    return found


def _append_columns(rows: pa.Table, read: pa.Table, returned: Returning) -> pa.Table:
    """Return rows with the columns of other tables that were read beside them."""
    for name in returned.names:
        rows = rows.append_column(name, read.column(name))
    return rows


def _delete(statement: DeleteFrom, stored: StoredCatalog, context: StatementContext) -> pa.Table | None:
    """Run DELETE or TRUNCATE under the condition that the table did not change meanwhile."""
    truncates = statement.truncates
    relation = resolve_writable(
        stored, statement.table, "truncate" if truncates else "delete from", statement.sql
    )
    refuse_append_only(relation, "TRUNCATE" if truncates else "DELETE")
    run = StatementRun(context, stored, relation, statement.sql)
    alias = statement.alias or strip_schema(relation.name)
    returned = _parse_returning(run, statement, alias)
    names = [
        c.name for c in relation.columns if statement.returning or c.storage_name in relation.primary_key
    ]
    items: list[exp.Expr] = [
        exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
        for name in names
    ]
    query = build_selection(relation, alias, [*items, *returned.more], statement.sources, statement.where)

    def drop(rows: pa.Table, _: TableVersion) -> tuple[tuple[Operation, ...], pa.Table]:
        run.check_foreign_returning(returned, rows, alias)
        own = convert_rows(relation, rows.drop_columns(returned.names), names)
        gone = _append_columns(to_stored_names(relation, own), rows, returned)
        gone = retain_last_by_key(gone, relation.primary_key)
        return (Delete(gone.select(list(relation.primary_key))),), gone

    reading = StatementRead(query, "delete", None if statement.sources else query)
    result = run.read_and_write(reading, drop, statement)
    if result is None:
        return None
    return run.return_beside(returned, result, alias)
