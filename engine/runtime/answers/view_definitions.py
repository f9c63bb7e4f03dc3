"""The plan of a view's rows over the tables and views that its query names, from the view's own statement.

It is what the view is defined by, in one tree: the fragments that keep it up to date, and their states, are not in it.
"""

from __future__ import annotations

from dataclasses import replace

from engine.errors import SqlError
from engine.hummock.epoch import micros_of
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.runtime.statements.create.window_close import restrict_to_closed
from engine.sql.batch.row_errors import guard_plan
from engine.sql.bind.binder import bind
from engine.sql.catalog import Relation
from engine.sql.expression.clock import MOMENT, reads_clock
from engine.sql.expression.nodes import Cast, Expr, Literal, map_children
from engine.sql.incremental.incremental_plan import build_view_plan
from engine.sql.incremental.rules import FullRefresh
from engine.sql.plan import Join, Node, Scan, list_children, list_nodes
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
    bound = bind(
        statement.query,
        stored.catalog,
        dialect=relation.dialect,
        sql=relation.sql,
        named=bool(statement.columns),
    )
    if resolve_on_row_error(relation.options, relation.dialect) == "null":
        bound = replace(bound, plan=guard_plan(bound.plan))
    plan = restrict_to_closed(bound.plan, statement, stored.catalog)
    shown = relation.visible_storage_names
    outputs = tuple((name, internal) for name, (_, internal) in zip(shown, bound.columns, strict=True))
    plan = build_view_plan(plan, outputs)
    _check_traceable(plan, relation)
    return set_moment(plan, micros_of(epoch))


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
