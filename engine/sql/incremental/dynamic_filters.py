"""Comparisons with the one row of another query, which become filters against a bound that moves.

`WHERE x > (SELECT max(y) FROM t2)` is bound as a join of every pair, which an epoch that moves the maximum would try again with
all rows. Where x is a whole number, a decimal of up to 18 digits, a date or a timestamp, and nothing else is read of that row,
rows are kept in the order of x instead, and the epoch reads those that the bound passes. The bound may be an expression over the
row: a constant time away, as in `(SELECT max(y) FROM t2) - INTERVAL 1 DAY`, or another number, as in `0.5 * (SELECT avg(y) FROM
t2)`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Literal, NamedTuple

import msgspec

from engine.sql.expression.clock import split_predicate
from engine.sql.expression.monotone_steps import MonotoneStep
from engine.sql.expression.nodes import Column, Comparison, Expr
from engine.sql.expression.template import as_columns, fill_template, join_conditions
from engine.sql.incremental.states.lookup_states import Analyzer
from engine.sql.incremental.watermarks.monotone_expressions import RisingValue, Unit, find_unit, match_rising
from engine.sql.incremental.watermarks.window_close import cast_to_number
from engine.sql.plan import Aggregate, DynamicFilter, Filter, Join, Node, Project, UnionAll, Unnest
from engine.sql.rewrites.binding.free_columns import list_call_expressions
from engine.sql.typing.expression_types import find_unscaled_digits, find_wider_type

AT = "moving:at"
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Operator = Literal["<", "<=", ">", ">="]


class _BoundComparison(NamedTuple):
    """A comparison: what is compared of the rows, how, and with what of the one row's `column`; `rest` are other conditions."""

    value: Expr
    operator: Operator
    column: str
    bound: Expr
    rest: tuple[Expr, ...]


def replace_with_dynamic_filters(node: Node, needed: Set[str], analyzer: Analyzer) -> Node:
    """Return a plan with filters for joins that do nothing but compare with one row; `needed` are the columns that are read."""
    match node:
        case Filter(input=Join() as join):
            found = _build_filter(join, split_predicate(node.predicate), needed, analyzer)
            if found is not None:
                return found
            return msgspec.structs.replace(
                node, input=replace_with_dynamic_filters(join, _find_columns_read(node, needed), analyzer)
            )
        case Join():
            found = _build_filter(node, (), needed, analyzer)
            if found is not None:
                return found
            used = _find_columns_read(node, needed)
            left = replace_with_dynamic_filters(node.left, used, analyzer)
            return msgspec.structs.replace(
                node, left=left, right=replace_with_dynamic_filters(node.right, used, analyzer)
            )
        case Filter() | Project() | Aggregate() | Unnest():
            below = replace_with_dynamic_filters(node.input, _find_columns_read(node, needed), analyzer)
            return msgspec.structs.replace(node, input=below)
        case UnionAll():
            inputs = tuple(
                replace_with_dynamic_filters(one, set(one.columns), analyzer) for one in node.inputs
            )
            return msgspec.structs.replace(node, inputs=inputs)
    return node


def _find_columns_read(node: Node, needed: Set[str]) -> Set[str]:
    """Return the columns that a node reads of its input for those of its own that are `needed`."""
    match node:
        case Filter():
            return needed | set(node.predicate.columns)
        case Project():
            return {column for _, expr in node.items for column in expr.columns}
        case Aggregate():
            exprs = [expr for _, expr in node.keys]
            exprs += [expr for call in node.calls for expr in list_call_expressions(call)]
            return {column for expr in exprs for column in expr.columns}
        case Unnest():
            return needed | set(node.array.columns)
        case Join():
            used = needed | {column for pair in node.on for column in pair}
            return used | set(node.residual.columns if node.residual is not None else ())
    return needed


