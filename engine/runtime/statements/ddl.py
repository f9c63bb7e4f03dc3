"""Statements that create: each is one commit, checked again whenever the commit is rebased."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
import pyarrow as pa
import sqlglot.expressions as exp
from pyspark.sql import SparkSession

from engine.errors import Conflict, SqlError, UnsupportedSql
from engine.hummock import Commit, Hummock, SstInfo, Table, TableOptions, Version
from engine.hummock.epoch import epoch_at
from engine.hummock.passing import WAS, was
from engine.hummock.preconditions import all_of
from engine.meta.catalog_store import StoredCatalog, catalog_unchanged, entries, load
from engine.meta.dead_letters import ensure_dead_letters
from engine.meta.domain import domains
from engine.runtime.epoch.row_checks import check_declared
from engine.runtime.partitions.checks import check_partitions
from engine.runtime.relations import known, place_of
from engine.runtime.rows import ROW_ID
from engine.runtime.spark.analyze import SparkAnalyzer
from engine.runtime.statements.arrival_sides import check_sides
from engine.runtime.statements.backfill_order import check_backfill_order
from engine.runtime.statements.check_views import plan_checks
from engine.runtime.statements.create_schema import check_schema
from engine.runtime.statements.full_view import check_columns, named, plan_full
from engine.runtime.statements.replaced_view import check_replaced
from engine.runtime.statements.shared_index import index_of
from engine.runtime.statements.source_reads import check_sources
from engine.runtime.statements.table_as import columns_of, table_query, written_rows
from engine.runtime.statements.view_columns import documents_of, documents_of_query, shown_columns
from engine.runtime.statements.window_close import carried_by, check_emits, closed_plan
from engine.runtime.writes.watermarks import LATE_ROWS, watermark_table
from engine.sql.batch.ad_hoc import query_tables, query_views
from engine.sql.batch.full_refresh import OFFER, is_deterministic
from engine.sql.batch.row_errors import null_on_error
from engine.sql.bind.binder import bind
from engine.sql.catalog import Carried, Catalog, Column, ConflictPolicy, Relation, watermark_relation
from engine.sql.dialect import Dialect
from engine.sql.incremental.access import index_name
from engine.sql.incremental.expiry import with_expiry
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.incremental_plan import build_incremental_plan
from engine.sql.incremental.key_types import check_key_types, check_plain
from engine.sql.incremental.progress import of_catalog
from engine.sql.parsing.refusals import mistake
from engine.sql.schemas import schema_entry, schema_of
from engine.sql.statements.defaults import why_not_fed
from engine.sql.statements.macros import functions_called
from engine.sql.statements.statement_types import (
    CreateIndex,
    CreateMaterializedView,
    CreateTable,
    CreateView,
)
from engine.sql.statements.view_options import on_row_error, rules
from engine.sql.typing.types import to_arrow


def create_table(
    store: Hummock, spark: Callable[[], SparkSession], statement: CreateTable, dialect: Dialect
) -> bool:
    """Create a source table, filled if it is made from a query; returns False if it exists and IF NOT EXISTS is said."""
    version = store.refresh()
    stored = load(version)
    if is_there(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    ssts: tuple[SstInfo, ...] = ()
    if statement.as_query is None:
        relation = table_relation(statement, dialect, tuple(statement.columns), statement.primary_key)
        relation = source_relation(relation) if statement.passes else relation
        table = _table_of(relation)
    else:
        with table_query(store, stored, spark, statement, dialect) as rows:
            names = tuple(rows.frame.columns)
            seen = documents_of_query(statement.as_query, stored.catalog, dialect, statement.sql, names)
            relation = table_relation(statement, dialect, *columns_of(rows, statement, seen))
            table = _table_of(relation)
            ssts = written_rows(rows, relation, table)
    relation = msgspec.structs.replace(relation, since=max(version.epoch, epoch_at(store.clock() - 1)))
    beside, shown = watermark_table(relation), watermark_relation(relation)
    if relation.watermark is not None and relation.options.get(LATE_ROWS) == "keep":
        ensure_dead_letters(store)
    store.commit(
        Commit(
            create=(table,) if beside is None else (table, beside),
            writes={statement.name: ssts} if ssts else {},
            catalog=entries({one.name: one for one in (relation, shown) if one is not None}, {}),
            precondition=_still_absent(statement.name),
        )
    )
    return True


def table_relation(
    statement: CreateTable, dialect: Dialect, columns: tuple[Column, ...], key: tuple[str, ...]
) -> Relation:
    """Return a new table as the catalog has it; raises SqlError for a key or options that it cannot have."""
    hint = "make a plain column of it the key, or leave PRIMARY KEY out"
    check_plain((c for c in columns if c.name in key), "a key", hint, statement.sql)
    if not key:
        columns, key = (*columns, Column(ROW_ID, "bigint", False, None, True)), (ROW_ID,)
    watermark = statement.watermark
    if watermark is not None and watermark.ttl and not (statement.append_only and key == (ROW_ID,)):
        # a key that comes again once its row has left is another row, which views hold beside the one that they have taken
        watermark = msgspec.structs.replace(watermark, in_key=watermark.column not in key)
    relation = Relation(
        name=statement.name,
        kind="table",
        columns=columns,
        primary_key=(*key, watermark.column) if watermark is not None and watermark.in_key else key,
        distribution_key=key,
        append_only=statement.append_only,
        sql=statement.sql,
        dialect=dialect,
        options=dict(statement.options),
        on_conflict=statement.on_conflict or _usual_conflict(statement, dialect),
        version_columns=statement.version_columns,
        null_keys=dialect == "risingwave" and key != (ROW_ID,),
        watermark=watermark,
    )
    reason = why_not_fed(relation) if "connector" in statement.options else None
    if reason is not None:
        line, column = place_of(statement.name, statement.sql)
        hint = "or leave the connector out"
        raise SqlError(reason, sql=statement.sql, line=line, column=column, hint=hint)
    return relation


def source_relation(table: Relation) -> Relation:
    """Return the relation of a source whose rows, where it kept them, would be those of a table.

    Where rows go and change, what is told of a change has the old row beside the new one, in hidden columns.
    """
    columns = table.columns
    if not table.append_only:
        values = [column for column in columns if column.source not in table.primary_key]
        old = (Column(was(column.source), column.type, hidden=True) for column in values)
        columns = (*columns, Column(WAS, "boolean", hidden=True), *old)
    return msgspec.structs.replace(table, kind="source", columns=columns)


def _table_of(relation: Relation) -> Table:
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in relation.columns])
    leaves = relation.watermark is not None and relation.watermark.ttl
    column = relation.watermark.column if relation.watermark is not None and leaves else None
    options = TableOptions(ttl_seconds=relation.rows_live, watermark_column=column, passes=relation.passes)
    return Table(relation.name, schema, relation.primary_key, relation.distribution_key, options)


def _usual_conflict(statement: CreateTable, dialect: Dialect) -> ConflictPolicy:
    """Return what an INSERT of a known key does where CREATE TABLE does not say it: RisingWave's tables take the newest row."""
    return "overwrite" if dialect == "risingwave" and not statement.append_only else "error"


