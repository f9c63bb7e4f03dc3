"""A correlated plan computed for every value of the outer columns at once.

Method: Neumann and Kemper, Unnesting Arbitrary Queries (BTW 2015). The distinct outer values (the domain) are joined with
the plan as deep as the correlation reaches; every node above carries their columns along.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.sql.join_keys import JoinKeys
from engine.sql.plan import (
    AggCall,
    Aggregate,
    Expr,
    Filter,
    Join,
    Node,
    Project,
    TopN,
    UnionAll,
    Unnest,
    quote,
)
from engine.sql.pushdown import conjunction, substitute
from engine.sql.rewrites.free import free_columns, map_call, rename_free
from engine.sql.rewrites.pull_up import Pulled

ZERO_WHEN_EMPTY = ("count", "count_if", "regr_count", "approx_count_distinct")


def over_domain(plan: Node, inner: Node, columns: tuple[str, ...], keys: JoinKeys) -> Pulled:
    """Return `inner` for each distinct value of the outer `columns` of `plan`; null is a value as any other."""
    names = {column: keys.fresh(f"domain:{column}") for column in columns}
    for column, name in names.items():
        keys.copied(name, Expr.of(column))
    domain = Aggregate(plan, tuple((name, Expr.of(column)) for column, name in names.items()), ())
    node = _Unnesting(domain, tuple(names.values()), keys).node(
        rename_free(inner, {column: Expr.of(name) for column, name in names.items()})
    )
    pairs = tuple((Expr.of(column), Expr.of(name)) for column, name in names.items())
    return Pulled(node, pairs, null_safe=True)


class _Unnesting:
    """Builds plans whose columns include those of the domain."""

    def __init__(self, domain: Aggregate, names: tuple[str, ...], keys: JoinKeys) -> None:
        self.domain, self.names, self.keys = domain, names, keys

    def node(self, node: Node) -> Node:
        """Return the node joined with the domain."""
        if not set(free_columns(node)) & set(self.names):
            return Join(self.domain, node, "inner", ())
        match node:
            case Filter():
                return Filter(self.node(node.input), node.predicate)
            case Project():
                carried = tuple((name, Expr.of(name)) for name in self.names)
                return Project(self.node(node.input), node.items + carried)
            case Unnest():
                return msgspec.structs.replace(node, input=self.node(node.input))
            case TopN():
                partition = (*node.partition, *self.names)
                return msgspec.structs.replace(node, input=self.node(node.input), partition=partition)
            case Aggregate():
                return self._aggregate(node)
            case UnionAll():
                return self._union(node)
            case Join():
                return self._join(node)
        return Join(self.domain, node, "inner", ())

    def _renamed(self, node: Node) -> tuple[Node, dict[str, str]]:
        """Return the node joined with a copy of the domain under names of its own."""
        names = {name: self.keys.fresh(name) for name in self.names}
        for old, new in names.items():
            self.keys.copied(new, Expr.of(old))
        by = {old: Expr.of(new) for old, new in names.items()}
        keys = tuple((names[old], expr) for old, expr in self.domain.keys)
        copy = _Unnesting(Aggregate(self.domain.input, keys, ()), tuple(names.values()), self.keys)
        return copy.node(rename_free(node, by)), names

    def _aggregate(self, node: Aggregate) -> Node:
        carried = tuple((name, Expr.of(name)) for name in self.names)
        if node.keys:
            return Aggregate(self.node(node.input), node.keys + carried, node.calls)
        # without GROUP BY there is a row for every outer value, also where no row was found
        below, names = self._renamed(node.input)
        by = {old: Expr.of(new) for old, new in names.items()}
        keys = tuple((new, Expr.of(new)) for new in names.values())
        calls = tuple(map_call(call, lambda expr: substitute(expr, by)) for call in node.calls)
        groups = Aggregate(below, keys, calls)
        joined = Join(self.domain, groups, "left", tuple(names.items()), null_safe=True)
        items = tuple((name, Expr.of(name)) for name in self.names)
        return Project(joined, items + tuple((call.name, empty_value(call)) for call in calls))

    def _union(self, node: UnionAll) -> Node:
        width, inputs = len(node.names), []
        for branch in node.inputs:
            renamed, names = self._renamed(branch)
            shown = branch.columns[:width]
            items = tuple((column, Expr.of(column)) for column in (*shown, *names.values()))
            inputs.append(Project(renamed, items))
        merged = UnionAll(tuple(inputs), node.names + self.names)
        return merged

    def _join(self, node: Join) -> Node:
        mine = set(self.names)
        below = node.kind in ("left", "semi", "anti")
        left_free = bool(set(free_columns(node.left)) & mine)
        right_free = bool(set(free_columns(node.right)) & mine)
        if not right_free:
            return msgspec.structs.replace(node, left=self.node(node.left))
        if not left_free and not below:
            return msgspec.structs.replace(node, right=self.node(node.right))
        right, names = self._renamed(node.right)
        left = self.node(node.left)
        return _with_pairs(msgspec.structs.replace(node, left=left, right=right), names)


def _with_pairs(join: Join, names: Mapping[str, str]) -> Join:
    """Return the join with null-safe pairs added; those that it had go on to match no null."""
    pairs = tuple(names.items())
    if join.null_safe or not join.on:
        return msgspec.structs.replace(join, on=join.on + pairs, null_safe=True)
    present = [Expr(f"{quote(left)} IS NOT NULL", (left,)) for left, _ in join.on]
    residual = conjunction([*present, *([join.residual] if join.residual is not None else [])])
    return msgspec.structs.replace(join, on=join.on + pairs, null_safe=True, residual=residual)


def empty_value(call: AggCall) -> Expr:
    """Return an aggregate's column, with 0 instead of null for one that counts."""
    if call.function in ZERO_WHEN_EMPTY:
        return Expr(f"coalesce({quote(call.name)}, 0L)", (call.name,))
    return Expr.of(call.name)