def _build_filter(join: Join, above: tuple[Expr, ...], needed: Set[str], analyzer: Analyzer) -> Node | None:
    """Return the filter that a join of every pair and the conditions `above` it come to, None where they are more."""
    if join.kind != "inner" or join.on or not _is_one_row(join.right):
        return None
    parts = (*above, *(() if join.residual is None else split_predicate(join.residual)))
    mine = set(join.left.columns)
    compared = _match_comparison(parts, mine, set(join.right.columns))
    if compared is None or not needed <= mine:
        return None
    rest = join_conditions(compared.rest)
    source = replace_with_dynamic_filters(join.left, mine, analyzer)
    source = source if rest is None else Filter(source, rest)
    valued = Project(source, (*as_columns(source.columns), (AT, compared.value)))
    bound = _find_bound(compared, analyzer.infer_types(valued)[AT], join.right, analyzer)
    if bound is None:
        return None
    at = f"{AT}:{compared.column}"
    fed = Project(valued, (*as_columns(source.columns), (at, bound.number)))
    row = Project(join.right, ((at, bound.value),))
    return DynamicFilter(fed, at, (), compared.operator, against=row, steps=bound.steps)


class _MovingBound(NamedTuple):
    """What rows are ordered by, and what they are held against: a value over the one row, after some steps."""

    number: Expr
    value: Expr
    steps: tuple[MonotoneStep, ...] = ()


def _find_bound(compared: _BoundComparison, kind: str, row: Node, analyzer: Analyzer) -> _MovingBound | None:
    """Return the bound of a comparison with a value of a type, None where the numbers of the two have no common order."""
    unit, theirs = find_unit(kind), find_unit(analyzer.infer_types(row)[compared.column])
    rising = None if theirs is None else _match_rising_bound(compared, theirs)
    if unit is not None and rising is not None and unit == rising.unit:
        return _MovingBound(cast_to_number(AT, unit), Column(compared.column), rising.steps)
    other = analyzer.infer_types(Project(row, ((AT, compared.bound),)))[AT]
    scale = find_unscaled_digits(kind)
    if scale is None or other == "float" or find_wider_type(kind, other) is None:
        return None
    step = MonotoneStep("down" if compared.operator in ("<=", ">") else "up", scale)
    units = fill_template(
        f"CAST(:x * CAST(1{'0' * scale} AS DECIMAL({scale + 1}, 0)) AS BIGINT)", x=Column(AT)
    )
    return _MovingBound(units if scale else cast_to_number(AT, "ones"), compared.bound, (step,))


def _match_rising_bound(compared: _BoundComparison, unit: Unit) -> RisingValue | None:
    """Return how the bound follows the column of the one row: as it is, or a constant time away."""
    if compared.bound.column is not None:
        return RisingValue(compared.column, unit)
    if unit == "ones":  # a sum of numbers, or a cast, may leave its type
        return None
    found = match_rising(compared.bound, {compared.column: unit})
    known = found is not None and found.unit == unit and all(step.kind == "shift" for step in found.steps)
    return found if known else None


def _match_comparison(parts: tuple[Expr, ...], mine: Set[str], theirs: Set[str]) -> _BoundComparison | None:
    """Return the one comparison with the other row, None if there are several conditions on it, or others."""
    across = [part for part in parts if not set(part.columns) <= mine]
    if len(across) != 1 or not isinstance(across[0], Comparison):
        return None
    left, right, operator = across[0].left, across[0].right, across[0].operator
    if left.columns and set(left.columns) <= theirs:
        left, right, operator = right, left, _TURNED.get(operator, "")
    columns = set(right.columns)
    if len(columns) != 1 or not columns <= theirs or not set(left.columns) <= mine or not left.columns:
        return None
    for known in ("<", "<=", ">", ">="):
        if operator == known:
            return _BoundComparison(
                left, known, right.columns[0], right, tuple(part for part in parts if part is not across[0])
            )
    return None


def _is_one_row(node: Node) -> bool:
    """Tell whether a plan is an aggregate without GROUP BY, of which columns are taken as they are."""
    while isinstance(node, Project) and all(expr.column is not None for _, expr in node.items):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys
