"""One INSERT, UPDATE or DELETE as it runs: its rows are read, and become files that one commit makes visible."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot.expressions as exp
from pyspark.sql import DataFrame, SparkSession

from engine.arrow import repeated
from engine.errors import Conflict, InvalidRow
from engine.hummock import Commit, Hummock, SstInfo, TableVersion, Version
from engine.hummock.batch import Operation, gather
from engine.hummock.driver_traffic import held
from engine.hummock.preconditions import Precondition, same_tables
from engine.meta.catalog_store import StoredCatalog
from engine.meta.policy import epochs_of
from engine.runtime.reads.local_read import answer_locally
from engine.runtime.reads.spark_read import TablesAt, analysed, collect, temporary_views, view_prefix
from engine.runtime.rows import (
    completed,
    completed_frame,
    shown_names,
    stored_names,
    typed_rows,
    visible_columns,
)
from engine.runtime.writes.conflicts import Attempts, ingest_steps, unchanged
from engine.runtime.writes.dml_queries import fitting, merge_query, refuse_assignment, renamed, selection
from engine.runtime.writes.driver_rows import SETTING, driver_bytes
from engine.runtime.writes.key_order import InKeyOrder
from engine.runtime.writes.left_places import refuse_many
from engine.runtime.writes.returned_sources import Returned
from engine.runtime.writes.spilled import PLACE, Spilled, gathered
from engine.runtime.writes.statement_rows import StatementRows
from engine.runtime.writes.watermarks import Arrivals, Moved, late_words
from engine.runtime.writes.write_tasks import (
    LOOKS_UP,
    Rule,
    WriteRows,
    spilled_rows,
    with_operation,
    write_frame,
)
from engine.sql.batch.ad_hoc import query_tables, spark_query
from engine.sql.batch.point_read import point_read
from engine.sql.catalog import ROW_ID, Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.bytea import given_bytea
from engine.sql.dialects.postgres.literals import typed_for
from engine.sql.dialects.postgres.patterns import NotSaid
from engine.sql.parsing.names import identifier
from engine.sql.parsing.refusals import mistake
from engine.sql.schemas import last_name
from engine.sql.statements.statement_types import DeleteFrom, Insert, OnConflict, Update
from engine.sql.statements.values import literal_rows
from engine.sql.typing.types import to_arrow

Spark = Callable[[], SparkSession]
TWO_NEW_ROWS = "UPDATE of {table}: FROM gives more than one new row for a key; make its rows unique"
_MIXES = re.compile(r"\bOVER\b|\bSELECT\b.*\bSELECT\b", re.IGNORECASE | re.DOTALL)
"""Queries of one table whose rows may leave the order in which it is read."""


def whole_rows(relation: Relation, rows: pa.Table, spark: Spark) -> pa.Table:
    """Return whole rows of a table under the names of the store."""
    whole = completed(relation, rows, spark)
    return stored_names(relation, typed_rows(relation, whole, [column.name for column in relation.columns]))


@dataclass(frozen=True)
class Reading:
    """The rows that an UPDATE or DELETE reads, and the `rule` under which tasks write them if they are many (None: refused).

    `local` gives the same rows but for the columns whose values are `constants`; a store that is small answers it alone.
    """

    query: exp.Select
    rule: Rule | None
    local: exp.Select | None
    constants: Mapping[str, pa.Scalar[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class StatementRun:
    """One statement that writes to `relation`: few rows go through this process, many through Spark's tasks."""

    store: Hummock
    stored: StoredCatalog
    spark: Spark
    relation: Relation
    dialect: Dialect
    sql: str

    def given(self, statement: Insert) -> pa.Table | Spilled:
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
            return held(pa.Table.from_arrays(arrays, names=list(columns)))
        query = statement.rows
        if self.dialect != "spark" and isinstance(query, exp.Values | exp.Select):
            try:
                query = typed_for(query, tuple(kinds[name] for name in columns))
            except NotSaid as error:
                raise mistake(f"{error.what} is not offered", query, self.sql, error.hint) from error
        tables = query_tables(query, self.stored.catalog, self.sql)
        version = self.store.refresh()
        epochs = epochs_of(version, self.stored, tables)
        written = spark_query(query, self.stored.catalog, self.dialect, view_prefix(), self.sql)
        session = self.spark()
        with temporary_views(session, self._tables_at(version, epochs), written):
            frame = analysed(session, written.text, self.sql)
            if self.dialect != "spark" and statement.columns is None:  # what a row lacks has its DEFAULT
                columns = columns[: len(frame.columns)]
            if len(frame.columns) != len(columns):
                message = f"INSERT gives {len(frame.columns)} values for {len(columns)} columns"
                raise mistake(message, query, self.sql, f"the columns are {', '.join(columns)}")
            for name, field in zip(columns, frame.schema.fields, strict=True):
                refuse_assignment(relation, name, field.dataType.simpleString(), query, self.sql)
            places = [f"_c{n}" for n in range(len(columns))]
            frame = frame.toDF(*places)
            types = [field.dataType.simpleString() for field in frame.schema.fields]
            items = [
                f"CAST({fitting(place, given, kinds[name], self.dialect)} AS {kinds[name]}) AS {place}"
                for place, given, name in zip(places, types, columns, strict=True)
            ]
            typed = frame.selectExpr(*items).toDF(*columns)
            rows = StatementRows(
                self.store, session, version, written, typed, self.sql, returned=bool(statement.returning)
            )
            return rows.read()

    def insert_spilled(self, rows: Spilled, conflict: OnConflict | None) -> int:
        """Insert spilled rows by Spark's tasks, as if no one wrote to the table meanwhile; returns how many were late."""
        relation, session, attempts = self.relation, self.spark(), Attempts()
        rule: Rule = relation.on_conflict
        if relation.version_columns:
            rule = "versions"
        if conflict is not None:
            rule = "split" if conflict.assignments else "ignore"
        refuse_many(relation, rows.rows, SETTING)
        if ROW_ID in relation.primary_key:  # no other row has its key, whoever writes meanwhile
            rows, rule = rows.numbered(self.store), "new"
        while True:
            version = self.store.refresh()
            table = version.tables[relation.name]
            body = self._writing(table, rule)
            arrivals = Arrivals(self.store, version, relation)
            ordered = spilled_rows(body, rows, session, arrivals)
            ssts, known = write_frame(body, ordered, self.sql)
            if known and conflict is not None:
                ssts += self._merged_spilled(conflict, known, version)
            try:
                self._commit(ssts, table, unchanged(table) if rule in LOOKS_UP else None, arrivals)
                return arrivals.late
            except Conflict as error:
                if (rule not in LOOKS_UP and not isinstance(error, Moved)) or attempts.failed():
                    raise

    def read_and_write(
        self,
        reading: Reading,
        operation: Callable[[pa.Table, TableVersion], tuple[Sequence[Operation], pa.Table]],
        statement: Update | DeleteFrom,
        notice: Callable[[str], None] | None = None,
    ) -> pa.Table | None:
        """Commit what `operation` makes of a query's rows, as if no one wrote to the table meanwhile; returns the rows.

        Many rows are written by Spark's tasks, and None is returned. `notice` is told of new rows that are late.
        """
        name = self.relation.name
        query_tables(reading.query, self.stored.catalog, self.sql)
        attempts = Attempts()
        while True:
            version = self.store.refresh()
            table = version.tables[name]
            found = self._from_store(reading, version)
            rows = self._by_spark(reading, version, statement) if found is None else found
            try:
                if not isinstance(rows, pa.Table):
                    self._commit(rows, table, unchanged(table))
                    return None
                steps, rows = operation(rows, table)
                if rows.num_rows:
                    late = ingest_steps(self.store, self.relation, version, steps)
                    if notice is not None:
                        notice(late_words(self.relation, late))
                return rows
            except Conflict:
                if attempts.failed():
                    raise

    def _from_store(self, reading: Reading, version: Version) -> pa.Table | None:
        """Return the rows that the store gives without Spark, or None where it should compute them."""
        table = version.tables[self.relation.name]
        if reading.local is None or sum(sst.size for sst in table.live_ssts) > driver_bytes():
            return None
        point = point_read(reading.local, self.stored.catalog, self.dialect, self.sql)
        if point is None:
            return None
        try:
            rows = answer_locally(self.store, table, point, version.epoch)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            return None  # a comparison of unlike types: Spark's rules decide
        if rows is None:
            return None
        for name, value in reading.constants.items():
            rows = rows.append_column(name, repeated(value, rows.num_rows))
        return held(rows)

    def _by_spark(
        self, reading: Reading, version: Version, statement: Update | DeleteFrom
    ) -> pa.Table | tuple[SstInfo, ...]:
        """Return the rows that Spark gives if they are few, else the files that its tasks have written."""
        name, session = self.relation.name, self.spark()
        written = spark_query(reading.query, self.stored.catalog, self.dialect, view_prefix(), self.sql)
        others = tuple(reading.table for reading in written.readings if reading.table != name)
        only, returned = None if statement.sources else name, bool(statement.returning)
        epochs = {name: version.epoch, **epochs_of(version, self.stored, others)}
        with temporary_views(session, self._tables_at(version, epochs), written):
            frame = analysed(session, written.text, self.sql)
            found = StatementRows(self.store, session, version, written, frame, self.sql, only, returned)
            return self._read_or_write(found, reading.rule, version.tables[name])

    def _tables_at(self, version: Version, epochs: Mapping[str, int]) -> TablesAt:
        return TablesAt(self.store, version, self.stored, epochs)

    def _read_or_write(
        self, found: StatementRows, rule: Rule | None, table: TableVersion
    ) -> pa.Table | tuple[SstInfo, ...]:
        """Return the rows of UPDATE or DELETE if they are few, else the files that Spark's tasks have written."""
        if rule is None:
            rows = found.read()
            if isinstance(rows, pa.Table):
                return rows
            raise InvalidRow(
                f"UPDATE of {self.relation.name} changes the keys of {rows.rows} rows, more than one process holds at once: "
                f"do it in parts by WHERE, or raise {SETTING}"
            )
        in_order = found.only is not None and _MIXES.search(found.query.text) is None
        if in_order and not found.are_few:
            body = self._writing(table, rule, found.inline_bytes)
            whole = found.frame if rule == "delete" else completed_frame(self.relation, found.frame)
            return write_frame(body, InKeyOrder(whole), self.sql)[0]
        rows = found.read()
        if isinstance(rows, pa.Table):
            return rows
        body = self._writing(table, rule)
        return write_frame(body, spilled_rows(body, rows, found.session), self.sql, TWO_NEW_ROWS)[0]

    def _writing(self, table: TableVersion, rule: Rule, inline_bytes: int = 0) -> WriteRows:
        at = table.committed_epoch
        seen = table.narrowed(at, at) if rule in LOOKS_UP else None
        options = dict(self.store.options)
        return WriteRows(self.store.url, options, self.relation, table.table, rule, seen, inline_bytes)

    def _commit(
        self,
        ssts: tuple[SstInfo, ...],
        table: TableVersion,
        precondition: Precondition | None,
        arrivals: Arrivals | None = None,
    ) -> None:
        writes, more = {table.name: ssts} if ssts else {}, {} if arrivals is None else arrivals.writes()
        moved = {} if arrivals is None else arrivals.watermarks()
        if arrivals is not None:
            tables = {name: self.store.version.tables[name].table for name in more}
            writes |= gather(self.store.reader, tables, more)
            precondition = arrivals.unmoved(precondition)
        if writes:
            same = same_tables({table.name: table}, precondition)
            self.store.commit(Commit(writes=writes, watermarks=moved, precondition=same))

    def merged(self, conflict: OnConflict, rows: pa.Table, known: np.ndarray, old: pa.Table) -> pa.Table:
        """Return what ON CONFLICT DO UPDATE writes: new rows as they are, known ones updated."""
        if not len(known):
            return rows
        relation = self.relation
        fresh = np.ones(rows.num_rows, dtype=bool)
        fresh[known] = False
        new, excluded = rows.filter(pa.array(fresh)), rows.take(pa.array(known))
        query = merge_query(relation, conflict, self.sql)
        shown = {relation.name: shown_names(relation, old), "excluded": shown_names(relation, excluded)}
        updated = self._over(query, shown, self.store.refresh())
        assert isinstance(updated, pa.Table)
        return pa.concat_tables([new, whole_rows(relation, updated, self.spark)])

    def _merged_spilled(
        self, conflict: OnConflict, known: tuple[SstInfo, ...], version: Version
    ) -> tuple[SstInfo, ...]:
        """Write what ON CONFLICT DO UPDATE makes of rows with known keys, the table being that of `version`."""
        relation, session = self.relation, self.spark()
        schema = pa.schema([(column.name, to_arrow(column.type)) for column in relation.columns])
        excluded = Spilled(schema, known).frame(session, self.store.url, dict(self.store.options))
        query = merge_query(relation, conflict, self.sql)
        rows = self._over(query, {"excluded": excluded.drop(PLACE)}, version)
        table = version.tables[relation.name]
        body = self._writing(table, "once")
        if isinstance(rows, Spilled):
            return write_frame(body, spilled_rows(body, rows, session), self.sql)[0]
        whole = with_operation(table.table, whole_rows(relation, rows, self.spark), delete=False)
        return tuple(self.store.reader.write_run(table.table, whole))

    def _over(
        self, query: exp.Select, given: Mapping[str, pa.Table | DataFrame], version: Version
    ) -> pa.Table | Spilled:
        """Return the rows of a query in which some tables have the rows that are given; spilled only if a frame is given."""
        relations = dict(self.stored.catalog.relations)
        for name in given:
            relations[name] = renamed(self.relation, name)
        catalog = Catalog(relations)
        query_tables(query, catalog, self.sql)
        written = spark_query(query, catalog, self.dialect, view_prefix(), self.sql)
        session = self.spark()
        others = tuple(reading.table for reading in written.readings if reading.table not in given)
        epochs = epochs_of(version, self.stored, others)
        with temporary_views(session, self._tables_at(version, epochs), written, given=given):
            frame = analysed(session, written.text, self.sql)
            if all(isinstance(rows, pa.Table) for rows in given.values()):
                return held(collect(frame, self.sql))
            found = StatementRows(self.store, session, version, written, frame, self.sql)
            options = dict(self.store.options)
            return gathered(frame, self.store.url, options, self.sql, found.inline_bytes)

    def check_returned(self, items: tuple[exp.Expr, ...], alias: str | None) -> None:
        """Raise SqlError for what RETURNING cannot say of this table, before a row is written."""
        types = {column.name: to_arrow(column.type) for column in self.relation.columns}
        shown = visible_columns(self.relation)
        self.returned(items, pa.schema([(name, types[name]) for name in shown]).empty_table(), alias)

    def check_foreign(self, returned: Returned, rows: pa.Table, alias: str) -> None:
        """Raise SqlError for what RETURNING cannot say of rows that were read beside other tables, before one is written."""
        if returned.more:
            self._extended(returned, rows).check_returned(returned.items, alias)

    def returned_of(self, returned: Returned, rows: pa.Table, alias: str) -> pa.Table | None:
        """Return what RETURNING says of the rows that were written, under the names of the store, beside other tables."""
        run = self._extended(returned, rows) if returned.more else self
        return run.returned(returned.items, shown_names(run.relation, rows), alias)

    def _extended(self, returned: Returned, rows: pa.Table) -> StatementRun:
        return replace(self, relation=returned.extended(self.relation, rows))

    def returned(self, items: tuple[exp.Expr, ...], rows: pa.Table, alias: str | None) -> pa.Table | None:
        """Return what RETURNING says of the rows that were written, or None without it."""
        if not items:
            return None
        relation, alias = self.relation, alias or last_name(self.relation.name)
        shown = visible_columns(relation)
        rows = rows.select(list(shown))
        names: list[str] = []
        for item in items:
            if isinstance(item, exp.Star) and not any(item.args.values()):
                names += shown
            elif isinstance(item, exp.Column) and identifier(item.this) in shown and _is_of(item, alias):
                names.append(identifier(item.this))
            else:
                query = selection(relation, alias, list(items), (), None)
                found = self._over(query, {relation.name: rows}, self.store.refresh())
                assert isinstance(found, pa.Table)
                return found
        return rows.select(names)


def _is_of(column: exp.Column, alias: str) -> bool:
    """Tell whether a column is one of the table that is shown by a name, and not of another that stands beside it."""
    table = column.args.get("table")
    return table is None or (not column.args.get("db") and table.name.lower() == alias.lower())
