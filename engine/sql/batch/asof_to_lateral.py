"""As-of joins of queries that are answered once: for Spark each is a LATERAL that takes the first matching row in an order."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error, unsupported_error

_ORDERS = (exp.GTE, exp.GT, exp.LTE, exp.LT)


def rewrite_asof_joins(query: exp.Expr, sql: str) -> exp.Expr:
    """Return a query, changed in place, without as-of joins; raises SqlError with the place of one that cannot be rewritten."""
    for join in list(query.find_all(exp.Join)):
        if str(join.args.get("method") or "").upper() == "ASOF":
            join.replace(_build_lateral(join, sql))
    return query


def _build_lateral(join: exp.Join, sql: str) -> exp.Join:
    side = str(join.args.get("side") or "").upper()
    if side not in ("", "LEFT"):
        hint = "write ASOF JOIN or ASOF LEFT JOIN, with the other side on the left"
        raise unsupported_error(f"ASOF {side} JOIN", join.this, sql, hint)
    if join.args.get("using"):
        hint = "write ON a.key = b.key, and name the columns that are shown"
        raise unsupported_error(
            "USING of an as-of join in a query that is answered once", join.this, sql, hint
        )
    item = join.this
    alias = item.args.get("alias")
    name = alias.this.copy() if alias is not None and alias.this is not None else item.this.copy()
    conditions = [
        part for part in (join.args.get("match_condition"), join.args.get("on")) if part is not None
    ]
    parts = [part for condition in conditions for part in _split_conjuncts(condition)]
    orders = [part for part in parts if isinstance(part, _ORDERS)]
    if len(orders) != 1:
        hint = "write ASOF [LEFT] JOIN b ON a.key = b.key AND a.time >= b.time"
        at = orders[1] if orders else join.this
        raise sql_error("an as-of join has one comparison by order", at, sql, hint)
    key, descending = _parse_order(orders[0], normalize_identifier(name), sql)
    nearest = exp.Ordered(this=key.copy(), desc=descending, nulls_first=not descending)
    rows = exp.Select(expressions=[exp.Star()]).from_(item.copy(), copy=False)
    rows = rows.where(*(part.copy() for part in parts), copy=False)
    rows.set("order", exp.Order(expressions=[nearest]))
    found = rows.limit(1, copy=False)
    lateral = exp.Lateral(this=exp.Subquery(this=found), alias=exp.TableAlias(this=name))
    return exp.Join(this=lateral, side=side or None, on=exp.true())


def _parse_order(order: exp.Expr, name: str, sql: str) -> tuple[exp.Expr, bool]:
    """Return by what the right side's rows are ordered, and whether the last of them is the nearest."""
    sides = (order.this, order.expression)
    right = [_is_side_of(side, name) for side in sides]
    if right.count(True) != 1:
        hint = f"name the columns with their tables: a.time >= {name}.time"
        raise sql_error("which side of the as-of join's comparison is which is not known", order, sql, hint)
    after = isinstance(order, exp.GTE | exp.GT)
    return (sides[1], after) if right[1] else (sides[0], not after)


def _is_side_of(side: exp.Expr, name: str) -> bool:
    columns = list(side.find_all(exp.Column))
    return bool(columns) and all(column.table.lower() == name.lower() for column in columns)


def _split_conjuncts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Paren):
        return _split_conjuncts(node.this)
    return (
        [part for side in (node.this, node.expression) for part in _split_conjuncts(side)]
        if isinstance(node, exp.And)
        else [node]
    )
