"""Rows of a plan found by key: every row of a driving frame is joined with the plan's rows that have its key values.

No driving row is dropped: a boolean column says whether the joined columns hold a row of the plan (a hit) or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from engine.operators import union_all
from engine.operators.context import At, EpochContext, select
from engine.operators.flow import Rows, compute, duplicate_sides, keep
from engine.operators.lookups.lines import keep_first_hit, keep_hits, number_lines
from engine.operators.lookups.lookup import End, Probe, lookup
from engine.sql.expression.nodes import NULL, And, Column, Comparison, Expr, Literal, Not
from engine.sql.expression.template import call, fill_template
from engine.sql.incremental.access_paths import (
    NotPushable,
    choose_lookup_sides,
    find_access_path,
    find_required_indexes,
    index_name,
    trace_through_project,
)
from engine.sql.plan import Filter, Join, Node, Project, Scan, UnionAll, list_children, list_scans


def expand(node: Node, frame: Rows, probe: Probe, context: EpochContext) -> tuple[Rows, str]:
    """Return the frame with the columns of the node's rows that it finds, and the name of the hit column."""
    if isinstance(node, Scan):
        path = find_access_path(node, tuple(column for _, column in probe.pairs))
        target = dict(path.pairs)
        hit = context.fresh("hit")
        by = tuple((ours, target[theirs]) for ours, theirs in probe.pairs)
        return lookup(frame, context, path.table, replace(probe, pairs=by), node.items, hit), hit
    if isinstance(node, Filter):
        joined, hit = expand(node.input, frame, probe, context)
        return narrow(joined, hit, node.predicate, context)
    if isinstance(node, Project):
        return _expand_project(node, frame, probe, context)
    if isinstance(node, Join):
        return _expand_join(node, frame, probe, context)
    if isinstance(node, UnionAll) and not probe.pairs:
        return _expand_union(node, frame, probe, context)
    raise AssertionError(f"the planner arranges {type(node).__name__} before it is looked up")


def can_read_whole(node: Node, context: EpochContext) -> bool:
    """Tell whether all rows of a plan are found by tables that are there, without any column to look them up by."""
    if any(scan.passes or scan.expires for scan in list_scans(node)):
        return False
    try:
        needed = find_required_indexes(node, ())
    except NotPushable:
        return False
    return all(index_name(table, by) in context.tables for table, by in needed)


def narrow(frame: Rows, hit: str, predicate: Expr, context: EpochContext) -> tuple[Rows, str]:
    """Keep every row, but let a hit stand only where the predicate is true; return the new hit column too."""
    narrowed = context.fresh("hit")
    test = fill_template("if(:hit, coalesce(:holds, FALSE), FALSE)", hit=Column(hit), holds=predicate)
    return select(frame, [c for c in frame.columns if c != hit], (narrowed, test)), narrowed


def _expand_project(node: Project, frame: Rows, probe: Probe, context: EpochContext) -> tuple[Rows, str]:
    inner_columns = trace_through_project(node, tuple(column for _, column in probe.pairs))
    below = _list_columns(node.input)
    aliases = {c: context.fresh("outer") if c in below else c for c in frame.columns}
    frame = compute(frame, [(alias, Column(c)) for c, alias in aliases.items()])
    inner = tuple((aliases[ours], c) for (ours, _), c in zip(probe.pairs, inner_columns, strict=True))
    guard = aliases[probe.guard] if probe.guard else None
    joined, hit = expand(node.input, frame, replace(probe, pairs=inner, guard=guard), context)
    outer = [(c, Column(alias)) for c, alias in aliases.items()]
    found = [(name, _compute_of_hits(expr, hit)) for name, expr in node.items]
    return compute(joined, [*outer, *found, (hit, Column(hit))]), hit


def _compute_of_hits(expr: Expr, hit: str) -> Expr:
    """Return an expression that is null where there is no hit: it may fail on rows that a filter below it leaves out."""
    return expr if isinstance(expr, Column | Literal) else call("if", Column(hit), expr, NULL)


def _expand_union(node: UnionAll, frame: Rows, probe: Probe, context: EpochContext) -> tuple[Rows, str]:
    """Return each row of the frame with all rows of all branches."""
    outer, hit = list(frame.columns), context.fresh("hit")
    branches = []
    for position, child in enumerate(node.inputs):
        below = _list_columns(child)
        aliases = {c: context.fresh("outer") if c in below else c for c in outer}
        asking = compute(frame, [(alias, Column(c)) for c, alias in aliases.items()])
        guard = aliases[probe.guard] if probe.guard else None
        joined, found = expand(child, asking, replace(probe, guard=guard), context)
        carried = [*((c, Column(alias)) for c, alias in aliases.items()), (hit, Column(found))]
        branches.append(
            compute(joined, [*union_all.list_branch_items(position, child, node.names), *carried])
        )
    return union_all.put_together(node, branches, (*outer, hit), context), hit


