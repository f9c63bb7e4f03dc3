"""SHOW, DESCRIBE and EXPLAIN: what the catalog and the plans hold, as tables."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping

import pyarrow as pa
import sqlglot.expressions as exp

from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.status.subscriptions import KIND as SUBSCRIPTION
from engine.meta.status.subscriptions import find_followed
from engine.runtime.epoch.forecast_ways import forecast_ways
from engine.runtime.executor import Way
from engine.runtime.relations import resolve_relation
from engine.runtime.spark.analyze import SparkAnalyzer
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.check_views import CheckViews, plan_checks
from engine.runtime.statements.create.relations import plan_view
from engine.runtime.statements.create.schema import build_no_schema_error
from engine.sql.bind.binder import bind
from engine.sql.dialect import Dialect
from engine.sql.explain import explain as explain_plan
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.schemas import SYSTEM, list_schemas, own_schema, schema_of
from engine.sql.statements.ddl.macros import read_signature
from engine.sql.statements.reader import (
    CreateMaterializedView,
    Describe,
    Explain,
    Show,
    ShowCreate,
)
from engine.sql.statements.risingwave_text import render_statement
from engine.sql.statements.view_query import parse_view_query
from engine.sql.typing.text_lengths import format_column_type

_KINDS = {
    "tables": ("table",),
    "views": ("view", "materialized view"),
    "materialized views": ("materialized view",),
    "indexes": ("index",),
    "functions": ("function",),
    "sources": (),
    "all": ("table", "source", "view", "materialized view"),
}


def execute_show(statement: Show, context: StatementContext) -> pa.Table:
    """Return name and kind of the relations asked for; of COLUMNS FROM a relation its columns."""
    if statement.what == "columns":
        return execute_describe(Describe(statement.name, statement.sql), context)
    stored, dialect = context.stored, context.dialect
    if statement.what == "schemas":
        names = [own_schema(dialect), *sorted(list_schemas(stored.catalog)), *SYSTEM]
        matching = [name for name in names if statement.like is None or _matches(name, statement.like)]
        return pa.table({"name": matching}, _build_text_schema("name"))
    if statement.schema is not None:
        _check_schema(stored, statement, dialect)
    kinds = _KINDS[statement.what]
    relations = {
        n: r for n, r in sorted(stored.catalog.relations.items()) if r.kind in kinds and not n.startswith("_")
    }
    if statement.what == "sources":
        relations = {
            n: r
            for n, r in stored.catalog.relations.items()
            if "connector" in r.options and r.kind in ("table", "source")
        }
    if statement.name:
        base = resolve_relation(stored, "", statement.name, statement.sql, system=True).name
        relations = {n: r for n, r in relations.items() if r.options.get("on") == base}
    if statement.schema is not None:
        schema = "" if statement.schema == own_schema(dialect) else statement.schema
        relations = {n: r for n, r in relations.items() if schema_of(n) == schema}
    found = [(n, r.kind) for n, r in relations.items()]
    if statement.like is not None:
        found = [(name, kind) for name, kind in found if _matches(name, statement.like)]
    return pa.table(
        {"name": [n for n, _ in found], "kind": [k for _, k in found]}, _build_text_schema("name", "kind")
    )


def _matches(name: str, like: str) -> bool:
    return fnmatch.fnmatchcase(name, like.replace("%", "*").replace("_", "?"))


def _check_schema(stored: StoredCatalog, statement: Show, dialect: Dialect) -> None:
    name = statement.schema
    if name is not None and name != own_schema(dialect) and name not in list_schemas(stored.catalog):
        raise build_no_schema_error(stored.catalog, name, statement.sql)


def execute_show_create(statement: ShowCreate, context: StatementContext) -> pa.Table:
    """Return the statement that created a relation; `risingwave` names its schema, and shows its text as RisingWave does."""
    relation = resolve_relation(context.stored, "", statement.name, statement.sql, system=True)
    dialect = context.dialect
    name, text = relation.name, relation.sql
    if dialect == "risingwave" and relation.dialect == dialect:
        name = name if schema_of(name) else f"{own_schema(dialect)}.{name}"
        text = render_statement(text, dialect)
    return pa.table({"name": [name], "create_statement": [text]})


def execute_describe(statement: Describe, context: StatementContext) -> pa.Table:
    """Return the columns of a relation with type, nullability and key; of a subscription those of what it follows.

    Of a plain view Spark tells the types.
    """
    stored = context.stored
    relation = resolve_relation(stored, "", statement.name, statement.sql, system=True)
    if relation.kind == SUBSCRIPTION:
        relation = stored.catalog.get(find_followed(relation))
    if relation.kind == "function":
        parameters, returns = read_signature(relation)
        signature = (*parameters, ("returns", returns))
        return pa.table({"parameter": [n for n, _ in signature], "type": [k for _, k in signature]})
    visible = relation.visible_columns
    types = [format_column_type(column) for column in visible]
    if relation.kind == "view":
        query = parse_view_query(relation).copy()
        bound = bind(query, stored.catalog, dialect=relation.dialect, sql=relation.sql, named=True)
        found = SparkAnalyzer(context.spark(), stored.catalog, relation.sql).infer_types(bound.plan)
        types = [found[internal] for _, internal in bound.columns]
    return pa.table(
        {
            "column": [column.name for column in visible],
            "type": types,
            "nullable": [not relation.is_never_null(column) for column in visible],
            "key": [column.storage_name in relation.unique_key for column in visible],
            "comment": [column.comment or "" for column in visible],
        }
    )


def execute_explain(statement: Explain, context: StatementContext) -> pa.Table:
    """Return the bound plan of a query or view as text, or with INCREMENTAL the plan by which it would be kept."""
    stored = context.stored
    return (_explain_incremental if statement.incremental else _explain_bound)(statement, stored, context)


def _explain_bound(statement: Explain, stored: StoredCatalog, context: StatementContext) -> pa.Table:
    target = statement.target
    named = isinstance(target, CreateMaterializedView) and bool(target.columns)
    query = target.query if isinstance(target, CreateMaterializedView) else target
    bound = bind(query, stored.catalog, dialect=context.dialect, sql=statement.sql, named=named)
    return _build_line_table("\n".join([explain_plan(bound.plan), *(f"rule {note}" for note in bound.notes)]))


def _explain_incremental(statement: Explain, stored: StoredCatalog, context: StatementContext) -> pa.Table:
    """Return the incremental plan of a query or view: fragments, rules, keys, state tables and why."""
    target = statement.target
    if not isinstance(target, CreateMaterializedView):
        assert isinstance(target, exp.Query)
        target = CreateMaterializedView("explained", target, statement.sql, {}, False, statement.sql)
    relation, plan = plan_view(target, stored.catalog, context)
    return _build_line_table(
        "\n".join(
            [
                format_incremental_plan(
                    plan, ways=forecast_ways(plan, stored.catalog, context.store, context.spark())
                ),
                *_explain_checks(plan_checks(relation, plan, stored.catalog, context)),
            ]
        )
    )


def _explain_checks(found: CheckViews) -> Iterator[str]:
    """Yield the checks of a view, and the plans of the hidden views that hold and count what breaks them."""
    for check in found.checks:
        views = (
            ", ".join(name for name in (check.breaks, check.counts) if name) or "nothing: the key is unique"
        )
        yield f"check {check.name} ({check.severity}): {check.text}; kept by {views}"
    for name, plan in found.plans.items():
        yield format_incremental_plan(plan, "check" if found.relations[name].kind == "check" else "index")


def format_incremental_plan(
    plan: IncrementalPlan, what: str = "view", ways: Mapping[str, Way] | None = None
) -> str:
    """Return an incremental plan as text, one paragraph a fragment, which may say where small epochs of it are computed."""
    parts = []
    for table, by in plan.indexes:
        parts.append(f"index {index_name(table, by)}: {table} by {', '.join(by)} (shared)")
    for fragment in plan.fragments:
        role = what if fragment.table == plan.view else "state"
        parts.append(
            f"{role} {fragment.table}: rule {fragment.rule.word} ({fragment.why}); key {', '.join(fragment.key)}; "
            f"distributed by {', '.join(fragment.distribution_key)}"
        )
        if ways is not None:
            parts.append(f"  small epochs: {ways[fragment.table]}")
        parts.append(_indent(explain_plan(fragment.plan)))
    return "\n".join(parts)


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def _build_line_table(text: str) -> pa.Table:
    return pa.table({"plan": pa.array(text.splitlines(), pa.string())})


def _build_text_schema(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])
