"""VALUES as a plan: constant rows of expressions that read nothing."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.bind.expressions import ExpressionBinder
from engine.sql.dialects.postgres.untyped_literals import cast_operands
from engine.sql.expression.nodes import NULL, Expr
from engine.sql.plan import Node, Values
from engine.sql.typing.expression_types import find_wider_type, get_expr_type, infer_exact_type


def bind_values(
    values: exp.Values, expressions: ExpressionBinder, fresh: Callable[[str], str]
) -> tuple[Node, tuple[tuple[str, str], ...]]:
    """Return the plan of VALUES, and its columns: col1, col2, … in Spark, column1, column2, … elsewhere."""
    if expressions.dialect != "spark":
        values = values.copy()
        cast_operands(values, lambda part: infer_exact_type(part, {}))
    rows: list[tuple[Expr, ...]] = []
    for row in values.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        if rows and len(parts) != len(rows[0]):
            message = f"rows of {len(rows[0])} and {len(parts)} values"
            raise expressions.scope.build_error(message, row, "give all rows the same number of values")
        rows.append(tuple(expressions.bind_scalar(part, "VALUES") for part in parts))
        outer = next((part for part, e in zip(parts, rows[-1], strict=True) if e.columns), None)
        if outer is not None:
            raise expressions.refuse("a column in VALUES", outer, "write SELECT … UNION ALL SELECT …")
    base = "col" if expressions.dialect == "spark" else "column"
    visible = [f"{base}{n}" for n in range(1, len(rows[0]) + 1)]
    names = tuple(fresh(f"values:{name}") for name in visible)
    for n, name in enumerate(names):
        kind = _find_widest_type([get_expr_type(row[n], expressions.types) for row in rows if row[n] != NULL])
        if kind is not None:
            expressions.types[name] = kind
    return Values(names, tuple(rows), fresh("values:row")), tuple(zip(visible, names, strict=True))


def _find_widest_type(kinds: list[str | None]) -> str | None:
    found = kinds[0] if kinds else None
    for kind in kinds[1:]:
        found = find_wider_type(found, kind) if found is not None and kind is not None else None
    return found
