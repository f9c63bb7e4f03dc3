"""Writes to source tables: rows are checked and typed, then durable in one commit before the statement returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import sqlglot.expressions as exp
from pyspark.sql import SparkSession

from engine.errors import Conflict, DuplicateKey, InvalidRow, SqlError
from engine.hummock import Delete, Hummock, Put
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.runtime.conflicts import (
    WRITE_DEADLINE_SECONDS,
    insert_rows,
    last_by_key,
    refuse_twice,
    resolved,
    unchanged,
)
from engine.runtime.drop import known, place_of
from engine.runtime.rows import (
    ROW_ID,
    completed,
    shown_names,
    stored_names,
    typed_rows,
    visible_columns,
    with_row_ids,
)
from engine.runtime.spark_read import analysed, collect, temporary_views, view_prefix
from engine.sql.ad_hoc import query_tables, spark_query
from engine.sql.catalog import Catalog, Relation
from engine.sql.expression_types import INTEGRAL
from engine.sql.macros import cast_type
from engine.sql.names import identifier
from engine.sql.postgres_bytea import given_bytea
from engine.sql.refusals import mistake
from engine.sql.statement_types import DeleteFrom, Insert, OnConflict, Update
from engine.sql.types import to_arrow
from engine.sql.values import known_columns, literal_rows, rows_by_default

Mode = Literal["insert", "upsert", "delete"]
Spark = Callable[[], SparkSession]


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
    typed = _typed(relation, rows, spark)
    return insert_rows(store, relation, typed, "overwrite" if mode == "upsert" else relation.on_conflict)[0]


def _typed(relation: Relation, rows: pa.Table, spark: Spark) -> pa.Table:
    """Return whole rows of a table under the names of the store."""
    whole = completed(relation, rows, spark)
    return stored_names(relation, typed_rows(relation, whole, [column.name for column in relation.columns]))


def insert(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: Insert, dialect: str
) -> pa.Table | None:
    """Run INSERT … VALUES or INSERT … SELECT; returns what RETURNING asks for."""
    relation = source_table(stored, statement.table, "insert into", statement.sql)
    known_columns(statement, relation)
    run = _Run(store, stored, spark, relation, dialect, statement.sql)
    parts = [_typed(relation, run.given(part), spark) for part in rows_by_default(statement, relation)]
    rows = pa.concat_tables(parts)
    if statement.conflict is None:
        _, written = insert_rows(store, relation, rows, relation.on_conflict)
    elif not statement.conflict.assignments:
        _key_is_meant(relation, statement.conflict, statement.sql)
        _, written = insert_rows(store, relation, rows, "ignore")
    else:
        _key_is_meant(relation, statement.conflict, statement.sql)
        _refuse_append_only(relation, "ON CONFLICT DO UPDATE")
        rows = with_row_ids(store, rows)
        refuse_twice(relation, rows)
        conflict = statement.conflict
        _, written = resolved(
            store, relation, rows, lambda new, known, old: run.merged(conflict, new, known, old)
        )
    return run.returned(statement.returning, shown_names(relation, written), None)


def update(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: Update, dialect: str
) -> pa.Table | None:
    """Run UPDATE: rows are read and written under the condition that the table did not change meanwhile."""
    relation = source_table(stored, statement.table, "update", statement.sql)
    _refuse_append_only(relation, "UPDATE")
    run = _Run(store, stored, spark, relation, dialect, statement.sql)
    alias = statement.alias or relation.name
    changed = _assignable(relation, statement.assignments, statement.sql)
    items = [
        run.assigned(changed[column.name], column.type, column.name)
        if column.name in changed
        else exp.column(exp.to_identifier(column.name, quoted=True), table=alias)
        for column in relation.columns
        if column.generated is None and not (column.name in changed and _is_default(changed[column.name]))
    ]
    query = _selection(relation, alias, items, statement.sources, statement.where)

    def put(rows: pa.Table) -> tuple[Put, pa.Table]:
        whole = _typed(relation, rows, spark)
        if statement.sources and last_by_key(whole, relation.primary_key).num_rows != whole.num_rows:
            raise DuplicateKey(
                f"UPDATE of {relation.name}: FROM gives more than one new row for a key; make its rows unique"
            )
        return Put(whole), whole

    written = run.read_and_write(query, put)
    return run.returned(statement.returning, shown_names(relation, written), alias)


def delete(
    store: Hummock, stored: StoredCatalog, spark: Spark, statement: DeleteFrom, dialect: str
) -> pa.Table | None:
    """Run DELETE under the condition that the table did not change meanwhile."""
    relation = source_table(stored, statement.table, "delete from", statement.sql)
    _refuse_append_only(relation, "DELETE")
    run = _Run(store, stored, spark, relation, dialect, statement.sql)
    alias = statement.alias or relation.name
    names = [c.name for c in relation.columns if statement.returning or c.source in relation.primary_key]
    items = [exp.column(exp.to_identifier(name, quoted=True), table=alias) for name in names]
    query = _selection(relation, alias, items, statement.sources, statement.where)

    def drop(rows: pa.Table) -> tuple[Delete, pa.Table]:
        gone = stored_names(relation, typed_rows(relation, rows, names))
        gone = last_by_key(gone, relation.primary_key)
        return Delete(gone.select(list(relation.primary_key))), gone

    written = run.read_and_write(query, drop)
    return run.returned(statement.returning, shown_names(relation, written), alias)


@dataclass(frozen=True)
class _Run:
    """One statement that writes to `relation`."""

    store: Hummock
    stored: StoredCatalog
    spark: Spark
    relation: Relation
    dialect: str
    sql: str

    def given(self, statement: Insert) -> pa.Table:
        """Return the rows of an INSERT under the names of its columns, in their types."""
        relation = self.relation
        columns = statement.columns or visible_columns(relation)
        kinds = {column.name: column.type for column in relation.columns}
        if self.dialect != "spark":
            given = given_bytea(statement.rows, tuple(kinds[name] for name in columns), self.sql)
            statement = replace(statement, rows=given)
        literals = literal_rows(statement, relation, self.dialect)
        if literals is not None:
            values = list(zip(*literals, strict=True))
            try:
                arrays = [
                    pa.array(list(given), to_arrow(kinds[name]))
                    for name, given in zip(columns, values, strict=True)
                ]
            except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError) as error:
                raise InvalidRow(f"insert into {relation.name}: {error}") from error
            return pa.Table.from_arrays(arrays, names=list(columns))
        query = statement.rows
        tables = query_tables(query, self.stored.catalog, self.sql) if isinstance(query, exp.Query) else ()
        version = self.store.refresh()
        epochs = epochs_of(version, self.stored, tables)
        written = spark_query(query, self.stored.catalog, self.dialect, view_prefix(), self.sql)
        session = self.spark()
        with temporary_views(session, self.store, version, self.stored, written.readings, epochs):
            frame = analysed(session, written.text, self.sql)
            if len(frame.columns) != len(columns):
                message = f"INSERT gives {len(frame.columns)} values for {len(columns)} columns"
                raise mistake(message, query, self.sql, f"the columns are {', '.join(columns)}")
            places = [f"_c{n}" for n in range(len(columns))]
            frame = frame.toDF(*places)
            types = [field.dataType.simpleString() for field in frame.schema.fields]
            items = [
                f"CAST({self._rounded(place, given, kinds[name])} AS {kinds[name]}) AS {place}"
                for place, given, name in zip(places, types, columns, strict=True)
            ]
            return collect(frame.selectExpr(*items), self.sql).rename_columns(list(columns))

    def _rounded(self, text: str, given: str, wanted: str) -> str:
        if self.dialect != "spark" and wanted in INTEGRAL:
            if given in ("float", "double"):
                return f"BROUND({text}, 0)"
            if given.startswith("decimal"):
                return f"ROUND({text}, 0)"
        if given == "interval" and wanted == "interval day to second":
            parts = ", ".join(f"EXTRACT({unit} FROM {text})" for unit in ("DAY", "HOUR", "MINUTE", "SECOND"))
            months = f"EXTRACT(YEAR FROM {text}) <> 0 OR EXTRACT(MONTH FROM {text}) <> 0"
            wrong = "raise_error('an interval column holds days and less, no months')"
            return f"IF({months}, {wrong}, make_dt_interval({parts}))"
        return text

    def assigned(self, value: exp.Expression, kind: str, name: str) -> exp.Expression:
        """Return an expression as the new value of a column."""
        cast = exp.Cast(this=exp.Paren(this=value.copy()), to=cast_type(kind))
        return exp.alias_(cast, exp.to_identifier(name, quoted=True))

    def read_and_write(
        self, query: exp.Select, operation: Callable[[pa.Table], tuple[Put | Delete, pa.Table]]
    ) -> pa.Table:
        """Commit what `operation` makes of a query's rows, as if no one wrote to the table meanwhile; returns the rows."""
        name = self.relation.name
        query_tables(query, self.stored.catalog, self.sql)
        written = spark_query(query, self.stored.catalog, self.dialect, view_prefix(), self.sql)
        others = tuple(reading.table for reading in written.readings if reading.table != name)
        deadline = time.monotonic() + WRITE_DEADLINE_SECONDS
        session = self.spark()
        while True:
            version = self.store.refresh()
            epochs = {name: version.epoch, **epochs_of(version, self.stored, others)}
            with temporary_views(
                session, self.store, version, self.stored, written.readings, epochs, whole=name
            ):
                found = collect(analysed(session, written.text, self.sql), self.sql)
            step, rows = operation(found)
            if rows.num_rows == 0:
                return rows
            try:
                self.store.ingest_batch({name: [step]}, precondition=unchanged(version.tables[name]))
                return rows
            except Conflict:
                if time.monotonic() > deadline:
                    raise

    def merged(self, conflict: OnConflict, rows: pa.Table, known: np.ndarray, old: pa.Table) -> pa.Table:
        """Return what ON CONFLICT DO UPDATE writes: new rows as they are, known ones updated."""
        if not len(known):
            return rows
        relation = self.relation
        fresh = np.ones(rows.num_rows, dtype=bool)
        fresh[known] = False
        new, excluded = rows.filter(pa.array(fresh)), rows.take(pa.array(known))
        changed = _assignable(relation, conflict.assignments, self.sql)
        key = [c.name for c in relation.columns if c.source in relation.primary_key]
        items, t = [], relation.name
        for column in relation.columns:
            if column.generated is not None or (column.name in changed and _is_default(changed[column.name])):
                continue
            if column.name in changed:
                value = _qualified(changed[column.name], t)
                items.append(self.assigned(value, column.type, column.name))
            else:
                items.append(exp.column(exp.to_identifier(column.name, quoted=True), table=t))
        both = exp.and_(
            *(
                exp.column(name, table=t, quoted=True).eq(exp.column(name, table="excluded", quoted=True))
                for name in key
            )
        )
        where = both if conflict.where is None else exp.and_(both, _qualified(conflict.where, t))
        query = _selection(relation, t, items, (exp.to_table("excluded"),), where)
        shown = {t: shown_names(relation, old), "excluded": shown_names(relation, excluded)}
        updated = self._over(query, shown)
        return pa.concat_tables([new, _typed(relation, updated, self.spark)])

    def _over(self, query: exp.Select, given: dict[str, pa.Table]) -> pa.Table:
        """Return the rows of a query in which some tables have the rows that are given."""
        relations = dict(self.stored.catalog.relations)
        for name in given:
            relations[name] = _renamed(self.relation, name)
        catalog = Catalog(relations)
        query_tables(query, catalog, self.sql)
        written = spark_query(query, catalog, self.dialect, view_prefix(), self.sql)
        version, session = self.store.refresh(), self.spark()
        others = tuple(reading.table for reading in written.readings if reading.table not in given)
        epochs = epochs_of(version, self.stored, others)
        views = temporary_views(
            session, self.store, version, self.stored, written.readings, epochs, given=given
        )
        with views:
            return collect(analysed(session, written.text, self.sql), self.sql)

    def returned(
        self, items: tuple[exp.Expression, ...], rows: pa.Table, alias: str | None
    ) -> pa.Table | None:
        """Return what RETURNING says of the rows that were written, or None without it."""
        if not items:
            return None
        relation = self.relation
        shown = visible_columns(relation)
        rows = rows.select(list(shown))
        names: list[str] = []
        for item in items:
            if isinstance(item, exp.Star):
                names += shown
            elif isinstance(item, exp.Column) and identifier(item.this) in shown:
                names.append(identifier(item.this))
            else:
                query = _selection(relation, alias or relation.name, list(items), (), None)
                return self._over(query, {relation.name: rows})
        return rows.select(names)


def _renamed(relation: Relation, name: str) -> Relation:
    """Return a relation under another name."""
    return msgspec.structs.replace(relation, name=name)


def _selection(
    relation: Relation,
    alias: str,
    items: list[exp.Expression],
    sources: tuple[exp.Expression, ...],
    where: exp.Expression | None,
) -> exp.Select:
    table = exp.Table(
        this=exp.to_identifier(relation.name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )
    query = exp.Select(expressions=[item.copy() for item in items]).from_(table, copy=False)
    for source in sources:
        query.append("joins", exp.Join(this=source.copy(), kind="CROSS"))
    return query.where(where.copy(), copy=False) if where is not None else query


def _qualified(node: exp.Expression, alias: str) -> exp.Expression:
    """Return an expression in which a column without a table, outside of subqueries, is one of `alias`."""

    def qualify(part: exp.Expression) -> exp.Expression:
        bare = isinstance(part, exp.Column) and not part.args.get("table")
        if bare and part.find_ancestor(exp.Query) is None:
            part.set("table", exp.to_identifier(alias, quoted=True))
        return part

    return node.copy().transform(qualify, copy=False)


def _assignable(
    relation: Relation, assignments: tuple[tuple[str, exp.Expression], ...], sql: str
) -> dict[str, exp.Expression]:
    columns = {column.name: column for column in relation.columns if not column.hidden}
    for name, value in assignments:
        if name not in columns:
            hint = f"its columns are {', '.join(columns)}"
            raise mistake(f"table {relation.name} has no column {name}", value.parent or value, sql, hint)
        if columns[name].source in relation.primary_key:
            hint = "DELETE the row and INSERT the new one"
            message = f"{name} is part of the primary key of {relation.name}, which an UPDATE keeps"
            raise mistake(message, value.parent or value, sql, hint)
        if columns[name].generated is not None and not _is_default(value):
            hint = "set the columns that it is computed from"
            raise mistake(f"column {name} of {relation.name} is generated", value.parent or value, sql, hint)
    return dict(assignments)


def _is_default(node: exp.Expression) -> bool:
    if isinstance(node, exp.Var):
        return node.name.upper() == "DEFAULT"
    return (
        isinstance(node, exp.Column)
        and not node.args.get("table")
        and not node.this.args.get("quoted")
        and node.name.upper() == "DEFAULT"
    )


def _key_is_meant(relation: Relation, conflict: OnConflict, sql: str) -> None:
    key = [c.name for c in relation.columns if c.source in relation.primary_key]
    if set(conflict.keys) != set(key) and (conflict.keys or conflict.assignments):
        shown = ", ".join(key)
        message = f"ON CONFLICT needs the primary key of {relation.name}, which is ({shown})"
        raise mistake(message, conflict.node, sql, f"write ON CONFLICT ({shown})")


def _refuse_append_only(relation: Relation, verb: str) -> None:
    if relation.append_only:
        raise InvalidRow(f"{verb} on {relation.name}: the table is APPEND ONLY, rows can only be inserted")
