"""Queries that are answered once with frames that Spark does not know: for it they are the plan that a view of them has.

A plan's rows have no order: what the whole query is ordered by becomes columns of the plan, and orders what is read of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.batch.hidden_row_ids import is_read_whole
from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.bind.ordering import OrderItem, find_output_position, parse_order_items
from engine.sql.bind.scope import Scope
from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.expression.clock import reads_clock
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.proctime import resolve_proctime
from engine.sql.parsing.statement_errors import unsupported_error
from engine.sql.plan import Node, list_nodes, list_scans
from engine.sql.rewrites.binding.free_columns import list_node_expressions
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.queries.expand_row_order import expand_row_order

_INSTEAD = "make a materialized view of what has such frames, and read that"
_IN_VIEW, _ONCE = (
    "is not supported in a maintained view",
    "is not supported in a query with frames of EXCLUDE or SESSION WITH GAP",
)


@dataclass(frozen=True)
class PlannedRows:
    """The rows of a plan under the name of a temporary view."""

    view: str
    plan: Node


def plan_query(
    query: exp.Query | exp.Values, catalog: Catalog, dialect: Dialect, view: str, sql: str
) -> tuple[exp.Select, PlannedRows]:
    """Return a query as one over a temporary view, and the plan of that; raises SqlError or UnsupportedSql with the place."""
    if any(is_read_whole(table) for table in query.find_all(exp.Table)):
        raise unsupported_error(
            "EXCLUDE in a frame, or SESSION WITH GAP, beside UPDATE or DELETE",
            query.find(exp.WindowSpec),
            sql,
            _INSTEAD,
        )
    inner = expand_row_order(resolve_proctime(query), QueryText(catalog, dialect, sql))
    assert isinstance(inner, exp.Query)
    order = parse_order_items(inner.args.get("order"), dialect)
    added = _add_order_columns(inner, order) if isinstance(inner, exp.Select) else {}
    try:
        bound = bind(inner, catalog, dialect=dialect, sql=sql)
    except UnsupportedSql as error:
        message = error.message.replace(_IN_VIEW, _ONCE)
        hint = error.hint if message == error.message else f"{error.hint}; or {_INSTEAD}"
        raise UnsupportedSql(message, sql=sql, line=error.line, column=error.column, hint=hint) from error
    _refuse_moving(bound.plan, sql)
    visible = bound.columns[: len(bound.columns) - len(set(added.values()))]
    columns = [exp.alias_(_quote_column(internal), name, quoted=True) for name, internal in visible]
    found = exp.Select(expressions=columns).from_(exp.to_identifier(view, quoted=True), copy=False)
    if order:
        found.set("order", exp.Order(expressions=_build_orders(order, added, bound, len(visible), sql)))
    return found, PlannedRows(view, bound.plan)


def _add_order_columns(select: exp.Select, order: list[OrderItem]) -> dict[int, str]:
    """Add what a SELECT is ordered by to what it gives; return the names of these columns by the places in its ORDER BY."""
    distinct = select.args.get("distinct")
    aliases = {
        normalize_identifier(item.args["alias"]): item.this
        for item in select.expressions
        if isinstance(item, exp.Alias)
    }
    named = {
        *aliases,
        *(
            normalize_identifier(item.this)
            for item in select.expressions
            if isinstance(item, exp.Column) and not item.is_star
        ),
    }
    added: dict[int, str] = {}
    for n, item in enumerate(order):
        plain = isinstance(item.node, exp.Column) and not item.node.args.get("table")
        if isinstance(item.node, exp.Literal) or (plain and normalize_identifier(item.node.this) in named):
            continue
        added[n] = f"order {n}"
        resolved = item.node.transform(lambda node: _resolve_alias(node, aliases))
        select.append("expressions", exp.alias_(resolved, added[n], quoted=True))
    if added and distinct is not None and distinct.args.get("on") is None:
        select.set("expressions", select.expressions[: -len(added)])
        added.clear()
    for n, name in added.items():
        select.args["order"].expressions[n].replace(
            exp.Ordered(this=_quote_column(name), desc=order[n].descending, nulls_first=order[n].nulls_first)
        )
    return added


def _resolve_alias(node: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
    if isinstance(node, exp.Column) and not node.args.get("table") and not node.is_star:
        found = aliases.get(normalize_identifier(node.this))
        return node if found is None else exp.Paren(this=found.copy())
    return node


def _build_orders(
    order: list[OrderItem], added: dict[int, str], bound: BoundQuery, width: int, sql: str
) -> list[exp.Ordered]:
    scope, columns = Scope(sql), dict(bound.columns)
    names = [name for name, _ in bound.columns[:width]]
    found = []
    for n, item in enumerate(order):
        if n in added:
            internal = columns[added[n]]
        else:
            position = find_output_position(item.node, names, scope)
            if position is None:
                hint = f"order by {', '.join(names)}, or by the number of one of them"
                raise scope.build_error(f"ORDER BY {item.node.sql()} beside DISTINCT", item.node, hint)
            internal = bound.columns[position][1]
        found.append(
            exp.Ordered(this=_quote_column(internal), desc=item.descending, nulls_first=item.nulls_first)
        )
    return found


def _quote_column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _refuse_moving(plan: Node, sql: str) -> None:
    """Refuse what the plan of a view follows from epoch to epoch."""
    for node in list_nodes(plan):
        for expr in list_node_expressions(node):
            if reads_clock(expr):
                line, column = expr.position
                raise UnsupportedSql(f"now() {_ONCE}", sql=sql, line=line, column=column, hint=_INSTEAD)
    if any(scan.changes for scan in list_scans(plan)):
        raise unsupported_error(f"CHANGELOG FROM {_ONCE}", None, sql, _INSTEAD)
