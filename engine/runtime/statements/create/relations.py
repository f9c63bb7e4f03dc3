"""Statements that create: each is one commit, checked again whenever the commit is rebased."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.hummock import Commit, SstInfo, Table, TableOptions
from engine.hummock.epoch import epoch_at
from engine.hummock.manifests.preconditions import require_all
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.domains.domain import list_domains
from engine.meta.status.dead_letters import ensure_dead_letters
from engine.python_functions.definition import NOT_DECLARED
from engine.runtime.epoch.row_checks import check_declared
from engine.runtime.partitions.checks import check_partitions
from engine.runtime.relations import build_name_error, resolve_relation
from engine.runtime.spark.analyze import SparkAnalyzer
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.check_views import plan_checks
from engine.runtime.statements.create.full_view import check_columns, name_columns, plan_full
from engine.runtime.statements.create.required_inputs import (
    require_absent_name,
    require_columns_stay,
    require_inputs,
)
from engine.runtime.statements.create.restrictions import (
    check_backfill_order,
    check_gate,
    check_join_sides,
    check_replaceable,
    check_source_reads,
)
from engine.runtime.statements.create.schema import check_schema
from engine.runtime.statements.create.shared_index import build_shared_index
from engine.runtime.statements.create.source_columns import build_source_relation
from engine.runtime.statements.create.table_as import build_columns, open_table_query, write_query_rows
from engine.runtime.statements.create.view_columns import (
    build_plain_view_columns,
    build_view_columns,
    find_document_types,
    find_query_document_types,
)
from engine.runtime.statements.create.window_close import (
    check_emit,
    find_carried_watermarks,
    restrict_to_closed,
)
from engine.runtime.writes.watermarks import LATE_ROWS
from engine.sql.batch.ad_hoc import query_tables, query_views
from engine.sql.batch.full_refresh import OFFER, is_deterministic
from engine.sql.batch.row_errors import guard_plan
from engine.sql.bind.binder import bind
from engine.sql.catalog import (
    ROW_ID,
    Carried,
    Catalog,
    ConflictPolicy,
    Relation,
    RelationColumn,
    build_watermark_relation,
)
from engine.sql.column_names import to_storage_name
from engine.sql.dialect import Dialect
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.incremental_plan import build_incremental_plan
from engine.sql.incremental.key_types import check_key_types, check_plain
from engine.sql.incremental.python_joins import check_python_joins
from engine.sql.incremental.union_fields import check_union_fields
from engine.sql.incremental.watermarks.state_expiry import add_expiry
from engine.sql.incremental.watermarks.watermark_columns import build_scan_lookup
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.statements.ddl.defaults import explain_not_fed
from engine.sql.statements.ddl.macros import list_called_functions
from engine.sql.statements.options.option_text import strip_replace
from engine.sql.statements.options.view_options import resolve_on_row_error, resolve_rules
from engine.sql.statements.statement_types import (
    CreateIndex,
    CreateMaterializedView,
    CreateTable,
    CreateView,
)
from engine.sql.typing.types import to_arrow


def build_no_companion(relation: Relation) -> Relation | None:
    """Return that no table of the system is made with a table."""
    return None


def create_table(
    statement: CreateTable,
    context: StatementContext,
    build_companion: Callable[[Relation], Relation | None] = build_no_companion,
) -> bool:
    """Create a source table, filled if it is made from a query; returns False if it exists and IF NOT EXISTS is said.

    `build_companion` returns the table of the system that is made with a new table, if any.
    """
    store, dialect = context.store, context.dialect
    version = store.refresh()
    stored = load_catalog(version)
    if can_skip_create(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    ssts: tuple[SstInfo, ...] = ()
    if statement.as_query is None:
        relation = build_table_relation(statement, dialect, tuple(statement.columns), statement.primary_key)
        relation = build_source_relation(relation) if statement.pass_through else relation
        table = _build_table(relation)
    else:
        with open_table_query(statement, stored, context) as rows:
            names = tuple(rows.frame.columns)
            documents = find_query_document_types(
                statement.as_query, stored.catalog, dialect, statement.sql, names
            )
            relation = build_table_relation(statement, dialect, *build_columns(rows, statement, documents))
            table = _build_table(relation)
            if context.session.reaches_out:
                ssts = write_query_rows(rows, relation, table)
    relation = msgspec.structs.replace(relation, since=max(version.epoch, epoch_at(store.clock() - 1)))
    watermark_relation = [
        one for one in (build_watermark_relation(relation), build_companion(relation)) if one is not None
    ]
    if relation.watermark is not None and relation.options.get(LATE_ROWS) == "keep":
        ensure_dead_letters(store)
    store.commit(
        Commit(
            create=(table, *map(_build_table, watermark_relation)),
            writes={statement.name: ssts} if ssts else {},
            catalog=encode_entries({one.name: one for one in (relation, *watermark_relation)}, {}),
            precondition=require_absent_name(statement.name),
        )
    )
    return True


def build_table_relation(
    statement: CreateTable, dialect: Dialect, columns: tuple[RelationColumn, ...], key: tuple[str, ...]
) -> Relation:
    """Return a new table as the catalog has it; raises SqlError for a key or options that it cannot have."""
    hint = "make a plain column of it the key, or leave PRIMARY KEY out"
    check_plain((c for c in columns if c.name in key), "a key", hint, statement.sql)
    stored = {column.name: column.storage_name for column in columns}
    key = tuple(stored[name] for name in key)
    if not key:
        columns, key = (*columns, RelationColumn(ROW_ID, "bigint", False, None, True)), (ROW_ID,)
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
        on_conflict=statement.on_conflict or _choose_conflict_policy(statement, dialect),
        version_columns=tuple(stored[name] for name in statement.version_columns),
        null_keys=dialect == "risingwave" and key != (ROW_ID,),
        watermark=watermark,
    )
    reason = explain_not_fed(relation) if "connector" in statement.options else None
    if reason is not None:
        raise build_name_error(reason, statement.name, statement.sql, "or leave the connector out")
    return relation


def _build_table(relation: Relation) -> Table:
    schema = pa.schema([pa.field(column.storage_name, to_arrow(column.type)) for column in relation.columns])
    leaves = relation.watermark is not None and relation.watermark.ttl
    column = relation.watermark.column if relation.watermark is not None and leaves else None
    options = TableOptions(
        ttl_seconds=relation.row_lifetime, watermark_column=column, passes=relation.is_pass_through
    )
    return Table(relation.name, schema, relation.primary_key, relation.distribution_key, options)


def _choose_conflict_policy(statement: CreateTable, dialect: Dialect) -> ConflictPolicy:
    """Return what an INSERT of a known key does where CREATE TABLE does not say it: RisingWave's tables take the newest row."""
    return "overwrite" if dialect == "risingwave" and not statement.append_only else "error"


