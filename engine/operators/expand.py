"""Rows of a plan found by key: every row of a driving frame is joined with the plan's rows that have its key values.

No driving row is dropped: a boolean column says whether the joined columns hold a row of the plan (a hit) or nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from engine.operators.context import At, EpochContext, select
from engine.operators.flow import Rows, as_frame, both_sides, compute, keep
from engine.operators.lookup import lookup
from engine.sql.expression.nodes import NULL, And, Column, Comparison, Expr, Not
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import call, template
from engine.sql.incremental.access import access_path, join_sides, through_project
from engine.sql.plan import Filter, Join, Node, Project, Scan, children

Pairs = tuple[tuple[str, str], ...]


def expand(
    node: Node,
    frame: Rows,
    pairs: Pairs,
    context: EpochContext,
    *,
    at: At,
    given: str | None = None,
    null_safe: bool = False,
) -> tuple[Rows, str]:
    """Return the frame with the node's columns added, and the name of the hit column.

    `pairs` = (frame column, node column) that must be equal.
    """
    if isinstance(node, Scan):
        path = access_path(node, tuple(column for _, column in pairs))
        target = dict(path.pairs)
        hit = context.fresh("hit")
        by = tuple((ours, target[theirs]) for ours, theirs in pairs)
        found = lookup(
            frame, context, path.table, by, node.items, at=at, hit=hit, given=given, null_safe=null_safe
        )
        return found, hit
    if isinstance(node, Filter):
        joined, hit = expand(node.input, frame, pairs, context, at=at, given=given, null_safe=null_safe)
        return narrow(joined, hit, node.predicate, context)
    if isinstance(node, Project):
        return _expand_project(node, frame, pairs, context, at, given, null_safe)
    if isinstance(node, Join):
        return _expand_join(node, frame, pairs, context, at, given, null_safe)
    raise AssertionError(f"the planner arranges {type(node).__name__} before it is looked up")


def narrow(frame: Rows, hit: str, predicate: Expr, context: EpochContext) -> tuple[Rows, str]:
    """Keep every row, but let a hit stand only where the predicate is true; return the new hit column too."""
    narrowed = context.fresh("hit")
    test = template("if(:hit, coalesce(:holds, FALSE), FALSE)", hit=Column(hit), holds=predicate)
    return select(frame, [c for c in frame.columns if c != hit], (narrowed, test)), narrowed


def _expand_project(
    node: Project,
    frame: Rows,
    pairs: Pairs,
    context: EpochContext,
    at: At,
    given: str | None,
    null_safe: bool,
) -> tuple[Rows, str]:
    inner_columns = through_project(node, tuple(column for _, column in pairs))
    inner = tuple((ours, column) for (ours, _), column in zip(pairs, inner_columns, strict=True))
    below = _all_columns(node.input)
    aliases = {c: context.fresh("outer") if c in below else c for c in frame.columns}
    frame = compute(frame, [(alias, Column(c)) for c, alias in aliases.items()])
    inner = tuple((aliases[ours], column) for ours, column in inner)
    given = aliases[given] if given else None
    joined, hit = expand(node.input, frame, inner, context, at=at, given=given, null_safe=null_safe)
    outer = [(c, Column(alias)) for c, alias in aliases.items()]
    return compute(joined, [*outer, *node.items, (hit, Column(hit))]), hit


def _expand_join(
    node: Join,
    frame: Rows,
    pairs: Pairs,
    context: EpochContext,
    at: At,
    given: str | None,
    null_safe: bool,
) -> tuple[Rows, str]:
    near, _ = join_sides(node, tuple(column for _, column in pairs), null_safe)
    first = node.left if near == "left" else node.right
    mine = tuple((ours, column) for ours, column in pairs if column in first.columns)
    rest = tuple((ours, column) for ours, column in pairs if column not in first.columns)
    joined, hit = expand(first, frame, mine, context, at=at, given=given, null_safe=null_safe)
    if node.kind in ("semi", "anti"):
        joined, hit = _mark(joined, hit, node, context, at)
    elif near == "left" and node.kind == "left":
        joined = attach_left(joined, node, context, at=at, given=hit)
    elif near == "left":
        joined, hit = expand(node.right, joined, node.on, context, at=at, given=hit, null_safe=node.null_safe)
    else:
        reverse = tuple((right, left) for left, right in node.on)
        joined, hit = expand(node.left, joined, reverse, context, at=at, given=hit, null_safe=node.null_safe)
    if node.residual is not None and (node.kind == "inner" or near == "right"):
        joined, hit = narrow(joined, hit, node.residual, context)
    equal = "<=>" if null_safe else "="
    for ours, column in rest:
        test = Comparison(equal, Column(ours), Column(column))
        joined, hit = narrow(joined, hit, test, context)
    return joined, hit


def _mark(frame: Rows, hit: str, node: Join, context: EpochContext, at: At) -> tuple[Rows, str]:
    """Let a hit on the left side of a semi or anti join stand only where the join keeps the row."""
    marked, mark = attach_mark(frame, node, context, at=at, given=hit)
    kept = context.fresh("hit")
    test = And((Column(hit), wanted(node, mark)))
    return select(marked, [c for c in frame.columns if c != hit], (kept, test)), kept


def touched_sides(node: Join, right: Rows, context: EpochContext) -> Rows:
    """Return the left rows, as they were, whose key stands in a change of the right side, each as of both of its ends."""
    names = {b: context.fresh("key") for b in dict.fromkeys(b for _, b in node.on)}
    keys = compute(right, [(name, Column(b)) for b, name in names.items()]).distinct()
    pairs = tuple((names[b], a) for a, b in node.on)
    joined, hit = expand(node.left, keys, pairs, context, at="old", null_safe=node.null_safe)
    return both_sides(select(keep(joined, Column(hit)), node.left.columns))


def attach_left(frame: Rows, node: Join, context: EpochContext, *, at: At, given: str | None) -> Rows:
    """Left-join each row of `frame`, which holds the left side's columns, with the right side: nulls where none matches."""
    plain = isinstance(node.right, Scan) and node.residual is None
    line = context.fresh("line")
    if not plain:
        frame = with_line(frame, line)
    outer = [c for c in frame.columns if c != line]
    joined, hit = expand(node.right, frame, node.on, context, at=at, given=given, null_safe=node.null_safe)
    if node.residual is not None:
        joined, hit = narrow(joined, hit, node.residual, context)
    if plain:
        return select(joined, [*outer, *node.right.columns])
    rank = context.fresh("rank")
    kept = hits_first(joined, line, hit, rank).where(f"{quote(hit)} OR {quote(rank)} = 1")
    nulled = [(c, call("if", Column(hit), Column(c), NULL)) for c in node.right.columns]
    return select(kept, outer, *nulled)


