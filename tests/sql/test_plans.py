"""The plans of `plans.txt`: a title, a query with its dialect, and the plan that it is bound to."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sql.bind.binder import bind
from engine.sql.explain import explain
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog

FIXTURE = Path(__file__).with_name("plans.txt")


def blocks() -> list[tuple[str, str, str, str]]:
    """Return (title, dialect, query, plan) of every block."""
    found = []
    for block in FIXTURE.read_text().split("\n# ")[1:]:
        title, _, rest = block.partition("\n")
        head, _, plan = rest.partition("\n=>\n")
        dialect, _, query = head.partition(": ")
        found.append((title.strip(), dialect, query, plan.strip()))
    return found


def bound_plan(query: str, dialect: str) -> str:
    """Return the plan of a query as text, and its columns."""
    statement = parse_statement(query, dialect)
    assert isinstance(statement, Select)
    bound = bind(statement.query, small_catalog(), dialect=dialect, sql=query)
    columns = ", ".join(f"{name} = {internal}" for name, internal in bound.columns)
    rules = "".join(f"\nrule {note}" for note in bound.notes)
    return f"{explain(bound.plan)}{rules}\ncolumns {columns}"


@pytest.mark.parametrize(
    ("title", "dialect", "query", "plan"), blocks(), ids=[title for title, *_ in blocks()]
)
def test_a_query_has_the_plan_that_is_written_for_it(title: str, dialect: str, query: str, plan: str) -> None:
    assert bound_plan(query, dialect) == plan