def _expand_join(node: Join, frame: Rows, probe: Probe, context: EpochContext) -> tuple[Rows, str]:
    near, _ = choose_lookup_sides(node, tuple(column for _, column in probe.pairs), probe.null_safe)
    first = node.left if near == "left" else node.right
    mine = tuple((ours, column) for ours, column in probe.pairs if column in first.columns)
    rest = tuple((ours, column) for ours, column in probe.pairs if column not in first.columns)
    joined, hit = expand(first, frame, replace(probe, pairs=mine), context)
    if node.kind in ("semi", "anti"):
        joined, hit = _mark(joined, hit, node, context, probe.at)
    elif near == "left" and node.kind == "left":
        joined = attach_left(joined, node, context, at=probe.at, guard=hit)
    elif near == "left":
        joined, hit = expand(node.right, joined, Probe(node.on, probe.at, hit, node.null_safe), context)
    else:
        reverse = tuple((right, left) for left, right in node.on)
        joined, hit = expand(node.left, joined, Probe(reverse, probe.at, hit, node.null_safe), context)
    if node.residual is not None and (node.kind == "inner" or near == "right"):
        joined, hit = narrow(joined, hit, node.residual, context)
    equal = "<=>" if probe.null_safe else "="
    for ours, column in rest:
        test = Comparison(equal, Column(ours), Column(column))
        joined, hit = narrow(joined, hit, test, context)
    return joined, hit


def _mark(frame: Rows, hit: str, node: Join, context: EpochContext, at: At) -> tuple[Rows, str]:
    """Let a hit on the left side of a semi or anti join stand only where the join keeps the row."""
    marked, mark = attach_mark(frame, node, context, at=at, guard=hit)
    new_hit = context.fresh("hit")
    test = And((Column(hit), build_mark_condition(node, mark)))
    return select(marked, [c for c in frame.columns if c != hit], (new_hit, test)), new_hit


def find_touched_left(node: Join, right: Rows, context: EpochContext) -> Rows:
    """Return the left rows, as they were, whose key stands in a change of the right side, each as of both of its ends.

    Without keys these are all left rows.
    """
    names = {b: context.fresh("key") for b in dict.fromkeys(b for _, b in node.on)}
    alone = [(context.fresh("key"), Literal("1"))]
    keys = compute(right, [(name, Column(b)) for b, name in names.items()] or alone).distinct()
    pairs = tuple((names[b], a) for a, b in node.on)
    joined, hit = expand(node.left, keys, Probe(pairs, "old", null_safe=node.null_safe), context)
    return duplicate_sides(select(keep(joined, Column(hit)), node.left.columns))


def attach_left(frame: Rows, node: Join, context: EpochContext, *, at: At, guard: str | None) -> Rows:
    """Left-join each row of `frame`, which holds the left side's columns, with the right side: nulls where none matches."""
    plain = isinstance(node.right, Scan) and node.residual is None
    line = context.fresh("line")
    if not plain:
        frame = number_lines(frame, line, context)
    outer = [c for c in frame.columns if c != line]
    joined, hit = expand(node.right, frame, Probe(node.on, at, guard, node.null_safe), context)
    if node.residual is not None:
        joined, hit = narrow(joined, hit, node.residual, context)
    if not plain:
        joined = keep_hits(joined, line, hit, node.right.columns, context)
    return select(joined, [*outer, *node.right.columns])


def _list_columns(node: Node) -> set[str]:
    return set(node.columns).union(*(_list_columns(child) for child in list_children(node)))


def attach_mark(
    frame: Rows, node: Join, context: EpochContext, *, at: At, guard: str | None = None
) -> tuple[Rows, str]:
    """Add a column that says whether a row, which holds the left side's columns, has a match; and return its name."""
    line = context.fresh("line")
    outer = list(frame.columns)
    unique = set(node.right.key) <= {column for _, column in node.on}
    alone = node.residual is None and _has_first_rows(node.right, tuple(b for _, b in node.on), context)
    several = not unique and not alone
    if several:
        frame = number_lines(frame, line, context)
    end: End | None = "first" if alone and not unique else None
    joined, hit = expand(node.right, frame, Probe(node.on, at, guard, node.null_safe, end), context)
    if node.residual is not None:
        joined, hit = narrow(joined, hit, node.residual, context)
    if several:
        joined = keep_first_hit(select(joined, [*outer, hit, line]), line, hit, context)
    return select(joined, [*outer, hit]), hit


def _has_first_rows(node: Node, columns: tuple[str, ...], context: EpochContext) -> bool:
    """Tell whether the first of the rows that have a key tells that there are some: all are found by one search of a table."""
    while isinstance(node, Project):
        columns, node = trace_through_project(node, columns), node.input
    if not isinstance(node, Scan):
        return False
    path = find_access_path(node, columns)
    version, by = context.tables[path.table], {theirs for _, theirs in path.pairs}
    return set(version.primary_key[: len(by)]) == by


def build_mark_condition(node: Join, mark: str) -> Expr:
    """Return the condition on the mark under which a left row is in the result."""
    return Column(mark) if node.kind == "semi" else Not(Column(mark))