def with_line(rows: Rows, line: str) -> DataFrame:
    """Return each row with a number of its own as the column `line`."""
    return as_frame(rows).selectExpr("*", f"monotonically_increasing_id() AS {quote(line)}")


def hits_first(rows: Rows, line: str, hit: str, rank: str) -> DataFrame:
    """Return each row with its number among those of its line as the column `rank`, hits first."""
    window = f"row_number() OVER (PARTITION BY {quote(line)} ORDER BY {quote(hit)} DESC) AS {quote(rank)}"
    return as_frame(rows).selectExpr("*", window)


def _all_columns(node: Node) -> set[str]:
    return set(node.columns).union(*(_all_columns(child) for child in children(node)))


def attach_mark(
    frame: Rows, node: Join, context: EpochContext, *, at: At, given: str | None = None
) -> tuple[Rows, str]:
    """Add a column that says whether a row, which holds the left side's columns, has a match; and return its name."""
    line, rank = context.fresh("line"), context.fresh("rank")
    outer = list(frame.columns)
    several = not set(node.right.key) <= {column for _, column in node.on}
    if several:
        frame = with_line(frame, line)
    joined, hit = expand(node.right, frame, node.on, context, at=at, given=given, null_safe=node.null_safe)
    if node.residual is not None:
        joined, hit = narrow(joined, hit, node.residual, context)
    if several:
        joined = hits_first(select(joined, [*outer, hit, line]), line, hit, rank).where(f"{quote(rank)} = 1")
    return select(joined, [*outer, hit]), hit


def wanted(node: Join, mark: str) -> Expr:
    """Return the condition on the mark under which a left row is in the result."""
    return Column(mark) if node.kind == "semi" else Not(Column(mark))
