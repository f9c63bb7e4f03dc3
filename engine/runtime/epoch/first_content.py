"""The first content of a fragment's table, as a whole or a step of it: by the batch plan, as Spark would run the query once.

A step that is large beside what it is joined with is cheaper so than by lookups, which small steps are left to.
"""

from __future__ import annotations

from engine.operators.aggregate import partials_merged
from engine.operators.compile import batch, whole
from engine.operators.context import EpochContext
from engine.operators.flow import COMES, Rows, added
from engine.runtime.spark.analyze import whole_fragment
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import IndexCopy, Linear, StoredPartials
from engine.sql.plan import Aggregate, Project, scans

OTHERS_TIMES = 2
"""A step is joined with whole tables that have together up to so many times its own rows; more are looked up in."""


def first_content(fragment: Fragment, context: EpochContext) -> Rows:
    """Return all rows of a fragment's table, which is empty, as rows that come in."""
    if isinstance(fragment.rule, Linear | IndexCopy):
        return added(whole(fragment.plan, context), COMES)
    return added(whole_fragment(fragment, context), COMES)


def is_batch_step(fragment: Fragment, context: EpochContext) -> bool:
    """Tell whether a step of a backfill runs the batch plan over its rows and all other tables as wholes."""
    if context.piece is None or context.small:
        return False
    others = sum(context.rows_of(scan.table) for scan in scans(fragment.plan) if not context.drives(scan))
    return others <= OTHERS_TIMES * context.rows_in


def step_content(fragment: Fragment, context: EpochContext) -> Rows:
    """Return what a large step of a backfill adds to a fragment's table: rows, or groups merged with those that are stored."""
    plan, rule = fragment.plan, fragment.rule
    if not isinstance(rule, StoredPartials):
        return added(whole(plan, context), COMES)
    assert isinstance(plan, Project) and isinstance(plan.input, Aggregate)
    rows = added(batch(plan.input.input, context), COMES)
    return partials_merged(plan, fragment.table, rule.partials, rows, context)
