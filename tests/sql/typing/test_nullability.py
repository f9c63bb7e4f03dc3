"""Columns that are certainly without nulls: what NOT IN is planned by, and no claim is checked for below a view's own columns."""

from __future__ import annotations

import pytest

from engine.sql.expression.nodes import Call, Column, Literal
from engine.sql.plan import (
    AggCall,
    Aggregate,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    UnionAll,
    Unnest,
)
from engine.sql.typing.nullability import is_never_null
from engine.sql.window_calls import WindowCall

LEFT = Scan("t", (("l:id", "id"), ("l:v", "v")), ("id",), ("id",))
RIGHT = Scan("u", (("r:id", "id"), ("r:v", "v")), ("id",), ("id",))
KNOWN = {"l:id", "r:id"}
ON = (("l:id", "r:id"),)


@pytest.mark.parametrize(
    ("node", "column", "expected"),
    [
        (LEFT, "l:id", True),
        (LEFT, "l:v", False),
        (Filter(LEFT, Column("l:v")), "l:id", True),
        (Join(LEFT, RIGHT, "inner", ON), "r:id", True),
        (Join(LEFT, RIGHT, "left", ON), "l:id", True),
        (Join(LEFT, RIGHT, "left", ON), "r:id", False),
        (Project(Join(LEFT, RIGHT, "left", ON), (("x", Column("r:id")),)), "x", False),
        (Project(LEFT, (("x", Literal("1")),)), "x", False),
        (Unnest(LEFT, Column("l:v"), "item", "ordinal"), "item", False),
        (Unnest(LEFT, Column("l:v"), "item", "ordinal", outer=True), "l:id", True),
        (Aggregate(LEFT, (("k", Column("l:v")),), (AggCall("m", "max", (Column("l:id"),)),)), "k", False),
        (Aggregate(LEFT, (("k", Column("l:id")),), (AggCall("m", "max", (Column("l:id"),)),)), "k", True),
        (Aggregate(LEFT, (), (AggCall("m", "max", (Column("l:id"),)),)), "m", False),
        (Aggregate(LEFT, (), (AggCall("n", "count"),)), "n", True),
        (Over(LEFT, ("l:v",), (WindowCall("n", Call("lag", (Column("l:id"),))),)), "l:id", True),
        (Over(LEFT, ("l:v",), (WindowCall("n", Call("lag", (Column("l:id"),))),)), "n", False),
        (UnionAll((LEFT, RIGHT), ("a", "b")), "a", True),
        (UnionAll((LEFT, Project(RIGHT, (("x", Column("r:v")),))), ("a",)), "a", False),
    ],
)
def test_a_column_is_certain_only_where_no_operator_adds_nulls(
    node: Node, column: str, expected: bool
) -> None:
    assert is_never_null(node, column, KNOWN) is expected
