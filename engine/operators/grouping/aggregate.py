"""GROUP BY in two exact ways: the change added to stored partials, or the touched groups recomputed from their rows.

>>> change("SELECT auction, count(*) AS n, sum(price) AS total FROM bid GROUP BY auction")
- auction=7 n=2 total=80
+ auction=7 n=1 total=30
+ auction=9 n=1 total=10
"""

from __future__ import annotations

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.operators.arrow.compiler import Item
from engine.operators.change import Change
from engine.operators.context import EpochContext, select, shuffle_by_vnode
from engine.operators.flow import (
    COMES,
    Flow,
    Rows,
    append_columns,
    as_frame,
    compute,
    group_by_spark,
    group_rows,
    keep,
    to_spark_columns,
)
from engine.operators.grouping.touched_groups import can_read_group, read_stored_rows, recompute_groups
from engine.operators.linear import project
from engine.operators.lookups.expand import expand
from engine.operators.lookups.lookup import Probe, lookup
from engine.operators.materialize import OPERATION, WAS
from engine.operators.spread import fold_by_vnode
from engine.sql.expression.nodes import NULL, TRUE, And, Call, Column, Comparison, Expr, Literal, map_children
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import as_columns, combine_conditions, fill_template
from engine.sql.expression.template import call as call_of
from engine.sql.functions import load_spark_functions
from engine.sql.incremental.group_keys import is_global
from engine.sql.incremental.states.partials import GLOBAL_KEY, Partial, Partials, Seek, build_rows_partial
from engine.sql.plan import Aggregate, Project


def batch(node: Aggregate, source: Rows) -> DataFrame:
    """Return the groups of a whole input."""
    return _group_calls(node, source, [(call.name, call.expression) for call in node.calls])


def _group_calls(node: Aggregate, source: Rows, calls: list[Item]) -> DataFrame:
    if is_global(node):
        counted = source.agg(*to_spark_columns(calls), F.count(F.lit(1)).alias("_any"))
        return counted.selectExpr(f"0 AS {quote(GLOBAL_KEY)}", *(quote(name) for name, _ in calls))
    if not calls:
        return source.select(*to_spark_columns(node.keys)).distinct()
    return group_by_spark(source, node.keys, calls)


def _group_together(rows: Rows, keys: list[Item], calls: list[Item], context: EpochContext) -> Rows:
    """Return the groups of a small epoch's rows, which fit into one partition."""
    return group_rows(rows.coalesce(1), keys, calls, exact=context.exact)


def list_partials(partials: tuple[Partials, ...]) -> tuple[Partial, ...]:
    """Return every stored partial of a fragment: those of its calls, and the count of the group's rows."""
    return (*(partial for call in partials for partial in call.partials), build_rows_partial())


def partials_batch(top: Project, partials: tuple[Partials, ...], change: Rows) -> Rows:
    """Return the fragment's table from a whole input given as rows of weight +1: results, key and partials."""
    return _finish(top, partials, _group_calls(_find_aggregate(top), change, _list_folds(partials)))


def _list_folds(partials: tuple[Partials, ...]) -> list[Item]:
    """Return all that a change is folded to: the change of each partial, and the extremes that went."""
    gone = [call.seek.gone for call in partials if call.seek is not None]
    return [*((partial.name, partial.delta) for partial in list_partials(partials)), *gone]


def _finish(top: Project, partials: tuple[Partials, ...], groups: Rows, *carried: str) -> Rows:
    node = top.input
    assert isinstance(node, Aggregate)
    stored = [p.name for p in list_partials(partials)]
    results = [(call.call, call.result) for call in partials]
    items = [*as_columns([name for name, _ in node.keys]), *results, *as_columns([*stored, *carried])]
    return project(top, compute(groups, items), *stored, *carried)


def partials_delta(
    top: Project, table: str, partials: tuple[Partials, ...], change: Change, context: EpochContext
) -> Change:
    """Return the settled change of the fragment's table: one row a touched group whose partials are others now, see `Settled`."""
    folded, placed = _fold_in_place(top, table, partials, change.rows, context)
    return Change(_add_folded(top, table, partials, folded, context), placed=placed)


def merge_partials(
    top: Project, table: str, partials: tuple[Partials, ...], rows: Rows, context: EpochContext
) -> Change:
    """Return the same of many rows that come in: folded before any is moved, so that only groups go where they are written."""
    groups = _group_calls(_find_aggregate(top), rows, _list_folds(partials))
    placed = is_global(_find_aggregate(top))
    return Change(_add_folded(top, table, partials, groups, context), placed=placed)


def _add_folded(
    top: Project, table: str, partials: tuple[Partials, ...], folded: Rows, context: EpochContext
) -> Rows:
    """Return the settled change that folded rows make of the table's groups."""
    found = context.fresh("found")
    pairs = tuple(zip((name for name, _ in _find_aggregate(top).keys), top.key, strict=True))
    items = tuple((f"_old_{partial.name}", partial.name) for partial in list_partials(partials))
    looked: Rows = lookup(folded, context, table, Probe(pairs, "old", null_safe=True), items, found)
    for seek in (call.seek for call in partials if call.seek is not None):
        looked = _seek_extremes(looked, seek, context)
    lives = (
        TRUE
        if is_global(_find_aggregate(top))
        else fill_template(":rows > 0", rows=build_rows_partial().merge)
    )
    stored = list_partials(partials)
    keys = as_columns([name for name, _ in _find_aggregate(top).keys])
    old = as_columns([f"_old_{partial.name}" for partial in stored])
    new = [(partial.name, partial.merge) for partial in stored]
    merged = compute(looked, [*keys, *old, *new, (WAS, Column(found)), ("_lives", lives)])
    same = [Comparison("<=>", Column(f"_old_{partial.name}"), Column(partial.name)) for partial in stored]
    # groups that never go, of which nothing but the key is known, need no count of their rows: they are written once
    differs = "NOT _was" if top.append_only else "if(_was, NOT _lives OR NOT :same, _lives)"
    changed = keep(merged, fill_template(differs, same=And(tuple(same))))
    # the results of a group that has gone are those it had: of no rows they may be errors
    lasting = [call_of("if", Column("_lives"), Column(p.name), Column(f"_old_{p.name}")) for p in stored]
    state_columns = [(partial.name, value) for partial, value in zip(stored, lasting, strict=True)]
    operation = (OPERATION, fill_template("if(_lives, 0, 1)"))
    groups = compute(changed, [*keys, *state_columns, (WAS, Column(WAS)), operation])
    return _finish(top, partials, groups, WAS, OPERATION)


def _fold_in_place(
    top: Project, table: str, partials: tuple[Partials, ...], change: Rows, context: EpochContext
) -> tuple[Rows, bool]:
    """Return the change's partials by group, and whether they are where the groups are written: those of a large change, after
    one shuffle.
    """
    node, folds = _find_aggregate(top), _list_folds(partials)
    if is_global(node):
        return _fold_all(node, change, folds, context), False
    if context.is_small:
        return _group_together(change, list(node.keys), folds, context), False
    stored = context.tables[table].table
    named = dict(zip(top.key, (name for name, _ in node.keys), strict=True))
    places = [named[column] for column in stored.distribution_key or stored.primary_key]
    flow = Flow.of(change, exact=context.exact)
    groups = fold_by_vnode(flow, places, list(node.keys), folds, context.partitions)
    if groups is not None:
        return groups, True
    names = {name: context.fresh("group") for name, _ in node.keys}
    keyed = [(names[name], expr) for name, expr in node.keys]
    by: list[Item] = [(name, Column(alias)) for name, alias in names.items()]
    place = context.fresh("place")
    spread = shuffle_by_vnode(
        append_columns(change, *keyed), [names[name] for name in places], context, place
    )
    return group_rows(spread, by, folds, exact=context.exact, place=place), True


def _fold_all(node: Aggregate, change: Rows, folds: list[Item], context: EpochContext) -> Rows:
    """Return the folds of all rows, also of none, as the one row that they are."""
    one = Flow.of(change, exact=context.exact).group((), folds) if context.is_small else None
    if one is None:
        return _group_calls(node, change, folds)
    return compute(one, [*node.keys, *as_columns([name for name, _ in folds])])


def _find_aggregate(top: Project) -> Aggregate:
    assert isinstance(top.input, Aggregate)
    return top.input


def _seek_extremes(frame: Rows, seek: Seek, context: EpochContext) -> Rows:
    """Add the state's first or last row of each group whose stored extreme went."""
    needed, condition = seek.needed
    present = context.fresh("present")
    asking = append_columns(frame, (needed, condition), (present, TRUE))
    pairs = (*seek.pairs, (present, seek.present))
    probe = Probe(pairs, "new", guard=needed, null_safe=True, end="last" if seek.last else "first")
    return lookup(asking, context, seek.table, probe, seek.items, seek.hit)


