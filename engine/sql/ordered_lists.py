"""The values of a group as one array in a certain order, as Spark SQL: what order-dependent aggregates are built of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.sql.plan import Expr, quote


@dataclass(frozen=True)
class By:
    """One expression of an order."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True


def filtered(call: str, *conditions: Expr | None) -> str:
    """Return an aggregate call over the rows for which all conditions hold."""
    texts = [f"({condition.sql})" for condition in conditions if condition is not None]
    return f"{call} FILTER (WHERE {' AND '.join(texts)})" if texts else call


def present(value: Expr) -> Expr:
    """Return the condition that a value is not null."""
    return Expr(f"({value.sql}) IS NOT NULL", value.columns)


def ordered_list(
    values: Sequence[tuple[str, Expr]], order: Sequence[By], key: Sequence[str], *conditions: Expr | None
) -> str:
    """Return the array of structs of `values` in order; rows that are equal in it stand in the order of their key."""
    by = [*order, *(By(Expr.of(column)) for column in key)]
    fields = [f"'{name}', {expr.sql}" for name, expr in values]
    fields += [f"'_o{n}', {item.expr.sql}" for n, item in enumerate(by)]
    rows = filtered(f"collect_list(named_struct({', '.join(fields)}))", *conditions)
    return f"array_sort({rows}, (_l, _r) -> {_comparison(by)})"


def _comparison(by: Sequence[By]) -> str:
    parts = []
    for n, item in enumerate(by):
        left, right = f"_l.{quote(f'_o{n}')}", f"_r.{quote(f'_o{n}')}"
        first, last = ("-1", "1") if item.nulls_first else ("1", "-1")
        less, more = ("1", "-1") if item.descending else ("-1", "1")
        parts += [
            f"WHEN {left} IS NULL AND {right} IS NOT NULL THEN {first}",
            f"WHEN {left} IS NOT NULL AND {right} IS NULL THEN {last}",
            f"WHEN {left} < {right} THEN {less}",
            f"WHEN {left} > {right} THEN {more}",
        ]
    return f"CASE {' '.join(parts)} ELSE 0 END" if parts else "0"


def field_of(rows: str, name: str) -> str:
    """Return the array of one field of an array of structs."""
    return f"transform({rows}, _e -> _e.{quote(name)})"
