"""The plan of a view's rows over the tables and views that its query names, from the view's own statement.

It is what the view is defined by, in one tree: the fragments that keep it up to date, and their states, are not in it.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
from sqlglot import exp

from engine.errors import SqlError
from engine.hummock.epoch import micros_of
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.runtime.statements.create.window_close import restrict_to_closed
from engine.sql.batch.row_errors import guard_plan
from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.catalog import Catalog, Relation
from engine.sql.expression.clock import MOMENT, reads_clock
from engine.sql.expression.nodes import Cast, Expr, Literal, map_children
from engine.sql.incremental.incremental_plan import build_view_plan
from engine.sql.incremental.rules import FullRefresh
from engine.sql.plan import Join, Node, Scan, list_children, list_nodes, list_scans
from engine.sql.rewrites.binding.free_columns import map_expressions, with_inputs
from engine.sql.statements.options.view_options import resolve_on_row_error
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import CreateMaterializedView


def build_definition(relation: Relation, stored: StoredCatalog, epoch: int) -> Node:
    """Return the plan of a view's rows, under their names in the store; `now()` is the moment of an epoch.

    Raises SqlError for a view whose rows follow from more than the rows of its inputs.
    """
    fragment = stored.fragments[relation.name]
    if isinstance(fragment.rule, FullRefresh):
        return fragment.plan
    statement = parse_statement(relation.sql, relation.dialect)
    assert isinstance(statement, CreateMaterializedView)
    bound = _bind_query(statement, relation, stored)
    if resolve_on_row_error(relation.options, relation.dialect) == "null":
        bound = replace(bound, plan=guard_plan(bound.plan))
    plan = restrict_to_closed(bound.plan, statement, stored.catalog)
    shown = relation.visible_storage_names
    outputs = tuple((name, internal) for name, (_, internal) in zip(shown, bound.columns, strict=True))
    plan = build_view_plan(plan, outputs)
    _check_traceable(plan, relation)
    return set_moment(plan, micros_of(epoch))


def _bind_query(statement: CreateMaterializedView, relation: Relation, stored: StoredCatalog) -> BoundQuery:
    """Return a view's query as it was bound when the view was made: a star is not the columns that a table got since."""

    def bind_over(catalog: Catalog) -> BoundQuery:
        named = bool(statement.columns)
        return bind(statement.query, catalog, dialect=relation.dialect, sql=relation.sql, named=named)

    shown = len(relation.visible_columns)
    if any(statement.query.find_all(exp.Star)):
        try:
            bound = bind_over(_restrict_to_read(relation, stored))
        except SqlError:
            pass  # it names columns that its rows do not follow from
        else:
            if len(bound.columns) == shown:
                return bound
    bound = bind_over(stored.catalog)
    if len(bound.columns) != shown:
        raise SqlError(
            f"rows of {relation.name} cannot be traced: what it reads got columns since, and its query is another one by these",
            hint="ask for a row of what it reads",
        )
    return bound


def _restrict_to_read(relation: Relation, stored: StoredCatalog) -> Catalog:
    """Return the catalog with those columns of tables only that a view's plan reads, or that tell their rows apart."""
    relations = dict(stored.catalog.relations)
    read: set[tuple[str, str]] = set()
    for fragment in stored.plans[relation.name].fragments:
        for scan in list_scans(fragment.plan):
            base = relations.get(scan.table)
            tables = base.depends_on if base is not None and base.kind == "index" else (scan.table,)
            read |= {(table, column) for table in tables for _, column in scan.items}
    for name in relation.depends_on:
        table = relations[name]
        if table.kind not in ("table", "source"):
            continue
        kept = {*table.primary_key, *((table.watermark.column,) if table.watermark is not None else ())}
        columns = tuple(
            column
            for column in table.columns
            if column.hidden or column.storage_name in kept or (name, column.storage_name) in read
        )
        relations[name] = msgspec.structs.replace(table, columns=columns)
    return Catalog(relations)


def _check_traceable(plan: Node, relation: Relation) -> None:
    for node in list_nodes(plan):
        what = None
        if isinstance(node, Join) and node.at_arrival:
            what = "a temporal join keeps what a row has met when it came, and the rows that it met may be others by now"
        elif isinstance(node, Scan) and node.changes:
            what = f"its rows are the changes of {node.table}, of which the store keeps no rows"
        if what is not None:
            raise SqlError(
                f"rows of {relation.name} cannot be traced: {what}",
                hint="ask for a row of what it reads",
            )


def set_moment(node: Node, micros: int) -> Node:
    """Return a plan in which the moment is a number, in microseconds since 1970."""
    moment = Cast(Literal(str(micros)), "bigint")

    def replace_moment(expr: Expr) -> Expr:
        return moment if expr == MOMENT else map_children(expr, replace_moment)

    below = with_inputs(node, [set_moment(child, micros) for child in list_children(node)])
    return map_expressions(below, lambda expr: replace_moment(expr) if reads_clock(expr) else expr)
