"""A table function in the SELECT list: the rows are unnested below the projection.

`SELECT id, explode(xs) AS x FROM t` -> `SELECT id, x FROM t, UNNEST(xs) AS u(x)`
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.bind.expressions import ExpressionBinder, bound_column, walk_own_parts
from engine.sql.bind.from_clause.table_functions import BoundTableCall, TableFunctionBinder
from engine.sql.functions import is_table_function
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier

_SQL_NAMES = {"explode": "unnest", "exploding_generate_series": "generate_series"}
"""How PostgreSQL calls the column of a function that sqlglot knows by another name."""
_REMEDY = "put it into FROM: FROM t, UNNEST(xs) AS u(x)"


def expand_generators(
    select: exp.Select,
    expressions: ExpressionBinder,
    fresh: Callable[[str], str],
    note: Callable[[str, str | None], None],
) -> list[exp.Expr]:
    """Return the SELECT list with its table function replaced by columns; the plan gets its rows when it is attached."""
    found = [part for item in select.expressions for part in _find_calls(item)]
    if not found:
        return list(select.expressions)
    if len(found) > 1:
        raise expressions.refuse("a second table function in the SELECT list", found[1], _REMEDY)
    if select.args.get("group") or any(expressions.has_aggregate(item) for item in select.expressions):
        raise expressions.refuse("a table function beside aggregates", found[0], _REMEDY)
    call = TableFunctionBinder(expressions, fresh, note).bind(found[0])
    expressions.subqueries.pending.append(call.apply)
    return [new for item in select.expressions for new in _replace_call(item, found[0], call, expressions)]


def _find_calls(item: exp.Expr) -> list[exp.Expr]:
    return [
        part for part in walk_own_parts(item) if is_table_function(part) and not isinstance(part, exp.Lateral)
    ]


def _replace_call(
    item: exp.Expr, found: exp.Expr, call: BoundTableCall, expressions: ExpressionBinder
) -> list[exp.Expr]:
    alone = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
    if alone is found:
        names = [name for name, _ in call.columns]
        if expressions.dialect != "spark" and len(names) == 1:
            names = [found.sql_name().lower() if isinstance(found, exp.Func) else names[0]]
            names = [_SQL_NAMES.get(names[0], names[0])]
        if isinstance(item, exp.Alias):
            names = [normalize_identifier(item.args["alias"])]
        elif isinstance(item, exp.Aliases):
            names = [normalize_identifier(alias) for alias in item.expressions]
        if len(names) != len(call.columns):
            message = f"{len(names)} names for {len(call.columns)} columns"
            raise expressions.scope.build_error(message, item, "name each column: AS (a, b)")
        return [
            copy_location(exp.alias_(bound_column(internal), name, quoted=True), item)
            for name, (_, internal) in zip(names, call.columns, strict=True)
        ]
    if not any(part is found for part in walk_own_parts(item)):
        return [item]
    if len(call.columns) != 1:
        raise expressions.refuse("a table function of several columns in an expression", found, _REMEDY)
    column = bound_column(call.columns[0][1])
    return [item.transform(lambda part: column if part is found else part, copy=False)]
