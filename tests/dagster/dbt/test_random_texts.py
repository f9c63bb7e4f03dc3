"""Random texts with WITH items, subqueries and names that hide each other: mapped, they mean what they meant."""

from __future__ import annotations

import random

import duckdb
import pytest

from dagster_tideline.dbt.compiled_text import find_dialect, map_relations
from tests.long_rest import mark_rest_long

RELATIONS = {"orders": "orders", "items": "landed_items", "shops": "orders_cte"}
NAMES = (*RELATIONS, "landed_items", "t")


def write_query(made: random.Random, scope: tuple[str, ...], depth: int) -> str:
    """Return a query whose answer depends on which table each of its names means."""
    clause, inner = "", scope
    if depth and made.random() < 0.7:
        items = []
        for name in made.sample(NAMES, made.randrange(1, 3)):
            items.append(f"{name} as ({write_query(made, inner, depth - 1)})")
            inner = (*inner, name)
        clause = f"with {', '.join(items)} "
    first, label = write_source(made, inner, depth, 0)
    second, other = write_source(made, inner, depth, 1)
    text = f"{clause}select sum({label}.a * 3 + {other}.a) as a from {first} cross join {second}"
    if depth and made.random() < 0.4:
        text += f" where {label}.a > (select min(a) - 5 from ({write_query(made, inner, depth - 1)}) as q)"
    if depth and made.random() < 0.3:
        text += f" union all {write_query(made, (), 0)}"
        return f"select sum(a) as a from ({text}) as u"
    return text


def write_source(made: random.Random, scope: tuple[str, ...], depth: int, place: int) -> tuple[str, str]:
    """Return an item of FROM, and what its columns are called by."""
    if depth and made.random() < 0.2:
        return f"({write_query(made, scope, depth - 1)}) as q{place}", f"q{place}"
    alias = f"x{place}"
    if scope and made.random() < 0.6:
        name = made.choice(scope)
        return (name, name) if place == 0 else (f"{name} as {alias}", alias)
    name = made.choice(tuple(RELATIONS))
    labels = (name, f"s.{name}") if place == 0 else ()
    text = f"s.{name}" if place == 0 else f"s.{name} as {alias}"
    return (text, made.choice(labels)) if labels else (text, alias)


@pytest.mark.parametrize("seed", mark_rest_long(range(150), keep=50))
def test_a_mapped_text_has_the_same_answer(seed: int) -> None:
    made = random.Random(seed)
    code = write_query(made, (), 3)
    text = map_relations(
        code, find_dialect("postgres"), lambda parts: RELATIONS[parts[-1]] if len(parts) > 1 else None
    )
    with duckdb.connect() as db:
        db.execute("CREATE SCHEMA s")
        for number, (name, mapped) in enumerate(RELATIONS.items()):
            db.execute(
                f"CREATE TABLE s.{name} AS SELECT (i * 7 + {number * 100})::hugeint AS a FROM range(3) t(i)"
            )
            db.execute(f"CREATE TABLE {mapped} AS SELECT * FROM s.{name}")
        before = _ask(db, code)
        db.execute("DROP SCHEMA s CASCADE")
        assert _ask(db, text) == before, f"{code}\n{text}"


def _ask(db: duckdb.DuckDBPyConnection, text: str) -> object:
    """Return the answer, or that numbers have become too large, which both have to say."""
    try:
        return db.execute(text).fetchall()
    except duckdb.OutOfRangeException:
        return "too large"
