"""Every rule does what the example beside it says: of parsed queries, of plans, and of what the binder builds with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest
import sqlglot.expressions as exp

from engine.sql.bind.binder import BoundQuery, bind, bind_without_rewrites
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.dialect import Dialect
from engine.sql.explain import explain
from engine.sql.rewrites import rules
from engine.sql.rewrites.contract import (
    BindingExample,
    ParsedExample,
    ParsedRule,
    PlanExample,
    PlanRule,
    QueryText,
)
from engine.sql.rewrites.rules import BINDING_RULES, PARSED_RULES, RULES
from engine.sql.statements.ddl.macros import Macro
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog

FOLDER = Path(rules.__file__).parent


def _catalog() -> Catalog:
    """The small catalog, a table with a time, and the function `twice` of a user."""
    macro = Macro((("x", "bigint"),), "bigint", "x * 2")
    options = {"macro": msgspec.json.encode(macro).decode()}
    twice = Relation(name="twice", kind="function", columns=(), options=options)
    stay = Relation(
        name="stay",
        kind="table",
        columns=(
            RelationColumn(name="since", type="timestamp_ntz"),
            RelationColumn(name="guests", type="int"),
        ),
    )
    return Catalog({**small_catalog().relations, "stay": stay, "twice": twice})


def _parsed(query: str, dialect: Dialect) -> exp.Query:
    statement = parse_statement(query, dialect)
    assert isinstance(statement, Select)
    return statement.query


def _bound(query: str, dialect: Dialect) -> BoundQuery:
    return bind_without_rewrites(_parsed(query, dialect), _catalog(), dialect=dialect, sql=query)


def _example(rule: Callable[..., Any]) -> Any:
    return sys.modules[rule.__module__].EXAMPLE


def _calls(run: Callable[[], object]) -> set[CodeType]:
    """Return the code of every function that is called meanwhile."""
    found: set[CodeType] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: found.add(frame.f_code) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("rule", PARSED_RULES)
def test_a_rule_of_parsed_queries_makes_of_its_example_what_it_says(rule: ParsedRule) -> None:
    example = _example(rule)
    assert isinstance(example, ParsedExample)
    tree = _parsed(example.before, example.dialect)
    text = QueryText(_catalog(), example.dialect, example.before)
    assert rule(tree, text).sql(dialect="spark") == example.after


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_plans_makes_of_its_example_what_it_says(rule: PlanRule) -> None:
    example = _example(rule)
    assert isinstance(example, PlanExample)
    bound = _bound(example.sql, example.dialect)
    plan, needed = bound.plan, {internal for _, internal in bound.columns}
    for earlier in RULES[: RULES.index(rule)]:
        plan = earlier(plan, needed)
    assert explain(plan) == example.before.strip()
    assert explain(rule(plan, needed)) == example.after.strip()


@pytest.mark.parametrize("rule", BINDING_RULES, ids=lambda rule: rule.__qualname__)
def test_what_the_binder_builds_with_gives_the_plan_of_its_example(rule: Callable[..., Any]) -> None:
    example = _example(rule)
    assert isinstance(example, BindingExample)
    query, plans = _parsed(example.sql, example.dialect), []
    called = _calls(
        lambda: plans.append(bind(query, _catalog(), dialect=example.dialect, sql=example.sql).plan)
    )
    assert [explain(plan) for plan in plans] == [example.plan.strip()]
    assert rule.__code__ in called


@pytest.mark.parametrize("rule", [*PARSED_RULES, *RULES])
def test_a_rule_stands_in_the_file_of_its_name(rule: ParsedRule | PlanRule) -> None:
    room, _, module = rule.__module__.rpartition(".")
    assert room.startswith("engine.sql.rewrites.") and module == rule.__name__


@pytest.mark.parametrize("rule", [*PARSED_RULES, *BINDING_RULES, *RULES], ids=lambda rule: rule.__qualname__)
def test_the_file_of_a_rule_says_when_it_applies(rule: Callable[..., Any]) -> None:
    assert "\n\nApplies " in (sys.modules[rule.__module__].__doc__ or "")


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_a_file_with_an_example_holds_a_listed_rule(path: Path) -> None:
    listed = {rule.__module__.rpartition(".")[2] for rule in (*PARSED_RULES, *BINDING_RULES, *RULES)}
    assert ("\nEXAMPLE = " in path.read_text()) == (path.stem in listed)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_plans_leaves_what_it_has_made_as_it_is(rule: PlanRule) -> None:
    example = _example(rule)
    bound = _bound(example.sql, example.dialect)
    needed = {internal for _, internal in bound.columns}
    made = rule(bound.plan, needed)
    assert rule(made, needed) == made
