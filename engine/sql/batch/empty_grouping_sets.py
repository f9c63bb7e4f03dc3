"""GROUPING SETS with an empty set over no rows: in PostgreSQL the whole of nothing has a row, in Spark it has none.

`SELECT k, count(*) FROM t GROUP BY ROLLUP (k)` -> the same, UNION ALL
`SELECT any_value(k), count(*) FROM t HAVING count(*) = 0`

The branch that is added has a row only where there are none, so that of the two branches one is empty always.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot.expressions as exp

from engine.sql.functions import is_aggregate
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.rewrites.binding.expand_grouping_sets import read_grouping_sets
from engine.sql.typing.query_types import QueryTypes


def add_empty_group_rows(tree: exp.Expr, types: QueryTypes) -> exp.Expr:
    """Return a query in which each GROUP BY with an empty grouping set has a row for it, also of no rows.

    One with a subquery that reads a key stays as it is, for Spark takes no aggregate there, and so does one that cuts several
    such rows by LIMIT.
    """
    for select in reversed(list(tree.find_all(exp.Select))):
        group = select.args.get("group")
        sets = read_grouping_sets(group) if group is not None else None
        wholes = sum(1 for one in sets or () if not one)
        limited = any(select.args.get(part) for part in ("limit", "offset"))
        if sets is None or not wholes or len(sets) == 1 or (wholes > 1 and limited):
            continue  # one set alone, and that is empty, is no grouping to Spark either: it has its row
        keys = _resolve_keys(select, [part for one in sets for part in one], types)
        if _has_keys_in_subqueries(select, keys):
            continue
        with_, ordered = select.args.get("with_"), limited or select.args.get("order") is not None
        first = select.copy()
        first.set("with_", None)
        found: exp.Expr = exp.Subquery(this=first) if ordered else first
        for _ in range(1 if select.args.get("distinct") else wholes):
            found = exp.Union(this=found, expression=_build_empty_group(select, keys), distinct=False)
        found.set("with_", with_.copy() if with_ is not None else None)
        if isinstance(select.parent, exp.SetOperation):
            found = exp.Subquery(this=found)
        if select is tree:
            return copy_location(found, select)
        select.replace(copy_location(found, select))
    return tree


def _resolve_keys(select: exp.Select, parts: Sequence[exp.Expr], types: QueryTypes) -> list[exp.Expr]:
    """Return the expressions that GROUP BY groups by; a number or an alias of the SELECT list means what stands there."""
    found = []
    for part in parts:
        key = part.unnest()
        if isinstance(key, exp.Literal) and key.name.isdigit():
            number = int(key.name)
            key = select.selects[number - 1].unalias() if 0 < number <= len(select.selects) else key
        elif isinstance(key, exp.Column) and not key.table and not types.has_column(select, key.name):
            name = normalize_identifier(key.this)
            aliases = [item for item in select.selects if isinstance(item, exp.Alias)]
            items = [item.this for item in aliases if normalize_identifier(item.args["alias"]) == name]
            own = bool(items) and any(column.name == key.name for column in items[0].find_all(exp.Column))
            key = items[0] if items and not own else key
        found.append(key)
    return found


def _has_keys_in_subqueries(select: exp.Select, keys: Sequence[exp.Expr]) -> bool:
    names = {column.name for key in keys for column in key.find_all(exp.Column)}
    having = select.args.get("having")
    inner = [query for part in (*select.selects, having) if part for query in part.find_all(exp.Query)]
    return any(column.name in names for query in inner for column in query.find_all(exp.Column))


def _build_empty_group(select: exp.Select, keys: Sequence[exp.Expr]) -> exp.Expr:
    found = select.copy()
    found.set("group", None)
    found.set("with_", None)
    found.set("order", None)
    for item in list(found.selects):
        inner = item.this if isinstance(item, exp.Alias) else item
        inner.replace(_evaluate_on_nothing(inner, keys))
    none = exp.EQ(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    having = found.args.get("having")
    condition: exp.Expr = none
    if having is not None:
        condition = exp.And(this=none, expression=exp.Paren(this=_evaluate_on_nothing(having.this, keys)))
    found.set("having", exp.Having(this=condition))
    return found


def _evaluate_on_nothing(node: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
    """Return what an expression over groups is for the whole of no rows: a key is null, in the type that it has."""
    if isinstance(node, exp.Grouping | exp.GroupingId):
        return exp.Literal.number((1 << max(len(node.expressions), 1)) - 1)
    if node in keys:
        return exp.AnyValue(this=node.copy())
    if is_aggregate(node) and not isinstance(node.parent, exp.Window):
        return node.copy()
    changed = node.copy()
    for child in list(changed.iter_expressions()):
        if is_aggregate(child) and isinstance(changed, exp.Window) and child is changed.this:
            for argument in list(child.iter_expressions()):
                argument.replace(_evaluate_on_nothing(argument, keys))
            continue
        child.replace(_evaluate_on_nothing(child, keys))
    return changed
