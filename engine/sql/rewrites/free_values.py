"""A correlated plan computed for every value of the outer columns at once.

Method: Neumann and Kemper, Unnesting Arbitrary Queries (BTW 2015). The distinct outer values (the domain) are joined with
the plan as deep as the correlation reaches; every node above carries their columns along.

Applies where `pull_up` gives up, and so while a query is bound: it copies the plan of the query around it as far as that is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.jsonb.kinds import stored_type
from engine.sql.expression.nodes import Column, Expr, Literal, known
from engine.sql.expression.ordered_lists import KEEP_NULLS
from engine.sql.expression.substitute import substitute
from engine.sql.expression.template import call, conjunction, present, template
from engine.sql.plan import AggCall, Aggregate, Filter, Join, Node, Over, Project, TopN, UnionAll, Unnest
from engine.sql.rewrites.contract import BindingExample
from engine.sql.rewrites.equalities import Equalities
from engine.sql.rewrites.free import free_columns, map_call, rename_free
from engine.sql.rewrites.join_keys import JoinKeys
from engine.sql.rewrites.pull_up import Pulled

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


def over_domain(
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
            values[column] = known(call("to_json", Column(column), KEEP_NULLS), type="string")
            by[column] = known(
                call("from_json", Column(name), Literal(stored_type(kind), "string")), type=kind
            )
        else:
            values[column], by[column] = Column(column), Column(name)
        keys.copied(name, values[column])
    domain = Aggregate(plan, tuple((name, values[column]) for column, name in names.items()), ())
    equalities.rename(by)
    node = _Unnesting(domain, tuple(names.values()), equalities, keys).node(rename_free(inner, by))
    pairs = tuple((values[column], Column(name)) for column, name in names.items())
    return Pulled(node, pairs, null_safe=True)


class _Unnesting:
    """Builds plans whose columns include those of the domain."""

    def __init__(
        self, domain: Aggregate, names: tuple[str, ...], equalities: Equalities, keys: JoinKeys
    ) -> None:
        self.domain, self.names, self.equalities, self.keys = domain, names, equalities, keys

    def node(self, node: Node) -> Node:
        """Return the node joined with the domain."""
        if not set(free_columns(node)) & set(self.names):
            return Join(self.domain, node, "inner", ())
        match node:
            case Filter():
                return self._filter(node)
            case Project():
                carried = tuple((name, Column(name)) for name in self.names)
                return Project(self.node(node.input), node.items + carried)
            case Unnest():
                return msgspec.structs.replace(node, input=self.node(node.input))
            case TopN() | Over():
                partition = (*node.partition, *self.names)
                return msgspec.structs.replace(node, input=self.node(node.input), partition=partition)
            case Aggregate():
                return self._aggregate(node)
            case UnionAll():
                return self._union(node)
            case Join():
                return self._join(node)
        return Join(self.domain, node, "inner", ())

    def _filter(self, node: Filter) -> Node:
        """The conditions that reach down to a plan without outer columns become those of its join with the domain."""
        predicates, below = [node.predicate], node.input
        while isinstance(below, Filter):
            predicates.append(below.predicate)
            below = below.input
        if set(free_columns(below)) & set(self.names):
            return Filter(self.node(node.input), node.predicate)
        inner = set(below.columns)
        pairs, residual = [], []
        for predicate in predicates:
            pair = self.equalities.across(predicate, inner)
            if pair is not None and set(pair[0].columns) <= set(self.names):
                pairs.append(pair)
            else:
                residual.append(predicate)
        own = [p for p in residual if p.columns and set(p.columns) <= inner]
        for predicate in own:
            below = Filter(below, predicate)
        return self.keys.join(self.domain, below, "inner", pairs, [p for p in residual if p not in own])

    def _renamed(self, node: Node) -> tuple[Node, dict[str, str]]:
        """Return the node joined with a copy of the domain under names of its own."""
        names = {name: self.keys.fresh(name) for name in self.names}
        for old, new in names.items():
            self.keys.copied(new, Column(old))
        by = {old: Column(new) for old, new in names.items()}
        keys = tuple((names[old], expr) for old, expr in self.domain.keys)
        domain = Aggregate(self.domain.input, keys, ())
        self.equalities.rename(by)
        copy = _Unnesting(domain, tuple(names.values()), self.equalities, self.keys)
        return copy.node(rename_free(node, by)), names

    def _aggregate(self, node: Aggregate) -> Node:
        carried = tuple((name, Column(name)) for name in self.names)
        if node.keys:
            return Aggregate(self.node(node.input), node.keys + carried, node.calls)
        # without GROUP BY there is a row for every outer value, also where no row was found
        below, names = self._renamed(node.input)
        by = {old: Column(new) for old, new in names.items()}
        keys = tuple((new, Column(new)) for new in names.values())
        calls = tuple(map_call(call, lambda expr: substitute(expr, by)) for call in node.calls)
        groups = Aggregate(below, keys, calls)
        joined = Join(self.domain, groups, "left", tuple(names.items()), null_safe=True)
        items = tuple((name, Column(name)) for name in self.names)
        return Project(joined, items + tuple((call.name, empty_value(call)) for call in calls))

    def _union(self, node: UnionAll) -> Node:
        width, inputs = len(node.names), []
        for branch in node.inputs:
            renamed, names = self._renamed(branch)
            shown = branch.columns[:width]
            items = tuple((column, Column(column)) for column in (*shown, *names.values()))
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
    filled = [present(Column(left)) for left, _ in join.on]
    residual = conjunction([*filled, *([join.residual] if join.residual is not None else [])])
    return msgspec.structs.replace(join, on=join.on + pairs, null_safe=True, residual=residual)


def empty_value(aggregate: AggCall) -> Expr:
    """Return an aggregate's column, with 0 instead of null for one that counts."""
    if aggregate.function in ZERO_WHEN_EMPTY:
        return template("coalesce(:n, 0L)", n=Column(aggregate.name))
    return Column(aggregate.name)
