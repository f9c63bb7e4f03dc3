"""The scans that drive a backfill: those in which the query is linear, the largest where there is a choice."""

from __future__ import annotations

from engine.runtime.backfill.driving_scans import find_driving_scans
from engine.sql.expression.nodes import Column, Literal
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import KeyedRecompute, Lookups, Rule
from engine.sql.plan import Join, Node, Project, Scan, UnionAll, Values

ROWS = {"small": 10, "large": 1000}


def scan(table: str, alias: str = "") -> Scan:
    name = f"{alias or table}:id"
    return Scan(table, ((name, "id"),), ("id",), ("id",))


def names(node: Node, rule: Rule = Lookups()) -> list[str] | None:
    found = find_driving_scans(Fragment("v", rule, node, ("id",), ("id",), ""), lambda table: ROWS[table])
    return None if found is None else [s.table for s in found]


def join(kind: str, left: Node, right: Node) -> Join:
    return Join(left, right, kind, ((left.columns[0], right.columns[0]),))  # type: ignore[arg-type]


def test_the_larger_side_of_an_inner_join_drives() -> None:
    assert names(join("inner", scan("small"), scan("large"))) == ["large"]
    assert names(join("inner", scan("large"), scan("small"))) == ["large"]


def test_only_the_left_side_of_other_joins_drives() -> None:
    for kind in ("left", "semi", "anti"):
        assert names(join(kind, scan("small"), scan("large"))) == ["small"]


def test_every_branch_of_a_union_has_a_driver() -> None:
    branches = tuple(Project(scan(table), (("x", Column(f"{table}:id")),)) for table in ("small", "large"))
    assert names(UnionAll(branches, ("x",))) == ["small", "large"]


def test_a_query_that_is_not_linear_has_none() -> None:
    assert names(scan("small"), KeyedRecompute(("small:id",))) is None
    branches = (Values(("x",), ((Literal("1"),),), "n"), Project(scan("small"), (("x", Column("small:id")),)))
    assert names(UnionAll(branches, ("x",))) is None