def execute_create_view(statement: CreateView, context: StatementContext) -> None:
    """Create a plain view: a name for a query, computed where it is read."""
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    before = stored.catalog.relations.get(statement.name) if statement.replaces else None
    if before is not None:
        check_replaceable(stored, before, statement)
    elif can_skip_create(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return
    relation = build_view_relation(stored.catalog, statement, context.dialect)
    inputs = relation.depends_on + relation.through
    there = (
        require_inputs(statement.name, inputs, stored.catalog)
        if before is None
        else require_same_catalog(version)
    )
    made = {statement.name: relation}
    check = require_all(there, require_columns_stay(statement.sql, made))
    store.commit(Commit(catalog=encode_entries(made, {}), precondition=check))


def build_view_relation(catalog: Catalog, statement: CreateView, dialect: Dialect) -> Relation:
    """Return a plain view as the catalog has it; raises SqlError for a query that cannot be."""
    renamed = bool(statement.columns)
    bound = bind(statement.query, catalog, dialect=dialect, sql=statement.sql, named=renamed)
    names = name_columns(statement, tuple(name for name, _ in bound.columns))
    return Relation(
        name=statement.name,
        kind="view",
        columns=build_plain_view_columns(names, find_document_types(bound, names)),
        sql=statement.sql,
        dialect=dialect,
        depends_on=query_tables(statement.query, catalog),
        through=list_inlined_texts(statement.query, catalog),
        renamed=renamed,
    )


def list_inlined_texts(query: exp.Query, catalog: Catalog) -> tuple[str, ...]:
    """Return the plain views and functions whose text a query uses."""
    return query_views(query, catalog) + list_called_functions(query, catalog)


def execute_create_index(statement: CreateIndex, context: StatementContext) -> None:
    """Create an index under a user's name; the table behind it is shared with the views that look up by these columns."""
    store, dialect = context.store, context.dialect
    stored = load_catalog(store.refresh())
    if can_skip_create(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return
    base = resolve_relation(stored, "", statement.table, statement.sql)
    if base.kind not in ("table", "materialized view"):
        hint = "index a table or a materialized view"
        message = f"{base.name} is a {base.kind} and has no rows of its own"
        raise build_name_error(message, base.name, statement.sql, hint)
    visible = {column.name: column for column in base.visible_columns}
    for name in (*statement.columns, *(statement.include or ())):
        if name not in visible:
            node = exp.to_identifier(name)
            raise sql_error(
                f"{base.name} has no column {name}",
                node,
                statement.sql,
                f"its columns are {', '.join(visible)}",
            )
    hint = "index a plain part of it, in a view that has it as a column"
    check_plain((visible[name] for name in statement.columns), "indexed", hint, statement.sql)
    by = tuple(visible[name].storage_name for name in statement.columns)
    table = index_name(base.name, by)
    options = {"on": base.name, "table": table}
    if statement.include is not None:
        options["include"] = ",".join(visible[name].storage_name for name in statement.include)
    relations: dict[str, Relation | None] = {}
    plans: dict[str, IncrementalPlan | None] = {}
    if table not in stored.catalog.relations:
        relations[table], plans[table] = build_shared_index(stored.catalog, base, by, dialect)
    relations[statement.name] = Relation(
        name=statement.name,
        kind="index",
        columns=tuple(visible[name] for name in statement.columns),
        sql=statement.sql,
        dialect=dialect,
        options=options,
        depends_on=(table,),
    )
    store.commit(
        Commit(
            catalog=encode_entries(relations, plans),
            precondition=require_all(
                require_inputs(statement.name, (base.name,), stored.catalog),
                require_columns_stay(statement.sql, relations, plans),
            ),
        )
    )
    if context.build:
        context.session.flush(
            [context.read_catalog().get(statement.name).options["table"]]
        ).raise_for_errors()


def plan_view(
    statement: CreateMaterializedView, catalog: Catalog, context: StatementContext
) -> tuple[Relation, IncrementalPlan]:
    """Return the relation and the incremental plan of a materialized view, without a trace in the catalog."""
    context.spark()  # what is wrong with it is reported before what is wrong with the statement
    dialect = context.dialect
    options, carried = statement.options, tuple[Carried, ...]()
    check_emit(statement)
    if options.get("refresh_policy", "auto").lower() == "full":
        plan, visible = plan_full(statement, catalog, context)
        documents = find_query_document_types(statement.query, catalog, dialect, statement.sql, visible)
    else:
        plan, visible, documents, carried = _plan_incremental(statement, catalog, context)
    check_key_types(plan, statement.query, catalog, statement.sql)
    last = plan.fragments[-1]
    relation = Relation(
        name=statement.name,
        kind="materialized view",
        columns=build_view_columns(last.columns, visible, documents),
        primary_key=last.key,
        distribution_key=last.distribution_key,
        append_only=last.plan.append_only,
        sql=strip_replace(statement.sql),
        dialect=dialect,
        options=dict(options),
        depends_on=query_tables(statement.query, catalog),
        through=list_inlined_texts(statement.query, catalog),
        carried=carried,
    )
    check_columns(relation, visible, statement)
    check_declared(relation)
    check_gate(relation, statement.sql)
    check_partitions(relation, plan)
    check_source_reads(plan, catalog, statement.sql)
    return relation, plan


def _plan_incremental(
    statement: CreateMaterializedView, catalog: Catalog, context: StatementContext
) -> tuple[IncrementalPlan, tuple[str, ...], Mapping[str, str], tuple[Carried, ...]]:
    """Return the plan, the columns that are shown, and which of them are json or jsonb, or carry a watermark."""
    dialect = context.dialect
    try:
        renamed = bool(statement.columns)
        bound = bind(statement.query, catalog, dialect=dialect, sql=statement.sql, named=renamed)
    except UnsupportedSql as error:
        if not is_deterministic(statement.query) or NOT_DECLARED in error.message:
            raise
        hint = f"{error.hint}; {OFFER}"
        place = {"line": error.line, "column": error.column}
        raise UnsupportedSql(error.message, sql=statement.sql, hint=hint, **place) from error
    check_python_joins(bound.plan, statement.sql)
    visible = name_columns(statement, tuple(name for name, _ in bound.columns))
    columns = tuple(
        (to_storage_name(name), internal) for name, (_, internal) in zip(visible, bound.columns, strict=True)
    )
    if resolve_on_row_error(statement.options, dialect) == "null":
        bound = replace(bound, plan=guard_plan(bound.plan))
    query = restrict_to_closed(bound.plan, statement, catalog)
    analyzer = SparkAnalyzer(context.spark(), catalog, statement.sql)
    if dialect == "spark":
        check_union_fields(bound.plan, analyzer, statement.sql)
    is_partitioned = "partition_by" in statement.options  # of which partitions may be computed again
    of_scan = None if is_partitioned else build_scan_lookup(catalog)
    plan = build_incremental_plan(
        statement.name, query, columns, analyzer, resolve_rules(statement.options), of_scan
    )
    carried = find_carried_watermarks(query, columns, catalog)
    return add_expiry(plan, catalog), visible, find_document_types(bound, visible), carried


def create_materialized_view(
    statement: CreateMaterializedView,
    context: StatementContext,
    build_extras: Callable[[StoredCatalog], Commit] | None = None,
) -> bool:
    """Create a materialized view with the indexes that it needs; its content comes with the next epoch run.

    `build_extras` tells, of the catalog with the view in it, what is made with the view in the same commit.
    """
    store, dialect = context.store, context.dialect
    stored = load_catalog(store.refresh())
    if can_skip_create(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    relation, plan = plan_view(statement, stored.catalog, context)
    check_backfill_order(statement, {*relation.depends_on, *relation.through})
    relations: dict[str, Relation | None] = {statement.name: relation}
    plans: dict[str, IncrementalPlan | None] = {statement.name: plan}
    for table, columns in plan.indexes:
        name = index_name(table, columns)
        if name not in stored.catalog.relations:
            relations[name], plans[name] = build_shared_index(
                stored.catalog, stored.catalog.get(table), columns, dialect
            )
    checks = plan_checks(relation, plan, stored.catalog, context)
    relations |= checks.relations | {relation.name: msgspec.structs.replace(relation, checks=checks.checks)}
    plans |= checks.plans
    after = check_domains(stored, relations, plans)
    check_join_sides(after, statement.name, statement.sql)
    made = Commit() if build_extras is None else build_extras(after)
    store.commit(
        replace(
            made,
            catalog=encode_entries(relations, plans) | dict(made.catalog),
            precondition=require_all(
                require_inputs(statement.name, relation.depends_on + relation.through, stored.catalog),
                require_columns_stay(statement.sql, relations, plans),
                made.precondition,
            ),
        )
    )
    return True


def check_domains(
    stored: StoredCatalog,
    relations: Mapping[str, Relation | None],
    plans: Mapping[str, IncrementalPlan | None],
) -> StoredCatalog:
    """Return the catalog with these new relations; raises SqlError if two domains would read each other."""
    catalog = Catalog({**stored.catalog.relations, **{n: r for n, r in relations.items() if r is not None}})
    after = StoredCatalog(catalog, {**stored.plans, **{n: p for n, p in plans.items() if p is not None}})
    list_domains(after)
    return after


def can_skip_create(catalog: Catalog, name: str, if_not_exists: bool, sql: str) -> bool:
    """Tell whether a relation is to be left as it is; raises SqlError where its name is taken and that was not asked for."""
    check_schema(catalog, name, sql)
    if name not in catalog.relations:
        return False
    if if_not_exists:
        return True
    kind = catalog.relations[name].kind
    hint = f"drop it first: DROP {kind.upper()} {name}"
    raise build_name_error(f"{name} exists already: it is a {kind}", name, sql, hint)
