"""Bound plan -> incremental plan: a list of fragments, each of which keeps exactly one table up to date."""

from __future__ import annotations

from engine.sql.expression.nodes import Column
from engine.sql.incremental.dynamic_filters import replace_with_dynamic_filters
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.lowering import Lowering
from engine.sql.incremental.reference_rules import ReferenceLowering
from engine.sql.incremental.states.lookup_states import Analyzer
from engine.sql.incremental.states.table_columns import sanitize_names
from engine.sql.incremental.watermarks.watermark_columns import OfScan
from engine.sql.plan import Node, Project
from engine.sql.statements.options.view_options import Rules


def build_incremental_plan(
    view: str,
    plan: Node,
    outputs: tuple[tuple[str, str], ...],
    analyzer: Analyzer,
    rules: Rules = "fast",
    of_scan: OfScan | None = None,
) -> IncrementalPlan:
    """Split `plan` into fragments; `outputs` maps the view's column names to the plan's columns.

    `analyzer` gives the Spark types of a node's columns. With `rules` = reference every operator that has a key is a fragment
    of its own, and recomputes its touched keys. With `of_scan`, which tells the watermarks of tables, joins let go of rows.
    """
    lowering = Lowering(view, analyzer, of_scan) if rules == "fast" else ReferenceLowering(view, analyzer)
    top: Node = build_view_plan(plan, outputs)
    if rules == "fast":
        top = replace_with_dynamic_filters(top, set(top.columns), analyzer)
    lowering.add_view_fragment(top)
    return IncrementalPlan(view, tuple(lowering.fragments), tuple(lowering.indexes))


def build_view_plan(plan: Node, outputs: tuple[tuple[str, str], ...]) -> Project:
    """Return the plan of a view's rows under the names that the view has for them; `outputs` as of the incremental plan."""
    return _compose(_project_outputs(plan, outputs))


def _project_outputs(plan: Node, outputs: tuple[tuple[str, str], ...]) -> Project:
    """Give the plan the view's column names; key columns that it lacks become hidden `_key_…` columns."""
    visible = {internal for _, internal in outputs}
    hidden = sanitize_names(tuple(column for column in plan.key if column not in visible))
    items = tuple((name, Column(internal)) for name, internal in outputs)
    return Project(
        plan, items + tuple((f"_key_{new.lstrip('_')}", Column(old)) for old, new in hidden.items())
    )


def _compose(node: Project) -> Project:
    """Merge a projection that only renames into the projection below it."""
    while isinstance(node.input, Project):
        if any(expr.column is None for _, expr in node.items):
            break
        below = dict(node.input.items)
        merged = Project(node.input.input, tuple((name, below[expr.columns[0]]) for name, expr in node.items))
        if merged.columns != node.columns:  # a key column would be added twice
            break
        node = merged
    return node
