"""Comparisons with the one row of another query, which become filters against a bound that moves.

`WHERE x > (SELECT max(y) FROM t2)` is bound as a join of every pair, which an epoch that moves the maximum would try again with
all rows. Where x and y are whole numbers, dates or timestamps, and nothing else is read of that row, rows are kept in the order
of x instead, and the epoch reads those that the bound passes.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Literal, NamedTuple

import msgspec

from engine.sql.expression.clock import parts_of
from engine.sql.expression.nodes import Column, Comparison, Expr
from engine.sql.expression.template import conjunction
from engine.sql.incremental.lookup_states import Analyzer
from engine.sql.incremental.monotone import unit_of
from engine.sql.incremental.window_close import number_of
from engine.sql.plan import Aggregate, DynamicFilter, Filter, Join, Node, Project, UnionAll, Unnest
from engine.sql.rewrites.free import call_expressions

AT = "moving:at"
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Operator = Literal["<", "<=", ">", ">="]


class _Compared(NamedTuple):
    """A comparison: what is compared of the rows, how, and with which column of the one row; `rest` are other conditions."""

    value: Expr
    operator: Operator
    column: str
    rest: tuple[Expr, ...]


def with_moving_bounds(node: Node, needed: Set[str], analyzer: Analyzer) -> Node:
    """Return a plan with filters for joins that do nothing but compare with one row; `needed` are the columns that are read."""
    match node:
        case Filter(input=Join() as join):
            found = _filter_of(join, parts_of(node.predicate), needed, analyzer)
            if found is not None:
                return found
            return msgspec.structs.replace(
                node, input=with_moving_bounds(join, _read(node, needed), analyzer)
            )
        case Join():
            found = _filter_of(node, (), needed, analyzer)
            if found is not None:
                return found
            used = _read(node, needed)
            left = with_moving_bounds(node.left, used, analyzer)
            return msgspec.structs.replace(
                node, left=left, right=with_moving_bounds(node.right, used, analyzer)
            )
        case Filter() | Project() | Aggregate() | Unnest():
            below = with_moving_bounds(node.input, _read(node, needed), analyzer)
            return msgspec.structs.replace(node, input=below)
        case UnionAll():
            inputs = tuple(with_moving_bounds(one, set(one.columns), analyzer) for one in node.inputs)
            return msgspec.structs.replace(node, inputs=inputs)
    return node


def _read(node: Node, needed: Set[str]) -> Set[str]:
    """Return the columns that a node reads of its input for those of its own that are `needed`."""
    match node:
        case Filter():
            return needed | set(node.predicate.columns)
        case Project():
            return {column for _, expr in node.items for column in expr.columns}
        case Aggregate():
            exprs = [expr for _, expr in node.keys]
            exprs += [expr for call in node.calls for expr in call_expressions(call)]
            return {column for expr in exprs for column in expr.columns}
        case Unnest():
            return needed | set(node.array.columns)
        case Join():
            used = needed | {column for pair in node.on for column in pair}
            return used | set(node.residual.columns if node.residual is not None else ())
    return needed


def _filter_of(join: Join, above: tuple[Expr, ...], needed: Set[str], analyzer: Analyzer) -> Node | None:
    """Return the filter that a join of every pair and the conditions `above` it come to, None where they are more."""
    if join.kind != "inner" or join.on or not _is_one_row(join.right):
        return None
    parts = (*above, *(() if join.residual is None else parts_of(join.residual)))
    mine = set(join.left.columns)
    compared = _compared(parts, mine, set(join.right.columns))
    if compared is None or not needed <= mine:
        return None
    rest = conjunction(compared.rest)
    source = with_moving_bounds(join.left, mine, analyzer)
    source = source if rest is None else Filter(source, rest)
    unit = unit_of(analyzer.types(Project(source, ((AT, compared.value),)))[AT])
    if unit is None or unit != unit_of(analyzer.types(join.right)[compared.column]):
        return None
    carried = tuple((name, Column(name)) for name in source.columns)
    valued = Project(source, (*carried, (AT, compared.value)))
    at = f"{AT}:{compared.column}"
    fed = Project(valued, (*carried, (at, number_of(AT, unit))))
    return DynamicFilter(
        fed, at, (), compared.operator, against=Project(join.right, ((at, Column(compared.column)),))
    )


def _compared(parts: tuple[Expr, ...], mine: Set[str], theirs: Set[str]) -> _Compared | None:
    """Return the one comparison with the other row, None if there are several conditions on it, or others."""
    across = [part for part in parts if not set(part.columns) <= mine]
    if len(across) != 1 or not isinstance(across[0], Comparison):
        return None
    left, right, operator = across[0].left, across[0].right, across[0].operator
    if left.column in theirs:
        left, right, operator = right, left, _TURNED.get(operator, "")
    if right.column not in theirs or not set(left.columns) <= mine or not left.columns:
        return None
    for known in ("<", "<=", ">", ">="):
        if operator == known:
            return _Compared(
                left, known, right.columns[0], tuple(part for part in parts if part is not across[0])
            )
    return None


def _is_one_row(node: Node) -> bool:
    """Tell whether a plan is an aggregate without GROUP BY, of which columns are taken as they are."""
    while isinstance(node, Project) and all(expr.column is not None for _, expr in node.items):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys
