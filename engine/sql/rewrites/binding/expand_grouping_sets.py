"""GROUPING SETS, ROLLUP and CUBE: one aggregate for each set, with nulls for the keys that it lacks.

`GROUP BY ROLLUP (a, b)` -> `GROUP BY a, b` UNION ALL `GROUP BY a` UNION ALL the whole

Applies to GROUP BY with several sets while it is bound: GROUPING, HAVING and the SELECT list read the union's columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.expression.nodes import Column, Comparison, Expr, Literal
from engine.sql.expression.template import build_null
from engine.sql.plan import AggCall, Aggregate, Filter, Node, Project
from engine.sql.rewrites.binding.build_full_join import build_union_all
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT auction, note, count(*) AS n FROM bid GROUP BY ROLLUP (auction, note)",
    plan="""
Project [out:auction = `group:bid:auction`, out:note = `group:bid:note`, out:n = `agg:count`, union:branch = `_branch`, union:key0_0 = `_key0_0`, union:key0_1 = `_key0_1`, union:key1_0 = `_key1_0`] key (union:branch, union:key0_0, union:key0_1, union:key1_0) retracting
  UnionAll of 3 key (_branch, _key0_0, _key0_1, _key1_0) retracting
    Project [`group:bid:auction`, `group:bid:note`, `agg:count`] key (group:bid:auction, group:bid:note) retracting
      Aggregate by [group:bid:auction = `bid:auction`, group:bid:note = `bid:note`] calls [count(*)] key (group:bid:auction, group:bid:note) retracting
        Scan bid [id, auction, note] key (bid:id) retracting
    Project [`group:bid:auction`, group:bid:note = CAST(NULL AS STRING), `agg:count`] key (group:bid:auction) retracting
      Aggregate by [group:bid:auction = `bid:auction`] calls [count(*)] key (group:bid:auction) retracting
        Scan bid [id, auction] key (bid:id) retracting
    Project [group:bid:auction = CAST(NULL AS BIGINT), group:bid:note = CAST(NULL AS STRING), `agg:count`] key () retracting
      Filter `agg:rows` > 0 key () retracting
        Aggregate by [] calls [count(*), count(*)] key () retracting
          Scan bid [id] key (bid:id) retracting
""",  # noqa: E501  # a node a line
)

Sets = list[list[exp.Expr]]
_SETS = (exp.Cube, exp.Rollup, exp.GroupingSets)


def read_grouping_sets(group: exp.Group) -> Sets | None:
    """Return the sets of expressions that GROUP BY groups by, or None if it says one plain list."""
    named = [
        part
        for name in ("grouping_sets", "rollup", "cube")
        for part in (group.args.get(name) or ())
        if isinstance(part, exp.Expr)
    ]
    if not named and not any(isinstance(node, _SETS) for node in group.expressions):
        return None
    plain = [_expand_element(node) for node in group.expressions]
    if not named:
        return _multiply_sets(plain)
    [first, *_] = named
    if isinstance(first, exp.GroupingSets):  # Spark: GROUP BY a, b GROUPING SETS (…) lists the keys first
        return _expand_element(first)
    if not first.expressions:  # GROUP BY a, b WITH ROLLUP
        return _expand_element(type(first)(expressions=[node.copy() for node in group.expressions]))
    return _multiply_sets([*plain, *(_expand_element(part) for part in named)])


def _multiply_sets(elements: list[Sets]) -> Sets:
    return [list(itertools.chain(*combination)) for combination in itertools.product(*elements)]


def _expand_element(node: exp.Expr) -> Sets:
    """Return the sets that one element of GROUP BY stands for."""
    match node:
        case exp.Rollup():
            parts = [list_members(part) for part in node.expressions]
            return [list(itertools.chain(*parts[:n])) for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [list_members(part) for part in node.expressions]
            chosen = itertools.product((True, False), repeat=len(parts))
            return [
                [m for part, is_chosen in zip(parts, choice, strict=True) if is_chosen for m in part]
                for choice in chosen
            ]
        case exp.GroupingSets():
            return [found for part in node.expressions for found in _expand_element(part)]
    return [list_members(node)]


def list_members(node: exp.Expr) -> list[exp.Expr]:
    """Return what stands in parentheses, or the one thing that stands without them."""
    node = node.unnest()
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


@dataclass(frozen=True)
class GroupingSets:
    """Which keys each set keeps, by name.

    The column `number` has a bit for each key, the first key's the highest: 1 where the set lacks it. The whole has a row on
    empty input too, unless `empty_whole` is false.
    """

    key_sets: Sequence[set[str]]
    number: str
    empty_whole: bool


def expand_grouping_sets(
    plan: Node,
    named: Sequence[tuple[str, Expr]],
    sets: GroupingSets,
    calls: tuple[AggCall, ...],
    keys: JoinKeys,
) -> Node:
    """Return the groups of every set under the names of keys and calls."""
    number = sets.number
    keys.add_note(f"GROUPING SETS: a UNION ALL of {len(sets.key_sets)} aggregates")
    inputs = []
    rows = keys.fresh("agg:rows")
    for key_set in sets.key_sets:
        own = tuple((name, expr) for name, expr in named if name in key_set)
        below: Node
        if own or sets.empty_whole:
            below = Aggregate(plan, own, calls)
        else:
            counted = Aggregate(plan, (), (*calls, AggCall(rows, "count", ())))
            below = Filter(counted, Comparison(">", Column(rows), Literal("0")))
        bits = sum(1 << (len(named) - 1 - n) for n, (name, _) in enumerate(named) if name not in key_set)
        items = tuple(
            (name, Column(name) if name in key_set else build_null(keys.types.get(name))) for name, _ in named
        )
        inputs.append(
            Project(
                below,
                (*items, (number, Literal(str(bits), "bigint")), *((c.name, Column(c.name)) for c in calls)),
            )
        )
    names = (*(name for name, _ in named), number, *(call.name for call in calls))
    return build_union_all(inputs, names, keys.fresh)
