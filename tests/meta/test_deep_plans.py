"""Plans of deep expressions: what is stored can be read by a caller that stands deep itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import UnsupportedSql
from engine.meta.catalog.plan_upgrade import PLANS, decode_plan
from engine.meta.catalog.stored_catalog import MOST_NESTED, encode_entries
from engine.sql.expression.nodes import Call, Case, Column, Comparison, Expr, Literal
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.plan import Project, Scan


def _calls(depth: int) -> Expr:
    found: Expr = Column("x")
    for _ in range(depth):
        found = Call("abs", (found,))
    return found


def _cases(depth: int) -> Expr:
    found: Expr = Column("x")
    for _ in range(depth):
        found = Case(((Comparison(">", Column("x"), Literal("1")), found),), Literal("0"))
    return found


def _text(expr: Expr) -> str:
    """Return the entry of the catalog that holds a view over this expression; raises what storing it raises."""
    scan = Scan("t", (("id", "id"), ("x", "x")), ("id",), ("id",))
    plan = Project(scan, (("id", Column("id")), ("y", expr)))
    fragment = Fragment("v", "linear", plan, ("id",), ("id",), "why")
    found = encode_entries({}, {"v": IncrementalPlan("v", (fragment,))})[PLANS.key("v")]
    assert found is not None
    return found


def _deepest(build: Callable[[int], Expr]) -> str:
    found = None
    for depth in range(1, 400):
        try:
            found = _text(build(depth))
        except UnsupportedSql:
            break
    assert found is not None
    return found


def _below(frames: int, text: str) -> IncrementalPlan:
    if frames:
        return _below(frames - 1, text)
    return decode_plan(text)  # without what this process remembers


@pytest.mark.parametrize("build", [_calls, _cases])
def test_the_deepest_plan_that_is_stored_is_read_below_500_further_frames(
    build: Callable[[int], Expr],
) -> None:
    assert _below(500, _deepest(build)).view == "v"


@pytest.mark.parametrize("build", [_calls, _cases])
def test_ninety_levels_are_stored_and_three_hundred_are_refused(build: Callable[[int], Expr]) -> None:
    assert _text(build(90))
    with pytest.raises(UnsupportedSql, match="nested too deeply") as raised:
        _text(build(300))
    assert "materialized views of the inner parts" in raised.value.hint


def test_brackets_in_texts_nest_nothing() -> None:
    assert _text(Literal("[{" * MOST_NESTED + '\\"', "string"))
