"""Arrays to rows: linear, each row of the change gives the change of its elements."""

from __future__ import annotations

from engine.operators.context import select
from engine.operators.flow import Rows
from engine.sql.expression.spark_sql import quote, spark_sql
from engine.sql.plan import Unnest


def unnest(node: Unnest, frame: Rows, *carried: str) -> Rows:
    """Return one row per element of the array with its position; `carried` names further columns to keep."""
    item, ordinal = quote(node.item), quote(node.ordinal)
    explode = "posexplode_outer" if node.outer else "posexplode"
    rows = select(
        frame, [*node.input.columns, *carried], f"{explode}({spark_sql(node.array)}) AS ({ordinal}, {item})"
    )
    position = f"coalesce({ordinal}, 0) AS {ordinal}" if node.outer else ordinal
    return select(rows, node.input.columns, item, position, *(quote(name) for name in carried))
