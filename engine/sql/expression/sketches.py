"""Percentiles by a sketch: values are counted in buckets whose borders grow by a factor, and a bucket's middle is the answer.

The method is that of Masson, Rim and Lee (DDSketch, VLDB 2019), with which RisingWave answers `approx_percentile(q, error)`. The
middle of a bucket follows from the value alone, so the answer is the value at a place of the sorted middles, the same whatever
the order in which rows come.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.expression.nodes import Expr, Literal
from engine.sql.expression.ordered_lists import filter_call
from engine.sql.expression.parsed_parts import ParsedParts
from engine.sql.expression.template import call, fill_template

DEFAULT_ERROR = "0.01"


def build_bucket_middle(value: Expr, error: str) -> Expr:
    """Return the middle of the bucket of a number, which is at most the share `error` from the number."""
    factor = f"{(1 + float(error)) / (1 - float(error))!r}D"
    number = fill_template("CAST(:x AS DOUBLE)", x=value)
    size = f"(2 * pow({factor}, ceil(ln(abs(:x)) / ln({factor}))) / ({factor} + 1))"
    return fill_template(
        f"CASE WHEN :x = 0 THEN 0D WHEN :x > 0 THEN {size} WHEN :x < 0 THEN -{size} END", x=number
    )


def is_relative_error(text: str) -> bool:
    """Tell whether a text is a relative error that a sketch can have."""
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def build_sketch_percentile(
    value: Expr, fraction: Literal, error: str, where: Expr | None, *, descending: bool = False
) -> Expr:
    """Return what `approx_percentile(fraction, error) WITHIN GROUP (ORDER BY value)` is of a group's rows.

    It is the element of the sorted middles below which the share `fraction` of them lies.
    """
    values: Expr = call(
        "array_sort", filter_call(call("collect_list", build_bucket_middle(value, error)), where)
    )
    values = call("reverse", values) if descending else values
    count = filter_call(call("count", value), where)
    text = "get(:values, CAST(greatest(floor(:fraction * (:count - 1)), 0) AS INT))"
    return fill_template(text, values=values, fraction=fraction, count=count)


def as_spark_percentile(node: exp.Expr) -> exp.Expr | None:
    """Return the call of a sketch, with its FILTER, as Spark says it; None for anything else."""
    core, parts, where = node, ParsedParts(), None
    if isinstance(node, exp.Filter):
        core, where = node.this, parts.add(node.expression.this)
    elif isinstance(node.parent, exp.Filter):
        return None  # the FILTER goes into the parts
    inner = core.this if isinstance(core, exp.WithinGroup) else None
    if not isinstance(inner, exp.Anonymous) or inner.name.lower() != "approx_percentile":
        return None
    fraction, *errors = inner.expressions
    item = core.expression.expressions[0]
    error = errors[0].name if errors else DEFAULT_ERROR
    if not isinstance(fraction, exp.Literal) or not is_relative_error(error):
        return None
    value = parts.add(item.this if isinstance(item, exp.Ordered) else item)
    descending = isinstance(item, exp.Ordered) and bool(item.args.get("desc"))
    return parts.fill(
        build_sketch_percentile(value, Literal(fraction.name), error, where, descending=descending)
    )


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
