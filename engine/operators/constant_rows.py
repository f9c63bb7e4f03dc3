"""Constant rows: there from the first epoch on, and never changed.

>>> change("SELECT b.id, v.word FROM bid b JOIN (VALUES (10, 'low'), (50, 'high')) AS v(price, word) ON b.price = v.price")
- id=2 word=high
+ id=4 word=low
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from engine.operators.context import EpochContext
from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.plan import Values


def batch(node: Values, context: EpochContext) -> DataFrame:
    """Return the rows; types are those that Spark finds common to a column."""
    rows = (", ".join([*(render_spark_sql(expr) for expr in row), str(n)]) for n, row in enumerate(node.rows))
    names = ", ".join(quote(column) for column in node.columns)
    return context.spark.sql(f"SELECT * FROM VALUES {', '.join(f'({row})' for row in rows)} AS v({names})")
