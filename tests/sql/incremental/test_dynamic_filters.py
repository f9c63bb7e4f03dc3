"""Which comparisons with the one row of another query become filters against a bound that moves, and how far from the row it lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.expression.monotone_steps import MonotoneStep
from engine.sql.incremental.incremental_plan import build_incremental_plan
from engine.sql.plan import DynamicFilter, Node, list_children
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import table
from tests.sql.test_state_names import EveryColumnIsWhole

DAY = 86_400_000_000


class EveryColumnIs(EveryColumnIsWhole):
    """Tells one type for every column."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def infer_types(self, node: Node) -> Mapping[str, str]:
        return dict.fromkeys(node.columns, self.kind)


def list_filters(query: str, kind: str) -> list[DynamicFilter]:
    """Return the filters against moving bounds in a query's plan."""
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    catalog = Catalog({"event": table("event", {"id": "bigint", "at": kind}, "id")})
    bound = bind(statement.query, catalog, dialect="spark", sql=query)
    plan = build_incremental_plan("v", bound.plan, bound.columns, EveryColumnIs(kind))
    return [
        node
        for fragment in plan.fragments
        for node in _walk(fragment.plan)
        if isinstance(node, DynamicFilter)
    ]


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in list_children(node):
        yield from _walk(child)


@pytest.mark.parametrize(
    ("condition", "kind", "operator", "shift"),
    [
        ("at > (SELECT max(at) FROM event) - INTERVAL 1 DAY", "timestamp", ">", -DAY),
        ("(SELECT min(at) FROM event) + INTERVAL 2 HOURS > at", "timestamp", "<", DAY // 12),
        ("at - INTERVAL 1 DAY <= (SELECT max(at) FROM event)", "timestamp", "<=", 0),
        ("at >= (SELECT max(at) FROM event) - 7", "date", ">=", -7),
    ],
)
def test_a_bound_may_lie_a_constant_time_away(condition: str, kind: str, operator: str, shift: int) -> None:
    (found,) = list_filters(f"SELECT id FROM event WHERE {condition}", kind)
    assert found.operator == operator
    assert found.bounds[0].steps == ((MonotoneStep("shift", shift),) if shift else ())
    assert found.against is None and not found.steps


@pytest.mark.parametrize(
    ("condition", "kind", "step"),
    [
        ("id > (SELECT max(id) FROM event) - 5", "bigint", MonotoneStep("down", 0)),
        ("at >= (SELECT max(at) FROM event) / 2", "int", MonotoneStep("up", 0)),
        ("at > (SELECT max(at) FROM event)", "decimal(18,4)", MonotoneStep("down", 4)),
        ("(SELECT max(at) FROM event) > at", "decimal(18,0)", MonotoneStep("up", 0)),
        ("at <= 0.5 * (SELECT max(at) FROM event)", "decimal(10,2)", MonotoneStep("down", 2)),
    ],
)
def test_a_bound_may_be_any_number(condition: str, kind: str, step: MonotoneStep) -> None:
    (found,) = list_filters(f"SELECT id FROM event WHERE {condition}", kind)
    assert found.bounds[0].steps == (step,)


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("at > (SELECT max(at) FROM event)", "decimal(19,4)"),
        ("at > (SELECT max(at) FROM event)", "double"),
        ("at > (SELECT max(at) FROM event)", "string"),
        ("at > (SELECT max(at) FROM event) - INTERVAL 1 MONTH", "timestamp"),
        ("at > (SELECT max(at) FROM event) - make_dt_interval(id)", "timestamp"),
        ("at > date_trunc('DAY', (SELECT max(at) FROM event))", "timestamp"),
    ],
)
def test_others_are_tried_against_the_row(condition: str, kind: str) -> None:
    assert not list_filters(f"SELECT id FROM event WHERE {condition}", kind)