def create_view(store: Hummock, statement: CreateView, dialect: Dialect) -> bool:
    """Create a plain view: a name for a query, computed where it is read."""
    version = store.refresh()
    stored = load(version)
    before = stored.catalog.relations.get(statement.name) if statement.replaces else None
    if before is not None:
        check_replaced(stored, before, statement)
    elif is_there(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    renamed = bool(statement.columns)
    bound = bind(statement.query, stored.catalog, dialect=dialect, sql=statement.sql, named=renamed)
    shown = named(statement, tuple(name for name, _ in bound.columns))
    relation = Relation(
        name=statement.name,
        kind="view",
        columns=shown_columns(shown, documents_of(bound, shown)),
        sql=statement.sql,
        dialect=dialect,
        depends_on=query_tables(statement.query, stored.catalog),
        through=texts_used(statement.query, stored.catalog),
        renamed=renamed,
    )
    inputs = relation.depends_on + relation.through
    check = inputs_stand(statement.name, inputs) if before is None else catalog_unchanged(version)
    store.commit(Commit(catalog=entries({statement.name: relation}, {}), precondition=check))
    return True


def texts_used(query: exp.Query, catalog: Catalog) -> tuple[str, ...]:
    """Return the plain views and functions whose text a query uses."""
    return query_views(query, catalog) + functions_called(query, catalog)


def create_index(store: Hummock, statement: CreateIndex, dialect: Dialect) -> bool:
    """Create an index under a user's name; the table behind it is shared with the views that look up by these columns."""
    stored = load(store.refresh())
    if is_there(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    base = known(stored, "", statement.table, statement.sql)
    if base.kind not in ("table", "materialized view"):
        hint = "index a table or a materialized view"
        line, column = place_of(base.name, statement.sql)
        message = f"{base.name} is a {base.kind} and has no rows of its own"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    shown = {column.name: column for column in base.columns if not column.hidden}
    for name in (*statement.columns, *(statement.include or ())):
        if name not in shown:
            node = exp.to_identifier(name)
            raise mistake(
                f"{base.name} has no column {name}",
                node,
                statement.sql,
                f"its columns are {', '.join(shown)}",
            )
    hint = "index a plain part of it, in a view that has it as a column"
    check_plain((shown[name] for name in statement.columns), "indexed", hint, statement.sql)
    by = tuple(shown[name].source for name in statement.columns)
    table = index_name(base.name, by)
    options = {"on": base.name, "table": table}
    if statement.include is not None:
        options["include"] = ",".join(shown[name].source for name in statement.include)
    relations: dict[str, Relation | None] = {}
    plans: dict[str, IncrementalPlan | None] = {}
    if table not in stored.catalog.relations:
        relations[table], plans[table] = index_of(stored.catalog, base, by, dialect)
    relations[statement.name] = Relation(
        name=statement.name,
        kind="index",
        columns=tuple(shown[name] for name in statement.columns),
        sql=statement.sql,
        dialect=dialect,
        options=options,
        depends_on=(table,),
    )
    store.commit(
        Commit(catalog=entries(relations, plans), precondition=inputs_stand(statement.name, (base.name,)))
    )
    return True


def plan_view(
    catalog: Catalog, spark: SparkSession, statement: CreateMaterializedView, dialect: Dialect
) -> tuple[Relation, IncrementalPlan]:
    """Return the relation and the incremental plan of a materialized view, without a trace in the catalog."""
    options, carried = statement.options, tuple[Carried, ...]()
    check_emits(statement)
    if options.get("refresh_policy", "auto").lower() == "full":
        plan, shown = plan_full(catalog, spark, statement, dialect)
        seen = documents_of_query(statement.query, catalog, dialect, statement.sql, shown)
    else:
        plan, shown, seen, carried = _plan_incremental(catalog, spark, statement, dialect)
    check_key_types(plan, statement.query, catalog, statement.sql)
    last = plan.fragments[-1]
    relation = Relation(
        name=statement.name,
        kind="materialized view",
        columns=tuple(
            Column(name, kind, hidden=name not in shown, sql_type=seen.get(name))
            for name, kind in last.columns
        ),
        primary_key=last.key,
        distribution_key=last.distribution_key,
        append_only=last.plan.append_only,
        sql=statement.sql,
        dialect=dialect,
        options=dict(options),
        depends_on=query_tables(statement.query, catalog),
        through=texts_used(statement.query, catalog),
        carried=carried,
    )
    check_columns(relation, shown, statement)
    check_declared(relation)
    check_partitions(relation, plan)
    check_sources(plan, catalog, statement.sql)
    return relation, plan


def _plan_incremental(
    catalog: Catalog, spark: SparkSession, statement: CreateMaterializedView, dialect: Dialect
) -> tuple[IncrementalPlan, tuple[str, ...], Mapping[str, str], tuple[Carried, ...]]:
    """Return the plan, the columns that are shown, and which of them are json or jsonb, or carry a watermark."""
    try:
        renamed = bool(statement.columns)
        bound = bind(statement.query, catalog, dialect=dialect, sql=statement.sql, named=renamed)
    except UnsupportedSql as error:
        if not is_deterministic(statement.query):
            raise
        hint = f"{error.hint}; {OFFER}"
        place = {"line": error.line, "column": error.column}
        raise UnsupportedSql(error.message, sql=statement.sql, hint=hint, **place) from error
    shown = named(statement, tuple(name for name, _ in bound.columns))
    columns = tuple((name, internal) for name, (_, internal) in zip(shown, bound.columns, strict=True))
    if on_row_error(statement.options, dialect) == "null":
        bound = replace(bound, plan=null_on_error(bound.plan))
    query = closed_plan(bound.plan, statement, catalog)
    analyzer = SparkAnalyzer(spark, catalog, statement.sql)
    cut = "partition_by" in statement.options  # of which partitions may be computed again
    of_scan = None if cut else of_catalog(catalog)
    plan = build_incremental_plan(statement.name, query, columns, analyzer, rules(statement.options), of_scan)
    carried = carried_by(query, columns, catalog)
    return with_expiry(plan, catalog), shown, documents_of(bound, shown), carried


def create_materialized_view(
    store: Hummock,
    spark: Callable[[], SparkSession],
    statement: CreateMaterializedView,
    dialect: Dialect,
    beside: Callable[[StoredCatalog], Commit] | None = None,
) -> bool:
    """Create a materialized view with the indexes that it needs; its content comes with the next epoch run.

    `beside` tells, of the catalog with the view in it, what is made with the view in the same commit.
    """
    stored = load(store.refresh())
    if is_there(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    relation, plan = plan_view(stored.catalog, spark(), statement, dialect)
    check_backfill_order(statement, {*relation.depends_on, *relation.through})
    relations: dict[str, Relation | None] = {statement.name: relation}
    plans: dict[str, IncrementalPlan | None] = {statement.name: plan}
    for table, columns in plan.indexes:
        name = index_name(table, columns)
        if name not in stored.catalog.relations:
            relations[name], plans[name] = index_of(
                stored.catalog, stored.catalog.get(table), columns, dialect
            )
    checks = plan_checks(stored.catalog, spark(), relation, plan)
    relations |= checks.relations | {relation.name: msgspec.structs.replace(relation, checks=checks.checks)}
    plans |= checks.plans
    after = _check_domains(stored, relations, plans)
    check_sides(after, statement.name, statement.sql)
    made = Commit() if beside is None else beside(after)
    checks_of_commit = [inputs_stand(statement.name, relation.depends_on + relation.through)]
    if made.precondition is not None:
        checks_of_commit.append(made.precondition)
    store.commit(
        replace(
            made,
            catalog=entries(relations, plans) | dict(made.catalog),
            precondition=all_of(*checks_of_commit),
        )
    )
    return True


def _check_domains(
    stored: StoredCatalog,
    relations: Mapping[str, Relation | None],
    plans: Mapping[str, IncrementalPlan | None],
) -> StoredCatalog:
    """Return the catalog with these new relations; raises SqlError if two domains would read each other."""
    catalog = Catalog({**stored.catalog.relations, **{n: r for n, r in relations.items() if r is not None}})
    after = StoredCatalog(catalog, {**stored.plans, **{n: p for n, p in plans.items() if p is not None}})
    domains(after)
    return after


def is_there(catalog: Catalog, name: str, if_not_exists: bool, sql: str) -> bool:
    """Tell whether a relation is to be left as it is; raises SqlError where its name is taken and that was not asked for."""
    check_schema(catalog, name, sql)
    if name not in catalog.relations:
        return False
    if if_not_exists:
        return True
    kind = catalog.relations[name].kind
    line, column = place_of(name, sql)
    hint = f"drop it first: DROP {kind.upper()} {name}"
    raise SqlError(f"{name} exists already: it is a {kind}", sql=sql, line=line, column=column, hint=hint)


def _still_absent(name: str) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        if f"relation/{name}" in version.catalog:
            raise Conflict(f"{name} was created by another process at the same time")
        schema = schema_of(name)
        if schema and f"relation/{schema_entry(schema)}" not in version.catalog:
            raise Conflict(f"schema {schema} was dropped by another process at the same time")

    return check


def inputs_stand(name: str, inputs: tuple[str, ...]) -> Callable[[Version], None]:
    """Return the precondition that a name is free and what it reads is there."""

    def check(version: Version) -> None:
        _still_absent(name)(version)
        for upstream in inputs:
            if f"relation/{upstream}" not in version.catalog:
                raise Conflict(f"{upstream}, which {name} reads, was dropped by another process")

    return check
