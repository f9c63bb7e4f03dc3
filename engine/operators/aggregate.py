"""GROUP BY in two exact ways: the change added to stored partials, or the touched groups recomputed from their rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.operators.context import EpochContext, placed_by_vnode, select
from engine.operators.expand import expand
from engine.operators.flow import MOST_READERS, Flow, Rows, Share, grouped, grouped_by_spark
from engine.operators.groups import groups_again
from engine.operators.linear import project
from engine.operators.lookup import End, lookup
from engine.operators.sink import OPERATION, WAS
from engine.sql.expression.nodes import Call, Column
from engine.sql.expression.spark_sql import quote, spark_sql
from engine.sql.expression.template import both
from engine.sql.group_keys import is_global
from engine.sql.partials import GLOBAL_KEY, Partial, Partials, Seek, rows_partial
from engine.sql.plan import AggCall, Aggregate, Project


def batch(node: Aggregate, source: Rows) -> DataFrame:
    """Return the groups of a whole input."""
    return _grouped(node, source, [(call.name, spark_sql(call.expression)) for call in node.calls])


def _grouped(node: Aggregate, source: Rows, calls: list[tuple[str, str]]) -> DataFrame:
    if is_global(node):
        results = [F.expr(sql).alias(name) for name, sql in calls]
        counted = source.agg(*results, F.count(F.lit(1)).alias("_any"))
        return counted.selectExpr(f"0 AS {quote(GLOBAL_KEY)}", *(quote(name) for name, _ in calls))
    keys = [(name, spark_sql(expr)) for name, expr in node.keys]
    if not calls:
        return source.select(*(F.expr(sql).alias(name) for name, sql in keys)).distinct()
    return grouped_by_spark(source, keys, calls)


def _grouped_together(
    rows: Rows, keys: list[tuple[str, str]], calls: list[tuple[str, str]], context: EpochContext
) -> Rows:
    """Return the groups of a small epoch's rows, which fit into one partition."""
    return grouped(rows.coalesce(1), keys, calls, exact=context.exact)


def all_partials(partials: tuple[Partials, ...]) -> tuple[Partial, ...]:
    """Return every stored partial of a fragment: those of its calls, and the count of the group's rows."""
    return (*(partial for call in partials for partial in call.partials), rows_partial())


def partials_batch(top: Project, partials: tuple[Partials, ...], change: Rows) -> Rows:
    """Return the fragment's table from a whole input given as rows of weight +1: results, key and partials."""
    return _finish(top, partials, _grouped(_aggregate(top), change, _folds(partials)))


def _folds(partials: tuple[Partials, ...]) -> list[tuple[str, str]]:
    """Return (name, text) of all that a change is folded to: the change of each partial, and the extremes that went."""
    seeks = [call.seek for call in partials if call.seek is not None]
    gone = [(seek.gone[0], spark_sql(seek.gone[1])) for seek in seeks]
    return [*((partial.name, spark_sql(partial.delta)) for partial in all_partials(partials)), *gone]


def _finish(top: Project, partials: tuple[Partials, ...], groups: Rows, *carried: str) -> Rows:
    node = top.input
    assert isinstance(node, Aggregate)
    stored = [quote(p.name) for p in all_partials(partials)]
    keys = [quote(name) for name, _ in node.keys]
    results = [f"{spark_sql(call.result)} AS {quote(call.call)}" for call in partials]
    return project(top, groups.selectExpr(*keys, *results, *stored, *carried), *stored, *carried)


def partials_delta(
    top: Project, table: str, partials: tuple[Partials, ...], change: Rows, context: EpochContext
) -> Rows:
    """Return the settled change of the fragment's table: one row a touched group whose partials are others now, see `Settled`."""
    return _added(top, table, partials, _folded_in_place(top, table, partials, change, context), context)


def partials_merged(
    top: Project, table: str, partials: tuple[Partials, ...], rows: Rows, context: EpochContext
) -> Rows:
    """Return the same of many rows that come in: folded before any is moved, so that only groups go where they are written."""
    groups = _grouped(_aggregate(top), rows, _folds(partials))
    if is_global(_aggregate(top)):
        context.placed = True
    return _added(top, table, partials, groups, context)


def _added(
    top: Project, table: str, partials: tuple[Partials, ...], folded: Rows, context: EpochContext
) -> Rows:
    """Return the settled change that folded rows make of the table's groups."""
    found = context.fresh("found")
    looked: Rows = lookup(
        folded,
        context,
        table,
        tuple(zip((name for name, _ in _aggregate(top).keys), top.key, strict=True)),
        tuple((f"_old_{partial.name}", partial.name) for partial in all_partials(partials)),
        at="old",
        hit=found,
        null_safe=True,
    )
    for seek in (call.seek for call in partials if call.seek is not None):
        looked = _sought(looked, seek, context)
    lives = "TRUE" if is_global(_aggregate(top)) else f"({spark_sql(rows_partial().merge)}) > 0"
    stored = all_partials(partials)
    keys = [quote(name) for name, _ in _aggregate(top).keys]
    old = [quote(f"_old_{partial.name}") for partial in stored]
    new = [f"{spark_sql(partial.merge)} AS {quote(partial.name)}" for partial in stored]
    merged = looked.selectExpr(*keys, *old, *new, f"{quote(found)} AS `_was`", f"{lives} AS `_lives`")
    same = " AND ".join(f"{quote('_old_' + partial.name)} <=> {quote(partial.name)}" for partial in stored)
    changed = merged.where(f"IF(`_was`, NOT `_lives` OR NOT ({same}), `_lives`)")
    # the results of a group that has gone are those it had: of no rows they may be errors
    kept = [f"IF(`_lives`, {quote(p.name)}, {quote('_old_' + p.name)}) AS {quote(p.name)}" for p in stored]
    groups = changed.selectExpr(*keys, *kept, f"`_was` AS {WAS}", f"IF(`_lives`, 0, 1) AS {OPERATION}")
    return _finish(top, partials, groups, WAS, OPERATION)


