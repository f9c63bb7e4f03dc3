"""The rules, in the order in which they are applied: those of parsed queries, those that bind, and those of plans.

Each stands in a file of its own with an `EXAMPLE`, which `tests/sql/rewrites/test_rules.py` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import sqlglot.expressions as exp

from engine.sql.plan import Node
from engine.sql.rewrites.binding.build_full_join import build_full_join
from engine.sql.rewrites.binding.compute_over_domain import compute_over_domain
from engine.sql.rewrites.binding.decorrelate import decorrelate
from engine.sql.rewrites.binding.expand_grouping_sets import expand_grouping_sets
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.binding.mark_matches import mark_matches
from engine.sql.rewrites.binding.membership import Membership
from engine.sql.rewrites.binding.pull_up_conditions import pull_up_conditions
from engine.sql.rewrites.binding.rewrite_quantified import rewrite_quantified
from engine.sql.rewrites.binding.scalar_subqueries import ScalarSubqueries
from engine.sql.rewrites.contract import ParsedRule, PlanRule, QueryText
from engine.sql.rewrites.plans.convert_outer_to_inner import convert_outer_to_inner
from engine.sql.rewrites.plans.convert_to_top_n import convert_to_top_n
from engine.sql.rewrites.plans.hoist_clock_filters import hoist_clock_filters
from engine.sql.rewrites.plans.merge_projections import merge_projections
from engine.sql.rewrites.plans.prune_columns import prune_columns
from engine.sql.rewrites.plans.push_filters import push_filters
from engine.sql.rewrites.queries.expand_corresponding import expand_corresponding
from engine.sql.rewrites.queries.expand_gap_fill import expand_gap_fill
from engine.sql.rewrites.queries.expand_grouping_bits import expand_grouping_bits
from engine.sql.rewrites.queries.expand_row_fields import expand_row_fields
from engine.sql.rewrites.queries.expand_row_order import expand_row_order
from engine.sql.rewrites.queries.expand_time_windows import expand_time_windows
from engine.sql.rewrites.queries.extract_common_factors import extract_common_factors
from engine.sql.rewrites.queries.inline_functions import inline_functions
from engine.sql.rewrites.queries.rewrite_array_comparison import rewrite_array_comparison
from engine.sql.rewrites.queries.rewrite_array_subquery import rewrite_array_subquery
from engine.sql.rewrites.queries.rewrite_set_returning import rewrite_set_returning
from engine.sql.rewrites.queries.zip_set_returning import zip_set_returning

PARSED_RULES: tuple[ParsedRule, ...] = (
    inline_functions,
    expand_gap_fill,
    expand_time_windows,
    expand_row_fields,
    expand_row_order,
    rewrite_set_returning,
    zip_set_returning,
    expand_corresponding,
    rewrite_array_comparison,
    rewrite_array_subquery,
    expand_grouping_bits,
    extract_common_factors,
)
"""Parsed query -> parsed query, before names are bound, or before Spark reads a query that is answered once."""

BINDING_RULES: tuple[Callable[..., Any], ...] = (
    decorrelate,
    pull_up_conditions,
    compute_over_domain,
    Membership.filter_not_in,
    mark_matches,
    rewrite_quantified,
    ScalarSubqueries.attach,
    JoinKeys.join,
    build_full_join,
    expand_grouping_sets,
)
"""What the binder builds a plan with. They name new columns, whose types the names bound after them are checked by, so none can
wait for the whole plan; their signatures are their own."""

RULES: tuple[PlanRule, ...] = (
    push_filters,
    convert_outer_to_inner,
    prune_columns,
    hoist_clock_filters,
    convert_to_top_n,
    merge_projections,
)
"""Plan -> plan, after a query is bound."""


def apply_parsed_rules(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return a parsed query with all rules of parsed queries applied, in place; raises SqlError with the place."""
    for rule in PARSED_RULES:
        tree = rule(tree, text)
    return tree


def apply_plan_rules(plan: Node, needed: Set[str]) -> Node:
    """Return a bound plan with all rules of plans applied; `needed` are the columns that are read of it."""
    for rule in RULES:
        plan = rule(plan, needed)
    return plan
