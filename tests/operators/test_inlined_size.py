"""A filter above a chain of computed columns costs what the chain costs, not what it is written out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.operators.inlined_size import list_large_items
from engine.session import Session
from engine.sql.expression.nodes import Column, walk
from engine.sql.expression.substitute import MOST_NODES
from engine.sql.plan import Project, list_nodes
from tests.sql.rewrites.test_chains import THRICE, chain

STEPS = 14
LAST = "SELECT id, x FROM a{n}"


def spark_writes(project: Project) -> dict[str, int]:
    """Return how many nodes the columns of a projection have once Spark has written out all that may be."""
    below = spark_writes(project.input) if isinstance(project.input, Project) else {}
    kept = list_large_items(project)
    return {
        name: 1
        if name in kept
        else sum(below.get(part.name, 1) if isinstance(part, Column) else 1 for part in walk(expr))
        for name, expr in project.items
    }


@pytest.mark.parametrize("step", [THRICE, "x + x", "x + 1", "greatest(x, x, x)"])
def test_what_spark_writes_out_stays_small(step: str) -> None:
    projects = [node for node in list_nodes(chain(step, 40, LAST).plan) if isinstance(node, Project)]
    assert max(size for node in projects for size in spark_writes(node).values()) <= MOST_NODES
    assert step != THRICE or any(map(list_large_items, projects))


def test_an_expression_that_names_no_other_stays_as_it_is() -> None:
    branches = " ".join(f"WHEN x = {n} THEN {n * n}" for n in range(400))
    bound = chain(f"CASE {branches} ELSE x END", 1, LAST)
    assert not any(list_large_items(node) for node in list_nodes(bound.plan) if isinstance(node, Project))


def value(x: int, steps: int) -> int:
    for n in range(1, steps + 1):
        x = x + n if x % 2 == n % 2 else x - 1
    return x


@pytest.mark.long
@pytest.mark.timeout(120)  # without a bound Spark plans such a filter for hours
def test_a_filter_above_a_chain_is_planned(tmp_path: Path, spark: SparkSession) -> None:
    items = "".join(
        f", a{n} AS (SELECT id, {THRICE.format(n=n)} AS x FROM a{n - 1})" for n in range(1, STEPS + 1)
    )
    branches = " ".join(f"WHEN x = {n} THEN 'v{n}'" for n in range(300))
    with_ = f"WITH a0 AS (SELECT id, n AS x FROM e){items}"
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as session:
        session.sql("CREATE TABLE e (id INT PRIMARY KEY, n INT)")
        for name, text in {
            "some": f"{with_} SELECT id, x FROM a{STEPS} WHERE x > 20 AND x IN (SELECT n FROM e)",
            "met": f"{with_} SELECT a.id, e.n FROM a{STEPS} AS a JOIN e ON e.n = a.x WHERE a.x > 0",
            "told": f"{with_}, b AS (SELECT id, CASE {branches} ELSE 'none' END AS c FROM a{STEPS}) "
            "SELECT id, c FROM b WHERE c <> 'v20'",
        }.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}", build=False)
        for first in (0, 40):
            session.sql("INSERT INTO e VALUES " + ", ".join(f"({n}, {n})" for n in range(first, first + 40)))
            session.flush().raise_for_errors()
            there = {n: value(n, STEPS) for n in range(first + 40)}
            found = {
                name: sorted(tuple(row.values()) for row in session.sql(f"SELECT * FROM {name}").to_pylist())  # type: ignore[union-attr]
                for name in ("some", "met", "told")
            }
            assert found["some"] == sorted((n, x) for n, x in there.items() if x > 20 and x in there)
            assert found["met"] == sorted((n, x) for n, x in there.items() if x > 0 and x in there)
            shown = {n: f"v{x}" if 0 <= x < 300 else "none" for n, x in there.items()}
            assert found["told"] == sorted((n, c) for n, c in shown.items() if c != "v20")