def _folded_in_place(
    top: Project, table: str, partials: tuple[Partials, ...], change: Rows, context: EpochContext
) -> Rows:
    """Return the change's partials by group; those of a large change stand where the groups are written, after one shuffle."""
    node, folds = _aggregate(top), _folds(partials)
    if is_global(node):
        return _grouped(node, change, folds)
    if context.small:
        by = [(name, spark_sql(expr)) for name, expr in node.keys]
        return _grouped_together(change, by, folds, context)
    names = {name: context.fresh("group") for name, _ in node.keys}
    keyed = ["*", *(f"{spark_sql(expr)} AS {quote(names[name])}" for name, expr in node.keys)]
    by = [(name, quote(alias)) for name, alias in names.items()]
    stored = context.tables[table].table
    own = dict(zip(top.key, names.values(), strict=True))
    columns = [own[column] for column in stored.distribution_key or stored.primary_key]
    context.placed = True
    groups = _folded_by_all(change, keyed, columns, by, folds, context)
    if groups is not None:
        return groups
    place = context.fresh("place")
    spread = placed_by_vnode(change.selectExpr(*keyed), columns, context, place)
    return grouped(spread, by, folds, exact=context.exact, place=place)


def _folded_by_all(
    change: Rows,
    keyed: list[str],
    columns: list[str],
    by: list[tuple[str, str]],
    folds: list[tuple[str, str]],
    context: EpochContext,
) -> Flow | None:
    """Return the same without a shuffle, where Arrow computes all: each task reads the whole change and keeps its vnodes."""
    if not isinstance(change, Flow) or context.piece is not None or context.partitions > MOST_READERS:
        return None
    whole = change.shared(context.partitions)
    rows = None if whole is None else whole.selectExpr(*keyed)
    if not isinstance(rows, Flow):
        return None
    return rows.then(Share(tuple(columns), context.partitions), rows.schema).grouped(by, folds)


def _aggregate(top: Project) -> Aggregate:
    assert isinstance(top.input, Aggregate)
    return top.input


def _sought(frame: Rows, seek: Seek, context: EpochContext) -> Rows:
    """Add the state's first or last row of each group whose stored extreme went."""
    needed, condition = seek.needed
    present = context.fresh("present")
    asking = frame.selectExpr("*", f"{spark_sql(condition)} AS {quote(needed)}", f"TRUE AS {quote(present)}")
    pairs = (*seek.pairs, (present, seek.present))
    end: End = "last" if seek.last else "first"
    return lookup(
        asking,
        context,
        seek.table,
        pairs,
        seek.items,
        at="new",
        hit=seek.hit,
        given=needed,
        null_safe=True,
        end=end,
    )


def keyed_recompute(top: Project, table: str, change: Rows, context: EpochContext) -> Rows:
    """Return the signed change of the fragment's table: every touched group computed again from its rows.

    The reference rule of groups with keys: out_change = f(new input rows of the key) - the key's stored output.
    """
    node = top.input
    assert isinstance(node, Aggregate)
    if any(call.whole is not None for call in node.calls):
        return _recompute_apart(top, table, change, context)
    drivers = [(name, expr.columns[0], context.fresh("group")) for name, expr in node.keys]
    touched = change.selectExpr(*(f"{quote(c)} AS {quote(d)}" for _, c, d in drivers)).distinct()
    pairs = tuple((driver, column) for _, column, driver in drivers)
    rows, hit = expand(node.input, touched, pairs, context, at="new", null_safe=True)
    counter = context.fresh("rows")
    calls = [*((call.name, _of_hits(call, hit)) for call in node.calls), (counter, f"count_if({quote(hit)})")]
    by = [(name, quote(driver)) for name, _, driver in drivers]
    groups = (
        _grouped_together(rows, by, calls, context) if context.small else grouped_by_spark(rows, by, calls)
    )
    fresh = project(top, groups, quote(counter))
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
    lives = f"{quote(counter)} > 0"
    old = [f"{quote('_old_' + column)} AS {quote(column)}" for column in columns]
    new = [quote(column) for column in columns]
    both = (
        f"inline(array(struct({', '.join([*old, '-1L AS `_w`', f'{quote(found)} AS `_lives`'])}), "
        f"struct({', '.join([*new, '1L AS `_w`', f'{lives} AS `_lives`'])})))"
    )
    return select(looked.selectExpr(both).where("`_lives`"), [*columns, "_w"])


def _recompute_apart(top: Project, table: str, change: Rows, context: EpochContext) -> Rows:
    """Return the same where a call cannot be narrowed to hits: of each touched group the old row goes, the new one comes."""
    node = top.input
    assert isinstance(node, Aggregate)
    keys = [(expr.columns[0], stored) for (_, expr), stored in zip(node.keys, top.key, strict=True)]
    return groups_again(top, table, node.input, keys, change, lambda rows: batch(node, rows), context)


def _of_hits(call: AggCall, hit: str) -> str:
    return spark_sql(Call(call.function, call.arguments, call.distinct, where=both(Column(hit), call.where)))
