"""Arrays to rows: linear, each row of the change gives the change of its elements.

>>> change("SELECT id, explode(array(auction, price)) AS number FROM bid")
- id=2 number=50
- id=2 number=7
+ id=4 number=10
+ id=4 number=9
"""

from __future__ import annotations

from engine.operators.context import select
from engine.operators.flow import Rows, as_frame
from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.expression.template import as_columns, fill_template
from engine.sql.plan import Unnest


def unnest(node: Unnest, frame: Rows, *carried: str) -> Rows:
    """Return one row per element of the array with its position; `carried` names further columns to keep."""
    item, ordinal = quote(node.item), quote(node.ordinal)
    explode = "posexplode_outer" if node.outer else "posexplode"
    columns = (quote(name) for name in (*node.input.columns, *carried))
    elements = f"{explode}({render_spark_sql(node.array)}) AS ({ordinal}, {item})"
    rows = as_frame(frame).selectExpr(*columns, elements)
    position: Expr = Column(node.ordinal)
    position = fill_template("coalesce(:position, 0)", position=position) if node.outer else position
    items = [(node.item, Column(node.item)), (node.ordinal, position), *as_columns(carried)]
    return select(rows, node.input.columns, *items)
