"""Trees are values: equal by structure, stored as they are, and changed by making others."""

from __future__ import annotations

import msgspec
import pytest

from engine.sql.expression.nodes import (
    And,
    Call,
    Case,
    Column,
    Expr,
    Literal,
    annotate,
    children,
    map_children,
    walk,
)
from engine.sql.expression.parser import parse_expression

A, B = Column("a"), Column("b")
TEXTS = [
    "sum(`a`) FILTER (WHERE `b`)",
    "CASE WHEN `a` THEN 1 ELSE 2 END",
    "transform(`xs`, x -> x.`f`[0] + 1L)",
    "mode() WITHIN GROUP (ORDER BY `a` DESC)",
    "TRY_CAST(`a` AS INT) IN (1, NULL) AND NOT `b` LIKE 'x'",
    "struct(`a` AS `x`) IS NULL OR `a` BETWEEN -1 AND 1",
]


def test_what_is_known_of_a_node_tells_no_two_nodes_apart() -> None:
    one, other = (
        annotate(Call("f", (A,)), type="int", position=(3, 4)),
        Call("f", (annotate(A, nullable=False),)),
    )
    assert one == other
    assert hash(one) == hash(other)
    assert (one.type, one.position, other.type) == ("int", (3, 4), None)


def test_nodes_of_another_structure_differ() -> None:
    assert (
        len({Call("f", (A, B)), Call("f", (B, A)), Call("g", (A, B)), Literal("1"), Literal("1", "bigint")})
        == 5
    )


def test_a_node_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        A.name = "b"  # type: ignore[misc]


@pytest.mark.parametrize("text", TEXTS)
def test_a_tree_is_stored_and_read_again_with_what_is_known(text: str) -> None:
    tree = annotate(parse_expression(text), type="boolean", position=(1, 7))
    found = msgspec.json.decode(msgspec.json.encode(tree), type=Expr)
    assert found == tree
    assert found.known.type == "boolean"
    assert found.position == (1, 7)


def test_children_stand_in_the_order_of_the_text() -> None:
    case = Case(((A, Literal("1")), (B, Literal("2"))), Literal("3"))
    assert list(children(case)) == [A, Literal("1"), B, Literal("2"), Literal("3")]
    assert list(walk(And((A, B)))) == [And((A, B)), A, B]


def test_a_node_of_which_no_child_changes_is_the_same_object() -> None:
    tree = parse_expression(TEXTS[1])
    assert map_children(tree, lambda part: part) is tree
