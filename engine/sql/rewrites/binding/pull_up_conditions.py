"""Correlated conditions move out of a subquery's plan, up to where a join can test them.

`SELECT max(x) FROM t WHERE t.k = outer.k` -> the groups of t by k, to be joined on k = outer.k

Applies as the first choice of `decorrelate`, and so while a query is bound: it gives up at a node that a condition cannot pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from engine.sql.expression.nodes import Expr
from engine.sql.expression.template import as_columns
from engine.sql.plan import Aggregate, Filter, Join, Node, Project, Unnest
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.free_columns import find_free_columns, list_call_expressions
from engine.sql.rewrites.binding.join_keys import JoinKeys, Pair
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT a.id, (SELECT max(b.price) FROM bid b WHERE b.auction = a.id) AS high FROM auction a",
    plan="""
Project [out:id = `a:id`, out:high = `agg:max`] key (out:id) retracting
  LeftJoin on a:id = group:outer key (a:id) retracting
    Scan auction [id] key (a:id) retracting
    Aggregate by [group:outer = `b:auction`] calls [max(`b:price`)] key (group:outer) retracting
      Scan bid [id, auction, price] key (b:id) retracting
""",
)


@dataclass(frozen=True)
class Pulled:
    """A plan without the outer columns, and what a join with the outer plan has to test instead.

    `pairs` = (expression of the outer plan, expression over `node`) that must be equal; `residual` reads columns of both.
    """

    node: Node
    pairs: tuple[Pair, ...] = ()
    residual: tuple[Expr, ...] = ()
    null_safe: bool = False


def pull_up_conditions(node: Node, outer: set[str], equalities: Equalities, keys: JoinKeys) -> Pulled | None:
    """Return the plan without the columns `outer`, or None if a condition cannot move out of it."""
    if not set(find_free_columns(node)) & outer:
        return Pulled(node)
    match node:
        case Filter():
            return _pull_filter(node, outer, equalities, keys)
        case Project() if not _needs_outer(tuple(expr for _, expr in node.items), outer):
            return _pull_project(node, outer, equalities, keys)
        case Aggregate() if node.keys:
            return _pull_aggregate(node, outer, equalities, keys)
        case Join():
            return _pull_join(node, outer, equalities, keys)
        case Unnest() if not _needs_outer((node.array,), outer):
            below = pull_up_conditions(node.input, outer, equalities, keys)
            return _build_over(below, lambda n: msgspec.structs.replace(node, input=n))
    return None


def _needs_outer(expressions: tuple[Expr, ...], outer: set[str]) -> bool:
    return any(set(expr.columns) & outer for expr in expressions)


def _build_over(below: Pulled | None, build: Callable[[Node], Node]) -> Pulled | None:
    return None if below is None else Pulled(build(below.node), below.pairs, below.residual)


def _pull_filter(node: Filter, outer: set[str], equalities: Equalities, keys: JoinKeys) -> Pulled | None:
    below = pull_up_conditions(node.input, outer, equalities, keys)
    if below is None or not set(node.predicate.columns) & outer:
        return _build_over(below, lambda n: Filter(n, node.predicate))
    pair = equalities.find_sides(node.predicate, set(below.node.columns))
    if pair is not None and set(pair[0].columns) <= outer:
        return Pulled(below.node, (*below.pairs, pair), below.residual)
    return Pulled(below.node, below.pairs, (*below.residual, node.predicate))


def _pull_project(node: Project, outer: set[str], equalities: Equalities, keys: JoinKeys) -> Pulled | None:
    below = pull_up_conditions(node.input, outer, equalities, keys)
    if below is None:
        return None
    have = {name for name, _ in node.items}
    read = [expr for _, expr in below.pairs] + list(below.residual)
    needed = dict.fromkeys(c for expr in read for c in expr.columns if c in below.node.columns)
    extra = as_columns([column for column in needed if column not in have])
    return Pulled(Project(below.node, node.items + extra), below.pairs, below.residual)


def _pull_aggregate(
    node: Aggregate, outer: set[str], equalities: Equalities, keys: JoinKeys
) -> Pulled | None:
    own = tuple(expr for _, expr in node.keys) + tuple(
        e for call in node.calls for e in list_call_expressions(call)
    )
    below = None if _needs_outer(own, outer) else pull_up_conditions(node.input, outer, equalities, keys)
    if below is None or below.residual:
        return None
    added, pairs = keys.group_by(below.pairs)
    return Pulled(Aggregate(below.node, node.keys + added, node.calls), pairs)


def _pull_join(node: Join, outer: set[str], equalities: Equalities, keys: JoinKeys) -> Pulled | None:
    correlated = node.residual is not None and _needs_outer((node.residual,), outer)
    if node.kind != "inner" and (correlated or set(find_free_columns(node.right)) & outer):
        return None
    left = pull_up_conditions(node.left, outer, equalities, keys)
    right = pull_up_conditions(node.right, outer, equalities, keys)
    if left is None or right is None:
        return None
    residual = (*left.residual, *right.residual)
    joined = msgspec.structs.replace(node, left=left.node, right=right.node)
    if correlated and node.residual is not None:
        residual = (*residual, node.residual)
        joined = msgspec.structs.replace(joined, residual=None)
    return Pulled(joined, (*left.pairs, *right.pairs), residual)
