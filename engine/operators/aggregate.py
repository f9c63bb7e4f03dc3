"""GROUP BY in two exact ways: the change added to stored partials, or the touched groups recomputed from their rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.operators.context import EpochContext, select
from engine.operators.expand import expand
from engine.operators.linear import project
from engine.operators.lookup import lookup
from engine.sql.fragments import is_global
from engine.sql.partials import GLOBAL_KEY, Partial, Partials, rows_partial
from engine.sql.plan import AggCall, Aggregate, Project, quote


def batch(node: Aggregate, source: DataFrame) -> DataFrame:
    """Return the groups of a whole input."""
    return _grouped(node, source, [(call.name, call.sql) for call in node.calls])


def _grouped(node: Aggregate, source: DataFrame, calls: list[tuple[str, str]]) -> DataFrame:
    results = [F.expr(sql).alias(name) for name, sql in calls]
    keys = [F.expr(expr.sql).alias(name) for name, expr in node.keys]
    if is_global(node):
        grouped = source.agg(*results, F.count(F.lit(1)).alias("_any"))
        return grouped.selectExpr(f"0 AS {quote(GLOBAL_KEY)}", *(quote(name) for name, _ in calls))
    if not results:
        return source.select(*keys).distinct()
    return source.groupBy(*keys).agg(*results)


def all_partials(partials: tuple[Partials, ...]) -> tuple[Partial, ...]:
    """Return every stored partial of a fragment: those of its calls, and the count of the group's rows."""
    return (*(partial for call in partials for partial in call.partials), rows_partial())


def partials_batch(top: Project, partials: tuple[Partials, ...], change: DataFrame) -> DataFrame:
    """Return the fragment's table from a whole input given as rows of weight +1: results, key and partials."""
    return _finish(top, partials, _fold(top, partials, change))


def _fold(top: Project, partials: tuple[Partials, ...], change: DataFrame) -> DataFrame:
    assert isinstance(top.input, Aggregate)
    return _grouped(top.input, change, [(p.name, p.delta) for p in all_partials(partials)])


def _finish(top: Project, partials: tuple[Partials, ...], groups: DataFrame, *carried: str) -> DataFrame:
    node = top.input
    assert isinstance(node, Aggregate)
    stored = [quote(p.name) for p in all_partials(partials)]
    keys = [quote(name) for name, _ in node.keys]
    results = [f"{call.result} AS {quote(call.call)}" for call in partials]
    return project(top, groups.selectExpr(*keys, *results, *stored, *carried), *stored, *carried)


def partials_delta(
    top: Project, table: str, partials: tuple[Partials, ...], change: DataFrame, context: EpochContext
) -> DataFrame:
    """Return the signed change of the fragment's table: the old row of each touched group, and its new one."""
    node = top.input
    assert isinstance(node, Aggregate)
    stored = [p.name for p in all_partials(partials)]
    keys = [name for name, _ in node.keys]
    pairs = tuple(zip(keys, top.key, strict=True))
    found = context.fresh("found")
    looked = lookup(
        _fold(top, partials, change),
        context,
        table,
        pairs,
        tuple((f"_old_{name}", name) for name in stored),
        at="old",
        hit=found,
        null_safe=True,
    )
    key_fields = [quote(key) for key in keys]
    old = [f"{quote('_old_' + name)} AS {quote(name)}" for name in stored]
    new = [f"{p.merge} AS {quote(p.name)}" for p in all_partials(partials)]
    lives = "TRUE" if is_global(node) else f"({rows_partial().merge}) > 0"
    both = (
        f"inline(array(struct({', '.join([*key_fields, *old, '-1L AS `_w`', f'{quote(found)} AS `_lives`'])}), "
        f"struct({', '.join([*key_fields, *new, '1L AS `_w`', f'{lives} AS `_lives`'])})))"
    )
    return _finish(top, partials, looked.selectExpr(both).where("`_lives`"), "`_w`")


def keyed_recompute(top: Project, table: str, change: DataFrame, context: EpochContext) -> DataFrame:
    """Return the signed change of the fragment's table: every touched group computed again from its rows.

    The reference rule: out_change = f(new input rows of the key) - the key's stored output.
    """
    node = top.input
    assert isinstance(node, Aggregate)
    if any(call.text is not None for call in node.calls):
        return _recompute_apart(top, table, change, context)
    drivers = [(name, expr.columns[0], context.fresh("group")) for name, expr in node.keys]
    touched = change.selectExpr(*(f"{quote(c)} AS {quote(d)}" for _, c, d in drivers)).distinct()
    pairs = tuple((driver, column) for _, column, driver in drivers)
    rows, hit = expand(node.input, touched, pairs, context, at="new", null_safe=True)
    counter = context.fresh("rows")
    calls = [F.expr(_of_hits(call, hit)).alias(call.name) for call in node.calls]
    grouped = rows.groupBy(*(F.expr(f"{quote(d)}").alias(name) for name, _, d in drivers)).agg(
        *calls, F.expr(f"count_if({quote(hit)})").alias(counter)
    )
    fresh = project(top, grouped, quote(counter))
    columns = list(top.columns)
    found = context.fresh("found")
    looked = lookup(
        fresh,
        context,
        table,
        tuple((column, column) for column in top.key),
        tuple((f"_old_{column}", column) for column in columns),
        at="old",
        hit=found,
        null_safe=True,
    )
    lives = "TRUE" if is_global(node) else f"{quote(counter)} > 0"
    old = [f"{quote('_old_' + column)} AS {quote(column)}" for column in columns]
    new = [quote(column) for column in columns]
    both = (
        f"inline(array(struct({', '.join([*old, '-1L AS `_w`', f'{quote(found)} AS `_lives`'])}), "
        f"struct({', '.join([*new, '1L AS `_w`', f'{lives} AS `_lives`'])})))"
    )
    return select(looked.selectExpr(both).where("`_lives`"), [*columns, "_w"])


def _recompute_apart(top: Project, table: str, change: DataFrame, context: EpochContext) -> DataFrame:
    """Return the same where a call cannot be narrowed to hits: of each touched group the old row goes, the new one comes."""
    node = top.input
    assert isinstance(node, Aggregate)
    drivers = [(name, expr.columns[0], context.fresh("group")) for name, expr in node.keys]
    touched = change.selectExpr(*(f"{quote(c)} AS {quote(d)}" for _, c, d in drivers)).distinct()
    rows, hit = expand(
        node.input, touched, tuple((d, c) for _, c, d in drivers), context, at="new", null_safe=True
    )
    fresh = project(top, batch(node, select(rows.where(quote(hit)), node.input.columns)))
    found = context.fresh("found")
    carried = dict(zip((name for name, _ in node.keys), top.key, strict=True))
    names = {column: context.fresh("old") for column in top.columns}
    looked = lookup(
        touched,
        context,
        table,
        tuple((d, carried[name]) for name, _, d in drivers),
        tuple((name, column) for column, name in names.items()),
        at="old",
        hit=found,
        null_safe=True,
    ).where(quote(found))
    old = looked.selectExpr(*(f"{quote(name)} AS {quote(c)}" for c, name in names.items()), "-1L AS `_w`")
    merged = context.union([select(fresh, top.columns, "1L AS `_w`"), old])
    assert merged is not None
    return merged


def _of_hits(call: AggCall, hit: str) -> str:
    where = f"{quote(hit)} AND ({call.where.sql})" if call.where else quote(hit)
    inner = ", ".join(argument.sql for argument in call.arguments) or "*"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inner}) FILTER (WHERE {where})"