def keyed_recompute(top: Project, table: str, change: Change, context: EpochContext) -> Change:
    """Return the signed change of the fragment's table: every touched group computed again from its rows.

    The reference rule of groups with keys: out_change = f(new input rows of the key) - the key's stored output.
    """
    node = top.input
    assert isinstance(node, Aggregate)
    if any(call.whole is not None for call in node.calls):
        return _recompute_separately(top, table, change, context)
    drivers = [(name, expr.columns[0], context.fresh("group")) for name, expr in node.keys]
    touched = compute(change.rows, [(d, Column(c)) for _, c, d in drivers]).distinct()
    pairs = tuple((driver, column) for _, column, driver in drivers)
    rows, hit = expand(node.input, touched, Probe(pairs, "new", null_safe=True), context)
    counter = context.fresh("rows")
    counted: Item = (counter, call_of("count_if", Column(hit)))
    calls = [*((call.name, _restrict_to_hits(call.expression, hit)) for call in node.calls), counted]
    by: list[Item] = [(name, Column(driver)) for name, _, driver in drivers]
    groups = (
        _group_together(rows, by, calls, context) if context.is_small else group_by_spark(rows, by, calls)
    )
    fresh = project(_restrict_to_living(top, counter), groups, counter)
    columns = list(top.columns)
    found = context.fresh("found")
    probe = Probe(tuple((column, column) for column in top.key), "old", null_safe=True)
    looked = lookup(fresh, context, table, probe, tuple((f"_old_{c}", c) for c in columns), found)
    lives = f"{quote(counter)} > 0"
    old = [f"{quote('_old_' + column)} AS {quote(column)}" for column in columns]
    new = [quote(column) for column in columns]
    pair = (
        f"inline(array(struct({', '.join([*old, '-1L AS `_w`', f'{quote(found)} AS `_lives`'])}), "
        f"struct({', '.join([*new, '1L AS `_w`', f'{lives} AS `_lives`'])})))"
    )
    return Change(select(as_frame(looked).selectExpr(pair).where("`_lives`"), [*columns, "_w"]))


def _restrict_to_living(top: Project, counter: str) -> Project:
    """Return a projection that computes nothing of a group without rows, of which results may be errors."""
    lives = fill_template(":rows > 0", rows=Column(counter))
    items = [
        (name, expr if isinstance(expr, Column) else call_of("if", lives, expr, NULL))
        for name, expr in top.items
    ]
    return replace(top, items=tuple(items))


def _recompute_separately(top: Project, table: str, change: Change, context: EpochContext) -> Change:
    """Return the same where a call cannot be narrowed to hits: of each touched group the old row goes, the new one comes."""
    node = top.input
    assert isinstance(node, Aggregate)
    keys = [(expr.columns[0], stored) for (_, expr), stored in zip(node.keys, top.key, strict=True)]
    calls = [(call.name, call.expression) for call in node.calls]

    def group(rows: Rows) -> Rows:
        together = context.is_small
        return _group_together(rows, list(node.keys), calls, context) if together else batch(node, rows)

    return recompute_groups(top, table, keys, change.rows, group, context)


def recompute_only_group(top: Project, table: str, change: Change, context: EpochContext) -> Change | None:
    """Return the signed change of a table of one row, aggregated again from all rows; None where these are too many for one task.

    Of no rows there is a row, too: where the task finds none for a change, its calls go over nothing.
    """
    node = top.input
    assert isinstance(node, Aggregate)
    if not can_read_group(node.input, table, change.rows, context):
        return None
    alone = context.fresh("group")
    touched = compute(change.rows, [(alone, Literal("1"))]).distinct()
    rows, hit = expand(node.input, touched, Probe((), "new"), context)
    calls = [(call.name, _restrict_calls(call.expression, hit)) for call in node.calls]
    groups = _group_together(rows, [(alone, Column(alone))], calls, context)
    new = project(top, compute(groups, [*node.keys, *as_columns([name for name, _ in calls])]))
    old = read_stored_rows(top.columns, table, touched, (), context)
    merged = context.union([select(new, top.columns, COMES), old])
    return None if merged is None else Change(merged)


def _restrict_calls(expr: Expr, hit: str) -> Expr:
    """Return an expression over aggregates whose calls go over hits alone."""
    if isinstance(expr, Call) and load_spark_functions().get(expr.function) == "aggregate":
        return _restrict_to_hits(expr, hit)
    return map_children(expr, lambda part: _restrict_calls(part, hit))


def _restrict_to_hits(call: Expr, hit: str) -> Call:
    """Return an aggregate that goes over hits alone: what Spark computes of a row before FILTER is null where it is no hit."""
    assert isinstance(call, Call)
    return replace(
        call,
        arguments=tuple(_compute_of_hits(each, hit) for each in call.arguments),
        order=tuple((_compute_of_hits(each, hit), descending) for each, descending in call.order),
        where=combine_conditions(Column(hit), call.where),
    )


def _compute_of_hits(expr: Expr, hit: str) -> Expr:
    """Return an expression that is null where there is no hit; one without columns, which may have to be constant, as it is."""
    return expr if isinstance(expr, Column) or not expr.columns else call_of("if", Column(hit), expr, NULL)
