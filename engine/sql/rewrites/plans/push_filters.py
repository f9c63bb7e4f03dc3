"""Filters move towards the scans, as far as that changes no row.

Applies to every filter: binding leaves each where it was written, above what it was written for.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from engine.sql.expression.clock import reads_clock
from engine.sql.expression.nodes import And, Column, Expr
from engine.sql.expression.substitute import substitute, substitute_small
from engine.sql.expression.template import combine_conditions
from engine.sql.plan import (
    Aggregate,
    Filter,
    Join,
    Node,
    Over,
    Project,
    TopN,
    UnionAll,
    Unnest,
    list_children,
)
from engine.sql.rewrites.binding.free_columns import with_inputs
from engine.sql.rewrites.contract import PlanExample

EXAMPLE = PlanExample(
    sql="SELECT q.id, a.item FROM (SELECT id, auction, price * 2 AS p FROM bid) q JOIN auction a ON a.id = q.auction "
    "WHERE q.p > 10 AND a.category = 1",
    before="""
Project [out:id#2 = `out:id`, out:item = `a:item`] key (out:id#2) retracting
  Filter `a:category` = 1 key (out:id) retracting
    Filter `out:p` > 10 key (out:id) retracting
      InnerJoin on out:auction = a:id key (out:id) retracting
        Project [out:id = `bid:id`, out:auction = `bid:auction`, out:p = `bid:price` * 2] key (out:id) retracting
          Scan bid [id, auction, price, note] key (bid:id) retracting
        Scan auction [id, item, category] key (a:id) retracting
""",
    after="""
Project [out:id#2 = `out:id`, out:item = `a:item`] key (out:id#2) retracting
  InnerJoin on out:auction = a:id key (out:id) retracting
    Project [out:id = `bid:id`, out:auction = `bid:auction`, out:p = `bid:price` * 2] key (out:id) retracting
      Filter `bid:price` * 2 > 10 key (bid:id) retracting
        Scan bid [id, auction, price, note] key (bid:id) retracting
    Filter `a:category` = 1 key (a:id) retracting
      Scan auction [id, item, category] key (a:id) retracting
""",
)


def push_filters(plan: Node, needed: Set[str]) -> Node:
    """Return the plan with every filter as near to the scans as is safe."""
    below = [push_filters(child, needed) for child in list_children(plan)]
    return push_filter(below[0], plan.predicate) if isinstance(plan, Filter) else with_inputs(plan, below)


def push_filter(node: Node, predicate: Expr) -> Node:
    """Return the node filtered by `predicate`, as near to the scans as is safe.

    A filter passes through projections, to the left of a left join, to either side of an inner one, and below an aggregate
    if it reads nothing but keys and not the moment: above it a group comes or goes, below it each of its rows would; never to
    the side of a join that may be null. It stays where it would grow large.
    """
    if isinstance(predicate, And):
        for part in predicate.parts:
            node = push_filter(node, part)
        return node
    columns = set(predicate.columns)
    if not columns <= set(
        node.columns
    ):  # it reads columns of an outer query: its place is where it was written
        return Filter(node, predicate)
    match node:
        case Filter():
            below = push_filter(node.input, predicate)
            plain = set(node.predicate.columns) <= set(node.columns)
            if plain and isinstance(below, Filter) and below.input is node.input:
                return Filter(node.input, combine_conditions(node.predicate, predicate))
            return Filter(below, node.predicate)
        case Project():
            computed = substitute_small(predicate, dict(node.items))
            if computed is not None:
                return msgspec.structs.replace(node, input=push_filter(node.input, computed))
        case Aggregate() if columns and columns <= set(node.key) and not reads_clock(predicate):
            computed = substitute_small(predicate, dict(node.keys))
            if computed is not None:
                return msgspec.structs.replace(node, input=push_filter(node.input, computed))
        case Join(at_arrival=True) if reads_clock(predicate):
            pass  # below it rows would be joined when they come into the filter
        case Join() if columns and columns <= set(node.left.columns):
            return msgspec.structs.replace(node, left=push_filter(node.left, predicate))
        case Join(kind="inner", nearest=None) if columns and columns <= set(node.right.columns):
            return msgspec.structs.replace(node, right=push_filter(node.right, predicate))
        case UnionAll() if columns and columns <= set(node.names):
            inputs = []
            for branch in node.inputs:
                by = {name: Column(below) for name, below in zip(node.names, branch.columns, strict=False)}
                inputs.append(push_filter(branch, substitute(predicate, by)))
            return UnionAll(tuple(inputs), node.names)
        case Unnest(outer=False) if columns and columns <= set(node.input.columns):
            return msgspec.structs.replace(node, input=push_filter(node.input, predicate))
        case TopN() | Over() if columns and columns <= set(node.partition):
            return msgspec.structs.replace(node, input=push_filter(node.input, predicate))
    return Filter(node, predicate)
