"""Rule `full`: the query is computed as a whole, and only the difference to the table's old content is the change.

>>> change("SELECT id, rank() OVER (ORDER BY price) AS place FROM bid", refresh_policy="full")
- id=1 place=2
- id=2 place=3
- id=3 place=1
+ id=1 place=3
+ id=3 place=2
+ id=4 place=1
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from engine.operators.context import EpochContext, count_partitions, select
from engine.operators.flow import COMES, GOES, Rows, append_columns, keep
from engine.operators.lookups.scan import ReadTable, read_table
from engine.operators.spark_reasons import record_operator
from engine.sql.column_names import is_internal
from engine.sql.expression.nodes import Expr
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import OCCURRENCE, Recompute, Scan


def batch(node: Recompute, inputs: list[DataFrame], context: EpochContext) -> DataFrame:
    """Return the rows of the query over whole inputs, of which it sees the visible columns."""
    visible = {
        f"t{n}": frame.select(*map(quote, list_visible(scan)))
        for n, (frame, scan) in enumerate(zip(inputs, node.inputs, strict=True))
    }
    rows = context.spark.sql(node.text, None, **visible).toDF(*node.names)
    return rows if node.numbered is None else rows.selectExpr("*", f"{node.numbered} AS {OCCURRENCE}")


def list_visible(scan: Scan) -> list[str]:
    """Return the columns of an input that its query sees."""
    return [name for name, stored in scan.items if not is_internal(stored)]


def diff_rows(new: Rows, table: str, context: EpochContext, mine: Expr | None = None) -> Rows:
    """Return new rows as coming in and the table's rows at the old epoch as going out; equal ones cancel in the sink.

    With `mine` only those old rows go out for which it is true. Where one task reads all of both, no Spark operator takes part.
    """
    assert context.old is not None
    record_operator("the whole query is compared with the table")
    version = context.tables[table]
    items = tuple((name, name) for name in version.schema.names)
    parts = count_partitions(version.row_count, context.parallelism)
    source = context.pin_version(table)
    body = ReadTable(context.url, dict(context.options), source, items, at="old", parts=parts)
    old: Rows = read_table(context.spark, body, version.schema)
    old = old if mine is None else keep(old, mine)
    comes, goes = select(new, version.schema.names, COMES), append_columns(old, GOES)
    change = context.union([comes, goes])
    assert change is not None
    return change
