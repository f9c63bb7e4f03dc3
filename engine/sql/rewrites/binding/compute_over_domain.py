"""A correlated plan computed for every value of the outer columns at once.

Method: Neumann and Kemper, Unnesting Arbitrary Queries (BTW 2015). The distinct outer values (the domain) are joined with
the plan as deep as the correlation reaches; every node above carries their columns along.

Applies where `pull_up_conditions` gives up, and so while a query is bound: it copies the plan of the query around it as far as
that is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.jsonb.kinds import to_storage_type
from engine.sql.expression.nodes import Column, Expr, Literal, annotate
from engine.sql.expression.ordered_lists import KEEP_NULLS
from engine.sql.expression.substitute import substitute
from engine.sql.expression.template import as_columns, build_not_null, call, fill_template, join_conditions
from engine.sql.plan import AggCall, Aggregate, Filter, Join, Node, Over, Project, TopN, UnionAll, Unnest
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.free_columns import find_free_columns, map_call, replace_free_columns
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.binding.pull_up_conditions import Pulled
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT a.id, (SELECT max(b.price) FROM bid b WHERE b.auction < a.id) AS high FROM auction a",
    plan="""
Project [out:id = `a:id`, out:high = `out:max`] key (out:id) retracting
  LeftJoin on a:id <=> domain:a:id key (a:id) retracting
    Scan auction [id] key (a:id) retracting
    Project [out:max = `agg:max`, `domain:a:id`] key (domain:a:id) retracting
      LeftJoin on domain:a:id <=> domain:a:id#2 key (domain:a:id) retracting
        Aggregate by [domain:a:id = `a:id`] calls [] key (domain:a:id) retracting
          Scan auction [id] key (a:id) retracting
        Aggregate by [domain:a:id#2 = `domain:a:id#2`] calls [max(`b:price`)] key (domain:a:id#2) retracting
          InnerJoin on every pair and `b:auction` < `domain:a:id#2` key (domain:a:id#2, b:id) retracting
            Aggregate by [domain:a:id#2 = `a:id`] calls [] key (domain:a:id#2) retracting
              Scan auction [id] key (a:id) retracting
            Scan bid [id, auction, price] key (b:id) retracting
""",
)

ZERO_WHEN_EMPTY = ("count", "count_if", "regr_count", "approx_count_distinct")
_NESTED = ("array<", "struct<", "map<")


def compute_over_domain(
    plan: Node, inner: Node, columns: tuple[str, ...], equalities: Equalities, keys: JoinKeys
) -> Pulled:
    """Return `inner` for each distinct value of the outer `columns` of `plan`; null is a value as any other.

    Arrays, structs and maps are no keys of a table: the domain holds their JSON text, from which they are read again.
    """
    names = {column: keys.fresh(f"domain:{column}") for column in columns}
    values, by = {}, {}
    for column, name in names.items():
        kind = keys.types.get(column, "")
        if kind.startswith(_NESTED):
            values[column] = annotate(call("to_json", Column(column), KEEP_NULLS), type="string")
            by[column] = annotate(
                call("from_json", Column(name), Literal(to_storage_type(kind), "string")), type=kind
            )
        else:
            values[column], by[column] = Column(column), Column(name)
        keys.record_copy(name, values[column])
    domain = Aggregate(plan, tuple((name, values[column]) for column, name in names.items()), ())
    equalities.rename(by)
    node = _DomainUnnester(domain, tuple(names.values()), equalities, keys).unnest(
        replace_free_columns(inner, by)
    )
    pairs = tuple((values[column], Column(name)) for column, name in names.items())
    return Pulled(node, pairs, null_safe=True)


class _DomainUnnester:
    """Builds plans whose columns include those of the domain."""

    def __init__(
        self, domain: Aggregate, names: tuple[str, ...], equalities: Equalities, keys: JoinKeys
    ) -> None:
        self.domain, self.names, self.equalities, self.keys = domain, names, equalities, keys

    def unnest(self, node: Node) -> Node:
        """Return the node joined with the domain."""
        if not set(find_free_columns(node)) & set(self.names):
            return Join(self.domain, node, "inner", ())
        match node:
            case Filter():
                return self._unnest_filter(node)
            case Project():
                carried = as_columns(self.names)
                return Project(self.unnest(node.input), node.items + carried)
            case Unnest():
                return msgspec.structs.replace(node, input=self.unnest(node.input))
            case TopN() | Over():
                partition = (*node.partition, *self.names)
                return msgspec.structs.replace(node, input=self.unnest(node.input), partition=partition)
            case Aggregate():
                return self._unnest_aggregate(node)
            case UnionAll():
                return self._unnest_union(node)
            case Join():
                return self._unnest_join(node)
        return Join(self.domain, node, "inner", ())

    def _unnest_filter(self, node: Filter) -> Node:
        """The conditions that reach down to a plan without outer columns become those of its join with the domain."""
        predicates, below = [node.predicate], node.input
        while isinstance(below, Filter):
            predicates.append(below.predicate)
            below = below.input
        if set(find_free_columns(below)) & set(self.names):
            return Filter(self.unnest(node.input), node.predicate)
        inner = set(below.columns)
        pairs, residual = [], []
        for predicate in predicates:
            pair = self.equalities.find_sides(predicate, inner)
            if pair is not None and set(pair[0].columns) <= set(self.names):
                pairs.append(pair)
            else:
                residual.append(predicate)
        own = [p for p in residual if p.columns and set(p.columns) <= inner]
        for predicate in own:
            below = Filter(below, predicate)
        return self.keys.join(self.domain, below, "inner", pairs, [p for p in residual if p not in own])

    def _join_domain_copy(self, node: Node) -> tuple[Node, dict[str, str]]:
        """Return the node joined with a copy of the domain under names of its own."""
        names = {name: self.keys.fresh(name) for name in self.names}
        for old, new in names.items():
            self.keys.record_copy(new, Column(old))
        by = {old: Column(new) for old, new in names.items()}
        keys = tuple((names[old], expr) for old, expr in self.domain.keys)
        domain = Aggregate(self.domain.input, keys, ())
        self.equalities.rename(by)
        copy = _DomainUnnester(domain, tuple(names.values()), self.equalities, self.keys)
        return copy.unnest(replace_free_columns(node, by)), names

    def _unnest_aggregate(self, node: Aggregate) -> Node:
        carried = as_columns(self.names)
        if node.keys:
            return Aggregate(self.unnest(node.input), node.keys + carried, node.calls)
        # without GROUP BY there is a row for every outer value, also where no row was found
        below, names = self._join_domain_copy(node.input)
        by = {old: Column(new) for old, new in names.items()}
        keys = as_columns(names.values())
        calls = tuple(map_call(call, lambda expr: substitute(expr, by)) for call in node.calls)
        groups = Aggregate(below, keys, calls)
        joined = Join(self.domain, groups, "left", tuple(names.items()), null_safe=True)
        items = as_columns(self.names)
        return Project(joined, items + tuple((call.name, coalesce_count(call)) for call in calls))

    def _unnest_union(self, node: UnionAll) -> Node:
        width, inputs = len(node.names), []
        for branch in node.inputs:
            renamed, names = self._join_domain_copy(branch)
            visible = branch.columns[:width]
            items = as_columns((*visible, *names.values()))
            inputs.append(Project(renamed, items))
        merged = UnionAll(tuple(inputs), node.names + self.names)
        return merged

    def _unnest_join(self, node: Join) -> Node:
        mine = set(self.names)
        below = node.kind in ("left", "semi", "anti")
        left_free = bool(set(find_free_columns(node.left)) & mine)
        right_free = bool(set(find_free_columns(node.right)) & mine)
        if not right_free:
            return msgspec.structs.replace(node, left=self.unnest(node.left))
        if not left_free and not below:
            return msgspec.structs.replace(node, right=self.unnest(node.right))
        right, names = self._join_domain_copy(node.right)
        left = self.unnest(node.left)
        return _add_pairs(msgspec.structs.replace(node, left=left, right=right), names)


def _add_pairs(join: Join, names: Mapping[str, str]) -> Join:
    """Return the join with null-safe pairs added; those that it had go on to match no null."""
    pairs = tuple(names.items())
    if join.null_safe or not join.on:
        return msgspec.structs.replace(join, on=join.on + pairs, null_safe=True)
    filled = [build_not_null(Column(left)) for left, _ in join.on]
    residual = join_conditions([*filled, *([join.residual] if join.residual is not None else [])])
    return msgspec.structs.replace(join, on=join.on + pairs, null_safe=True, residual=residual)


def coalesce_count(aggregate: AggCall) -> Expr:
    """Return an aggregate's column, with 0 instead of null for one that counts."""
    if aggregate.function in ZERO_WHEN_EMPTY:
        return fill_template("coalesce(:n, 0L)", n=Column(aggregate.name))
    return Column(aggregate.name)
