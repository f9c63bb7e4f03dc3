"""Percentiles by a sketch: values are counted in buckets whose borders grow by a factor, and a bucket's middle is told.

The method is that of Masson, Rim and Lee (DDSketch, VLDB 2019), with which RisingWave answers `approx_percentile(q, error)`. The
middle of a bucket follows from the value alone, so the answer is the value at a place of the sorted middles, the same whatever
the order in which rows come.
"""

from __future__ import annotations

import sqlglot
import sqlglot.expressions as exp

from engine.sql.ordered_lists import filtered
from engine.sql.plan import Expr

DEFAULT_ERROR = "0.01"


def middle(value: str, error: str) -> str:
    """Return, as Spark SQL, the middle of the bucket of a number, which is at most the share `error` from the number."""
    factor = (1 + float(error)) / (1 - float(error))
    number = f"CAST({value} AS DOUBLE)"
    size = f"(2 * pow({factor!r}D, ceil(ln(abs({number})) / ln({factor!r}D))) / ({factor!r}D + 1))"
    return f"CASE WHEN {number} = 0 THEN 0D WHEN {number} > 0 THEN {size} WHEN {number} < 0 THEN -{size} END"


def at_fraction(values: str, count: str, fraction: str) -> str:
    """Return, as Spark SQL, the element of a sorted array of `count` values below which the share `fraction` of them lies."""
    return f"get({values}, CAST(greatest(floor({fraction} * ({count} - 1)), 0) AS INT))"


def is_error(text: str) -> bool:
    """Tell whether a text is a relative error that a sketch can have."""
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def sketched(value: str, fraction: str, error: str, where: Expr | None, *, descending: bool = False) -> str:
    """Return, as Spark SQL, what `approx_percentile(fraction, error) WITHIN GROUP (ORDER BY value)` is of a group's rows."""
    values = f"array_sort({filtered(f'collect_list({middle(value, error)})', where)})"
    values = f"reverse({values})" if descending else values
    return at_fraction(values, filtered(f"count({value})", where), fraction)


def as_spark_percentile(node: exp.Expr) -> exp.Expr | None:
    """Return the call of a sketch, with its FILTER, as Spark says it; None for anything else."""
    call, where = node, None
    if isinstance(node, exp.Filter):
        call, where = node.this, Expr(node.expression.this.sql(dialect="spark"))
    elif isinstance(node.parent, exp.Filter):
        return None  # the FILTER goes into the parts
    inner = call.this if isinstance(call, exp.WithinGroup) else None
    if not isinstance(inner, exp.Anonymous) or inner.name.lower() != "approx_percentile":
        return None
    fraction, *errors = inner.expressions
    item = call.expression.expressions[0]
    error = errors[0].name if errors else DEFAULT_ERROR
    if not isinstance(fraction, exp.Literal) or not is_error(error):
        return None
    by = item.this if isinstance(item, exp.Ordered) else item
    descending = isinstance(item, exp.Ordered) and bool(item.args.get("desc"))
    text = sketched(by.sql(dialect="spark"), fraction.name, error, where, descending=descending)
    return sqlglot.parse_one(text, read="spark")


def keep_percentiles(tree: exp.Expr) -> exp.Expr:
    """Have percentile_cont and percentile_disc printed as they are: sqlglot's Spark knows them as approximations only."""
    for within in tree.find_all(exp.WithinGroup):
        name = {exp.PercentileCont: "percentile_cont", exp.PercentileDisc: "percentile_disc"}.get(
            type(within.this)
        )
        if name is not None:
            within.set("this", exp.Anonymous(this=name, expressions=[within.this.this]))
            for item in within.expression.find_all(exp.Ordered):  # nulls are left out, wherever they stand
                item.set("nulls_first", not item.args.get("desc"))
    return tree
