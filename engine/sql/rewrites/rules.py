"""The rules, in the order in which they are applied: those of parsed queries, those that bind, and those of plans.

Each stands in a file of its own with an `EXAMPLE`, which `tests/sql/rewrites/test_rules.py` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import sqlglot.expressions as exp

from engine.sql.plan import Node
from engine.sql.rewrites.array_comparison import array_comparison
from engine.sql.rewrites.array_subquery import array_subquery
from engine.sql.rewrites.clock_above_joins import clock_above_joins
from engine.sql.rewrites.common_factors import common_factors
from engine.sql.rewrites.contract import ParsedRule, PlanRule, QueryText
from engine.sql.rewrites.corresponding import corresponding
from engine.sql.rewrites.decorrelate import decorrelate
from engine.sql.rewrites.first_by_number import first_by_number
from engine.sql.rewrites.free_values import over_domain
from engine.sql.rewrites.full_join import full_join
from engine.sql.rewrites.gap_fill import gap_fill
from engine.sql.rewrites.grouping_bits import grouping_bits
from engine.sql.rewrites.grouping_sets import grouping_sets
from engine.sql.rewrites.inline_functions import inline_functions
from engine.sql.rewrites.join_keys import JoinKeys
from engine.sql.rewrites.lockstep import lockstep
from engine.sql.rewrites.mark import mark
from engine.sql.rewrites.membership import Membership
from engine.sql.rewrites.merge_projections import merge_projections
from engine.sql.rewrites.outer_to_inner import outer_to_inner
from engine.sql.rewrites.prune import prune
from engine.sql.rewrites.pull_up import pull_up
from engine.sql.rewrites.pushdown import pushdown
from engine.sql.rewrites.quantified import quantified
from engine.sql.rewrites.row_fields import row_fields
from engine.sql.rewrites.row_order import row_order
from engine.sql.rewrites.scalar import ScalarSubqueries
from engine.sql.rewrites.set_returning import set_returning
from engine.sql.rewrites.time_windows import time_windows

PARSED_RULES: tuple[ParsedRule, ...] = (
    inline_functions,
    gap_fill,
    time_windows,
    row_fields,
    row_order,
    set_returning,
    lockstep,
    corresponding,
    array_comparison,
    array_subquery,
    grouping_bits,
    common_factors,
)
"""Parsed query -> parsed query, before names are bound, or before Spark reads a query that is answered once."""

BINDING_RULES: tuple[Callable[..., Any], ...] = (
    decorrelate,
    pull_up,
    over_domain,
    Membership.kept_not_in,
    mark,
    quantified,
    ScalarSubqueries.attach,
    JoinKeys.join,
    full_join,
    grouping_sets,
)
"""What the binder builds a plan with. They name new columns, whose types the names bound after them are checked by, so none can
wait for the whole plan; their signatures are their own."""

RULES: tuple[PlanRule, ...] = (
    pushdown,
    outer_to_inner,
    prune,
    clock_above_joins,
    first_by_number,
    merge_projections,
)
"""Plan -> plan, after a query is bound."""


def written_out(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return a parsed query with all rules of parsed queries applied, in place; raises SqlError with the place."""
    for rule in PARSED_RULES:
        tree = rule(tree, text)
    return tree


def rewritten(plan: Node, needed: Set[str]) -> Node:
    """Return a bound plan with all rules of plans applied; `needed` are the columns that are read of it."""
    for rule in RULES:
        plan = rule(plan, needed)
    return plan
