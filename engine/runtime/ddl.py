"""Statements that change the catalog: each is one commit, checked again whenever the commit is rebased."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.errors import Conflict, SqlError, UnsupportedSql
from engine.hummock import Commit, Hummock, Table, Version
from engine.meta.catalog_store import StoredCatalog, entries, load
from engine.meta.creation import forgotten
from engine.meta.domain import BACKGROUND, OPTION, RATE_LIMIT, domains
from engine.meta.recovery import recovered
from engine.runtime.analyze import SparkAnalyzer
from engine.runtime.dml import ROW_ID
from engine.sql.access import index_name
from engine.sql.binder import bind
from engine.sql.catalog import Catalog, Column, Relation
from engine.sql.fragments import IncrementalPlan, build_incremental_plan, index_fragment
from engine.sql.point_read import query_tables
from engine.sql.statements import CreateMaterializedView, CreateTable, CreateView, Drop
from engine.sql.types import to_arrow


def create_table(store: Hummock, statement: CreateTable, dialect: str) -> bool:
    """Create a source table; returns False if it exists and the statement says IF NOT EXISTS."""
    stored = load(store.refresh())
    if _exists(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    columns, key = tuple(statement.columns), tuple(statement.primary_key)
    if not key:
        columns, key = (*columns, Column(ROW_ID, "bigint", False, None, True)), (ROW_ID,)
    relation = Relation(
        name=statement.name,
        kind="table",
        columns=columns,
        primary_key=key,
        distribution_key=key,
        append_only=statement.append_only,
        sql=statement.sql,
        dialect=dialect,
        options=dict(statement.options),
    )
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
    store.commit(
        Commit(
            create=(Table(statement.name, schema, key, key),),
            catalog=entries({statement.name: relation}, {}),
            precondition=_still_absent(statement.name),
        )
    )
    return True


def create_view(store: Hummock, statement: CreateView, dialect: str) -> bool:
    """Create a plain view: a name for a query, computed where it is read."""
    stored = load(store.refresh())
    if _exists(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    bound = bind(statement.query, stored.catalog, dialect=dialect, sql=statement.sql)
    relation = Relation(
        name=statement.name,
        kind="view",
        columns=tuple(Column(name, "") for name, _ in bound.columns),
        sql=statement.sql,
        dialect=dialect,
        depends_on=query_tables(statement.query, stored.catalog),
    )
    store.commit(
        Commit(
            catalog=entries({statement.name: relation}, {}),
            precondition=_inputs_stand(statement.name, relation.depends_on),
        )
    )
    return True


def plan_view(
    catalog: Catalog, spark: SparkSession, statement: CreateMaterializedView, dialect: str
) -> tuple[Relation, IncrementalPlan]:
    """Return the relation and the incremental plan of a materialized view, without a trace in the catalog."""
    bound = bind(statement.query, catalog, dialect=dialect, sql=statement.sql)
    analyzer = SparkAnalyzer(spark, catalog, statement.sql)
    plan = build_incremental_plan(statement.name, bound.plan, bound.columns, analyzer)
    last = plan.fragments[-1]
    shown = {name for name, _ in bound.columns}
    relation = Relation(
        name=statement.name,
        kind="materialized view",
        columns=tuple(Column(name, kind, hidden=name not in shown) for name, kind in last.columns),
        primary_key=last.key,
        distribution_key=last.distribution_key,
        append_only=last.plan.append_only,
        sql=statement.sql,
        dialect=dialect,
        options=dict(statement.options),
        depends_on=query_tables(statement.query, catalog),
    )
    return relation, plan


def create_materialized_view(
    store: Hummock, spark: Callable[[], SparkSession], statement: CreateMaterializedView, dialect: str
) -> bool:
    """Create a materialized view with the indexes that it needs; its content comes with the next epoch run."""
    stored = load(store.refresh())
    if _exists(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    unknown = set(statement.options) - {OPTION, RATE_LIMIT, BACKGROUND}
    if unknown:
        raise UnsupportedSql(
            f"WITH options of a materialized view are not offered: {', '.join(sorted(unknown))}",
            sql=statement.sql,
        )
    relation, plan = plan_view(stored.catalog, spark(), statement, dialect)
    relations: dict[str, Relation | None] = {statement.name: relation}
    plans: dict[str, IncrementalPlan | None] = {statement.name: plan}
    for table, columns in plan.indexes:
        name = index_name(table, columns)
        if name not in stored.catalog.relations:
            fragment = index_fragment(table, columns, stored.catalog)
            plans[name] = IncrementalPlan(name, (fragment,))
            base = stored.catalog.get(table)
            relations[name] = Relation(
                name=name,
                kind="index",
                columns=base.columns,
                primary_key=fragment.key,
                distribution_key=fragment.distribution_key,
                append_only=base.append_only,
                sql="",
                dialect=dialect,
                depends_on=(table,),
            )
    _check_domains(stored, relations, plans)
    store.commit(
        Commit(
            catalog=entries(relations, plans),
            precondition=_inputs_stand(statement.name, relation.depends_on),
        )
    )
    return True


def _check_domains(
    stored: StoredCatalog,
    relations: Mapping[str, Relation | None],
    plans: Mapping[str, IncrementalPlan | None],
) -> None:
    """Raise SqlError if with these new relations two domains would read each other."""
    catalog = Catalog({**stored.catalog.relations, **{n: r for n, r in relations.items() if r is not None}})
    domains(StoredCatalog(catalog, {**stored.plans, **{n: p for n, p in plans.items() if p is not None}}))


def drop(store: Hummock, statement: Drop) -> bool:
    """Drop a relation, with CASCADE also what reads it; state tables and indexes that nobody uses go with it."""
    stored = load(store.refresh())
    if statement.name not in stored.catalog.relations:
        if statement.if_exists:
            return False
        stored.catalog.get(statement.name)  # raises, with near names
    relation = stored.catalog.get(statement.name)
    if relation.kind != statement.kind:
        raise SqlError(
            f"{relation.name} is a {relation.kind}, not a {statement.kind}",
            sql=statement.sql,
            hint=f"write DROP {relation.kind.upper()} {relation.name}",
        )
    dependents = [
        name for name in stored.catalog.dependents(relation.name) if stored.catalog.get(name).kind != "index"
    ]
    if dependents and not statement.cascade:
        raise SqlError(
            f"{relation.name} is read by {', '.join(dependents)}",
            sql=statement.sql,
            hint=f"drop those first, or write DROP {relation.kind.upper()} {relation.name} CASCADE",
        )
    gone = {relation.name, *dependents}
    kept = {name: plan for name, plan in stored.plans.items() if name not in gone}
    used = {index_name(table, by) for plan in kept.values() for table, by in plan.indexes}
    indexes = {n for n, r in stored.catalog.relations.items() if r.kind == "index" and n not in used}
    gone |= indexes
    fragments = {f.table for name in gone & set(stored.plans) for f in stored.plans[name].fragments}
    acks = {
        upstream: {table: None for table in fragments if upstream in stored.inputs[table]}
        for upstream in {u for table in fragments for u in stored.inputs[table]} - gone - fragments
    }
    version = store.version
    store.commit(
        Commit(
            drop=tuple(name for name in sorted(gone | fragments) if name in version.tables),
            acks={upstream: consumers for upstream, consumers in acks.items() if upstream in version.tables},
            catalog=entries(dict.fromkeys(gone), dict.fromkeys(gone & set(stored.plans)))
            | {
                entry: None
                for name in gone
                for entry in (*recovered(version, name), *forgotten(version, name))
            },
            precondition=_catalog_unchanged(version),
        )
    )
    return True


def _exists(catalog: Catalog, name: str, if_not_exists: bool, sql: str) -> bool:
    if name not in catalog.relations:
        return False
    if if_not_exists:
        return True
    kind = catalog.relations[name].kind
    raise SqlError(
        f"{name} exists already: it is a {kind}", sql=sql, hint=f"drop it first: DROP {kind.upper()} {name}"
    )


def _still_absent(name: str) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        if f"relation/{name}" in version.catalog:
            raise Conflict(f"{name} was created by another process at the same time")

    return check


def _inputs_stand(name: str, inputs: tuple[str, ...]) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        _still_absent(name)(version)
        for upstream in inputs:
            if f"relation/{upstream}" not in version.catalog:
                raise Conflict(f"{upstream}, which {name} reads, was dropped by another process")

    return check


def _catalog_unchanged(seen: Version) -> Callable[[Version], None]:
    def check(version: Version) -> None:
        if dict(version.catalog) != dict(seen.catalog):
            raise Conflict("the catalog was changed by another process at the same time; try again")

    return check
