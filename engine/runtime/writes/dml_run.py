"""One INSERT, UPDATE or DELETE as it runs: its rows are read, and become files that one commit makes visible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot.expressions as exp
from pyspark.sql import DataFrame, SparkSession

from engine.arrow import repeat_value
from engine.errors import InvalidRow
from engine.hummock import Commit, Hummock, SstInfo, TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require_same_tables, require_unchanged
from engine.hummock.monitoring.driver_traffic import track_rows
from engine.hummock.transact import WRITE, commit_with_retry
from engine.hummock.writes.batch import Operation, write_operations
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.query_policy import choose_epochs
from engine.runtime.reads.local_read import answer_locally
from engine.runtime.reads.spark_read import (
    TablesAtEpochs,
    analyze_sql,
    collect_rows,
    make_view_prefix,
    register_temporary_views,
)
from engine.runtime.rows import (
    complete_frame,
    complete_rows,
    convert_rows,
    list_visible_columns,
    to_stored_names,
    to_visible_names,
)
from engine.runtime.statement_context import StatementContext
from engine.runtime.writes.conflicts import MOVED, ingest_steps
from engine.runtime.writes.dml_queries import (
    build_merge_query,
    build_selection,
    cast_to_fit,
    refuse_assignment,
    rename_relation,
)
from engine.runtime.writes.driver_rows import DRIVER_LIMIT, SETTING
from engine.runtime.writes.key_order import KeyOrderedRows
from engine.runtime.writes.replaced_rows import refuse_many
from engine.runtime.writes.returning import Returning
from engine.runtime.writes.spill import PLACE, SpilledRows, gather_rows
from engine.runtime.writes.statement_rows import StatementQuery
from engine.runtime.writes.watermarks import ArrivingRows, format_late_notice
from engine.runtime.writes.write_tasks import (
    LOOKS_UP,
    Rule,
    WriteRows,
    append_operation,
    order_spilled,
    write_frame,
)
from engine.sql.batch.ad_hoc import build_spark_query, query_tables
from engine.sql.batch.point_read import point_read
from engine.sql.catalog import ROW_ID, Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.strings.bytea import convert_bytea_rows
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.untyped_literals import cast_rows
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.schemas import strip_schema
from engine.sql.statements.dml.literal_rows import read_literal_rows
from engine.sql.statements.statement_types import DeleteFrom, Insert, OnConflict, Update
from engine.sql.typing.types import to_arrow

Spark = Callable[[], SparkSession]
TWO_NEW_ROWS = "UPDATE of {table}: FROM gives more than one new row for a key; make its rows unique"
_MIXES = re.compile(r"\bOVER\b|\bSELECT\b.*\bSELECT\b", re.IGNORECASE | re.DOTALL)
"""Queries of one table whose rows may leave the order in which it is read."""


def complete_stored_rows(relation: Relation, rows: pa.Table, spark: Spark) -> pa.Table:
    """Return whole rows of a table under the names of the store."""
    whole = complete_rows(relation, rows, spark)
    return to_stored_names(
        relation, convert_rows(relation, whole, [column.name for column in relation.columns])
    )


@dataclass(frozen=True)
class StatementRead:
    """The rows that an UPDATE or DELETE reads, and the `rule` under which tasks write them if they are many (None: refused).

    `local` gives the same rows but for the columns whose values are `constants`; a store that is small answers it alone.
    """

    query: exp.Select
    rule: Rule | None
    local: exp.Select | None
    constants: Mapping[str, pa.Scalar[Any]] = field(default_factory=dict)
    untyped: Mapping[str, exp.Expr] = field(default_factory=dict)
    values: exp.Select | None = None
    """A query of the `untold` values, new ones whose types only Spark can tell."""


@dataclass(frozen=True)
class StatementRun:
    """One statement that writes to `relation`: few rows go through this process, many through Spark's tasks."""

    context: StatementContext
    stored: StoredCatalog
    relation: Relation
    sql: str

    @property
    def store(self) -> Hummock:
        """The store that it writes to."""
        return self.context.store

    @property
    def spark(self) -> Spark:
        """What opens the Spark session, which a small statement does not need."""
        return self.context.spark

    @property
    def dialect(self) -> Dialect:
        """Whose SQL it is."""
        return self.context.dialect

    def read_given(self, statement: Insert) -> pa.Table | SpilledRows:
        """Return the rows of an INSERT under the names of its columns, in their types."""
        relation = self.relation
        columns = statement.columns or list_visible_columns(relation)
        kinds = {column.name: column.type for column in relation.columns}
        if self.dialect != "spark":
            given = convert_bytea_rows(statement.rows, tuple(kinds[name] for name in columns), self.sql)
            statement = replace(statement, rows=given)
        literals = read_literal_rows(statement, relation, self.dialect)
        if literals is not None:
            values = list(zip(*literals, strict=True))
            try:
                arrays = [
                    pa.array(list(given), to_arrow(kinds[name]))
                    for name, given in zip(columns, values, strict=True)
                ]
            except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError) as error:
                raise InvalidRow(f"insert into {relation.name}: {error}") from error
            return track_rows(pa.Table.from_arrays(arrays, names=list(columns)))
        query = statement.rows
        if self.dialect != "spark" and isinstance(query, exp.Values | exp.Select):
            try:
                query = cast_rows(query, tuple(kinds[name] for name in columns))
            except Untranslatable as error:
                raise sql_error(f"{error.what} is not offered", query, self.sql, error.hint) from error
        tables = query_tables(query, self.stored.catalog, self.sql)
        version = self.store.refresh()
        epochs = choose_epochs(version, self.stored, tables)
        spark_query = build_spark_query(
            query, self.stored.catalog, self.dialect, make_view_prefix(), self.sql
        )
        session = self.spark()
        with register_temporary_views(session, self._build_tables(version, epochs), spark_query):
            frame = analyze_sql(session, spark_query.text, self.sql)
            if self.dialect != "spark" and statement.columns is None:  # what a row lacks has its DEFAULT
                columns = columns[: len(frame.columns)]
            if len(frame.columns) != len(columns):
                message = f"INSERT gives {len(frame.columns)} values for {len(columns)} columns"
                raise sql_error(message, query, self.sql, f"the columns are {', '.join(columns)}")
            for name, field in zip(columns, frame.schema.fields, strict=True):
                refuse_assignment(relation, name, field.dataType.simpleString(), query, self.sql)
            places = [f"_c{n}" for n in range(len(columns))]
            frame = frame.toDF(*places)
            types = [field.dataType.simpleString() for field in frame.schema.fields]
            items = [
                f"CAST({cast_to_fit(place, given, kinds[name], self.dialect)} AS {kinds[name]}) AS {place}"
                for place, given, name in zip(places, types, columns, strict=True)
            ]
            typed = frame.selectExpr(*items).toDF(*columns)
            rows = StatementQuery(
                self.store, session, version, spark_query, typed, self.sql, returned=bool(statement.returning)
            )
            return rows.read()

    def insert_spilled(self, rows: SpilledRows, conflict: OnConflict | None) -> int:
        """Insert spilled rows by Spark's tasks, as if no one wrote to the table meanwhile; returns how many were late."""
        relation, session = self.relation, self.spark()
        rule: Rule = relation.on_conflict
        if relation.version_columns:
            rule = "versions"
        if conflict is not None:
            rule = "split" if conflict.assignments else "ignore"
        refuse_many(relation, rows.rows, SETTING)
        if ROW_ID in relation.primary_key:  # no other row has its key, whoever writes meanwhile
            rows, rule = rows.assign_row_ids(self.store), "new"

        def attempt() -> int:
            version = self.store.refresh()
            table = version.tables[relation.name]
            body = self._build_body(table, rule)
            arrivals = ArrivingRows(self.store, version, relation)
            ordered = order_spilled(body, rows, session, arrivals)
            ssts, known = write_frame(body, ordered, self.sql)
            if known and conflict is not None:
                ssts += self._merge_spilled(conflict, known, version)
            self._commit(ssts, table, require_unchanged(table) if rule in LOOKS_UP else None, arrivals)
            return arrivals.late

        return commit_with_retry(self.store, attempt, WRITE if rule in LOOKS_UP else MOVED)

    def read_and_write(
        self,
        reading: StatementRead,
        operation: Callable[[pa.Table, TableVersion], tuple[Sequence[Operation], pa.Table]],
        statement: Update | DeleteFrom,
    ) -> pa.Table | None:
        """Commit what `operation` makes of a query's rows, as if no one wrote to the table meanwhile; returns the rows.

        Many rows are written by Spark's tasks, and None is returned. New rows that are late are reported to the session.
        """
        name = self.relation.name
        query_tables(reading.query, self.stored.catalog, self.sql)

        def attempt() -> pa.Table | None:
            version = self.store.refresh()
            table = version.tables[name]
            found = self._read_from_store(reading, version)
            rows = self._run_by_spark(reading, version, statement) if found is None else found
            if not isinstance(rows, pa.Table):
                self._commit(rows, table, require_unchanged(table))
                return None
            steps, rows = operation(rows, table)
            if rows.num_rows:
                late = ingest_steps(self.store, self.relation, version, steps)
                self.context.session.notice(format_late_notice(self.relation, late))
            return rows

        return commit_with_retry(self.store, attempt, WRITE)

    def _read_from_store(self, reading: StatementRead, version: Version) -> pa.Table | None:
        """Return the rows that the store gives without Spark, or None where it should compute them."""
        table = version.tables[self.relation.name]
        if reading.local is None or sum(sst.size for sst in table.live_ssts) > DRIVER_LIMIT.read():
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
            rows = rows.append_column(name, repeat_value(value, rows.num_rows))
        return track_rows(rows)

    def _run_by_spark(
        self, reading: StatementRead, version: Version, statement: Update | DeleteFrom
    ) -> pa.Table | tuple[SstInfo, ...]:
        """Return the rows that Spark gives if they are few, else the files that its tasks have written."""
        name, session = self.relation.name, self.spark()
        if reading.untyped and reading.values is not None:
            self._refuse_types(reading.untyped, reading.values, version)
        spark_query = build_spark_query(
            reading.query, self.stored.catalog, self.dialect, make_view_prefix(), self.sql
        )
        others = tuple(reading.table for reading in spark_query.readings if reading.table != name)
        only, returned = None if statement.sources else name, bool(statement.returning)
        epochs = {name: version.epoch, **choose_epochs(version, self.stored, others)}
        with register_temporary_views(session, self._build_tables(version, epochs), spark_query):
            frame = analyze_sql(session, spark_query.text, self.sql)
            found = StatementQuery(self.store, session, version, spark_query, frame, self.sql, only, returned)
            return self._read_or_write(found, reading.rule, version.tables[name])

    def _build_tables(self, version: Version, epochs: Mapping[str, int]) -> TablesAtEpochs:
        return TablesAtEpochs(self.store, version, self.stored, epochs)

    def _read_or_write(
        self, found: StatementQuery, rule: Rule | None, table: TableVersion
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
            body = self._build_body(table, rule, found.inline_bytes)
            whole = found.frame if rule == "delete" else complete_frame(self.relation, found.frame)
            return write_frame(body, KeyOrderedRows(whole), self.sql)[0]
        rows = found.read()
        if isinstance(rows, pa.Table):
            return rows
        body = self._build_body(table, rule)
        return write_frame(body, order_spilled(body, rows, found.session), self.sql, TWO_NEW_ROWS)[0]

    def _build_body(self, table: TableVersion, rule: Rule, inline_bytes: int = 0) -> WriteRows:
        at = table.committed_epoch
        version_at = table.narrow(at, at) if rule in LOOKS_UP else None
        options = dict(self.store.options)
        return WriteRows(self.store.url, options, self.relation, table.table, rule, version_at, inline_bytes)

    def _commit(
        self,
        ssts: tuple[SstInfo, ...],
        table: TableVersion,
        precondition: Precondition | None,
        arrivals: ArrivingRows | None = None,
    ) -> None:
        writes, more = {table.name: ssts} if ssts else {}, {} if arrivals is None else arrivals.build_writes()
        moved = {} if arrivals is None else arrivals.get_ttl_watermarks()
        if arrivals is not None:
            tables = {name: self.store.version.tables[name].table for name in more}
            writes |= write_operations(self.store.reader, tables, more)
            precondition = arrivals.require_unmoved(precondition)
        if writes:
            same = require_same_tables({table.name: table}, precondition)
            self.store.commit(Commit(writes=writes, watermarks=moved, precondition=same))

    def merge(self, conflict: OnConflict, rows: pa.Table, known: np.ndarray, old: pa.Table) -> pa.Table:
        """Return what ON CONFLICT DO UPDATE writes: new rows as they are, known ones updated."""
        if not len(known):
            return rows
        relation = self.relation
        fresh = np.ones(rows.num_rows, dtype=bool)
        fresh[known] = False
        new, excluded = rows.filter(pa.array(fresh)), rows.take(pa.array(known))
        inputs = {"excluded": to_visible_names(relation, excluded)}
        if not _asks(conflict):  # a subquery may be of the table itself, and reads all of it
            inputs[relation.name] = to_visible_names(relation, old)
        updated = self._merge(conflict, inputs, self.store.refresh())
        assert isinstance(updated, pa.Table)
        return pa.concat_tables([new, complete_stored_rows(relation, updated, self.spark)])

    def _merge_spilled(
        self, conflict: OnConflict, known: tuple[SstInfo, ...], version: Version
    ) -> tuple[SstInfo, ...]:
        """Write what ON CONFLICT DO UPDATE makes of rows with known keys, the table being that of `version`."""
        relation, session = self.relation, self.spark()
        schema = pa.schema([(column.name, to_arrow(column.type)) for column in relation.columns])
        excluded = SpilledRows(schema, known).to_frame(session, self.store.url, dict(self.store.options))
        rows = self._merge(conflict, {"excluded": excluded.drop(PLACE)}, version)
        table = version.tables[relation.name]
        body = self._build_body(table, "once")
        if isinstance(rows, SpilledRows):
            return write_frame(body, order_spilled(body, rows, session), self.sql)[0]
        whole = append_operation(table.table, complete_stored_rows(relation, rows, self.spark), delete=False)
        return tuple(self.store.reader.write_run(table.table, whole))

    def _merge(
        self, conflict: OnConflict, given: Mapping[str, pa.Table | DataFrame], version: Version
    ) -> pa.Table | SpilledRows:
        """Return what ON CONFLICT DO UPDATE makes of known rows."""
        merge = build_merge_query(self.relation, conflict, self.sql)
        if merge.untyped:
            self._refuse_types(merge.untyped, merge.values, version, given)
        return self._query_over(merge.query, given, version)

    def _query_over(
        self, query: exp.Select, replacements: Mapping[str, pa.Table | DataFrame], version: Version
    ) -> pa.Table | SpilledRows:
        """Return the rows of a query in which some tables have the rows that are given; spilled only if a frame is given."""
        catalog = self._with_given(replacements)
        query_tables(query, catalog, self.sql)
        spark_query = build_spark_query(query, catalog, self.dialect, make_view_prefix(), self.sql)
        session = self.spark()
        others = tuple(reading.table for reading in spark_query.readings if reading.table not in replacements)
        epochs = choose_epochs(version, self.stored, others)
        with register_temporary_views(
            session, self._build_tables(version, epochs), spark_query, replacements=replacements
        ):
            frame = analyze_sql(session, spark_query.text, self.sql)
            if all(isinstance(rows, pa.Table) for rows in replacements.values()):
                return track_rows(collect_rows(frame, self.sql))
            found = StatementQuery(self.store, session, version, spark_query, frame, self.sql)
            options = dict(self.store.options)
            return gather_rows(frame, self.store.url, options, self.sql, found.inline_bytes)

    def _refuse_types(
        self,
        untyped: Mapping[str, exp.Expr],
        values: exp.Select,
        version: Version,
        given: Mapping[str, pa.Table | DataFrame] | None = None,
    ) -> None:
        """Raise SqlError for a new value of a type that its column does not take, by what Spark says of it."""
        given, session, catalog = given or {}, self.spark(), self._with_given(given or {})
        written = build_spark_query(values, catalog, self.dialect, make_view_prefix(), self.sql)
        known = (*given, self.relation.name)
        others = tuple(reading.table for reading in written.readings if reading.table not in known)
        epochs = {self.relation.name: version.epoch, **choose_epochs(version, self.stored, others)}
        with register_temporary_views(
            session, self._build_tables(version, epochs), written, replacements=given
        ):
            types = [
                one.dataType.simpleString() for one in analyze_sql(session, written.text, self.sql).schema
            ]
        for (name, node), kind in zip(untyped.items(), types, strict=True):
            refuse_assignment(self.relation, name, kind, node, self.sql)

    def _with_given(self, given: Iterable[str]) -> Catalog:
        """Return the catalog in which tables that are given have the columns of the table that is written."""
        relations = dict(self.stored.catalog.relations)
        return Catalog(relations | {name: rename_relation(self.relation, name) for name in given})

    def check_returning(self, items: tuple[exp.Expr, ...], alias: str | None) -> None:
        """Raise SqlError for what RETURNING cannot say of this table, before a row is written."""
        types = {column.name: to_arrow(column.type) for column in self.relation.columns}
        visible = list_visible_columns(self.relation)
        self.return_rows(items, pa.schema([(name, types[name]) for name in visible]).empty_table(), alias)

    def check_foreign_returning(self, returned: Returning, rows: pa.Table, alias: str) -> None:
        """Raise SqlError for what RETURNING cannot say of rows that were read beside other tables, before one is written."""
        if returned.more:
            self._extend(returned, rows).check_returning(returned.items, alias)

    def return_beside(self, returned: Returning, rows: pa.Table, alias: str) -> pa.Table | None:
        """Return what RETURNING says of the rows that were written, under the names of the store, beside other tables."""
        run = self._extend(returned, rows) if returned.more else self
        return run.return_rows(returned.items, to_visible_names(run.relation, rows), alias)

    def _extend(self, returned: Returning, rows: pa.Table) -> StatementRun:
        return replace(self, relation=returned.extend(self.relation, rows))

    def return_rows(self, items: tuple[exp.Expr, ...], rows: pa.Table, alias: str | None) -> pa.Table | None:
        """Return what RETURNING says of the rows that were written, or None without it."""
        if not items:
            return None
        relation, alias = self.relation, alias or strip_schema(self.relation.name)
        visible = list_visible_columns(relation)
        rows = rows.select(list(visible))
        names: list[str] = []
        for item in items:
            if isinstance(item, exp.Star) and not any(item.args.values()):
                names += visible
            elif (
                isinstance(item, exp.Column)
                and normalize_identifier(item.this) in visible
                and _is_of(item, alias)
            ):
                names.append(normalize_identifier(item.this))
            else:
                query = build_selection(relation, alias, list(items), (), None)
                found = self._query_over(query, {relation.name: rows}, self.store.refresh())
                assert isinstance(found, pa.Table)
                return found
        return rows.select(names)


def _asks(conflict: OnConflict) -> bool:
    """Tell whether ON CONFLICT DO UPDATE has subqueries."""
    parts = [value for _, value in conflict.assignments] + (
        [] if conflict.where is None else [conflict.where]
    )
    return any(part.find(exp.Query) is not None for part in parts)


def _is_of(column: exp.Column, alias: str) -> bool:
    """Tell whether a column is one of the table that is shown by a name, and not of another that stands beside it."""
    table = column.args.get("table")
    return table is None or (not column.args.get("db") and table.name.lower() == alias.lower())
