"""The first content of a fragment's table, as a whole or a step of it: by the batch plan, as Spark would run the query once.

A step that is large beside what it is joined with is cheaper so than by lookups, which small steps are left to.
"""

from __future__ import annotations

from engine.operators.change import Change
from engine.operators.compile import batch, compute_whole
from engine.operators.context import EpochContext
from engine.operators.flow import COMES, Rows, append_columns
from engine.operators.grouping.aggregate import merge_partials
from engine.runtime.spark.analyze import build_whole_frame
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import IndexCopy, Linear, StoredPartials
from engine.sql.plan import Aggregate, Project, list_scans

OTHERS_TIMES = 2
"""A step is joined with whole tables that have together up to so many times its own rows; more are looked up in."""


def compute_first_content(fragment: Fragment, context: EpochContext) -> Change:
    """Return all rows of a fragment's table, which is empty, as rows that come in."""
    return Change(append_columns(compute_content(fragment, context), COMES))


def compute_content(fragment: Fragment, context: EpochContext) -> Rows:
    """Return all rows of a fragment's table computed from whole inputs, hidden columns included, without `_w`."""
    if isinstance(fragment.rule, Linear | IndexCopy):
        return compute_whole(fragment.plan, context)
    return build_whole_frame(fragment, context)


def is_batch_step(fragment: Fragment, context: EpochContext) -> bool:
    """Tell whether a step of a backfill runs the batch plan over its rows and all other tables as wholes."""
    if context.piece is None or context.is_small:
        return False
    others = sum(
        context.estimate_rows(scan.table) for scan in list_scans(fragment.plan) if not context.is_driver(scan)
    )
    return others <= OTHERS_TIMES * context.rows_in


def compute_step_content(fragment: Fragment, context: EpochContext) -> Change:
    """Return what a large step of a backfill adds to a fragment's table: rows, or groups merged with those that are stored."""
    plan, rule = fragment.plan, fragment.rule
    if not isinstance(rule, StoredPartials):
        return Change(append_columns(compute_whole(plan, context), COMES))
    assert isinstance(plan, Project) and isinstance(plan.input, Aggregate)
    rows = append_columns(batch(plan.input.input, context), COMES)
    return merge_partials(plan, fragment.table, rule.partials, rows, context)
