"""Chains of WITH items: their size is that of what is written, however often an item reads the columns of the one before."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.expression.nodes import count_nodes, measure_depth
from engine.sql.expression.substitute import MOST_LEVELS, MOST_NODES
from engine.sql.plan import Aggregate, Filter, Join, Project, list_nodes
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog

THRICE = "CASE WHEN x % 2 = {n} % 2 THEN x + {n} ELSE x - 1 END"
STEPS = 40
LAST = "SELECT id, x FROM a{n}"


def chain(step: str, steps: int, last: str = "SELECT id, x FROM a{n}") -> BoundQuery:
    """Bind a chain of WITH items, each of which computes x from the x before it."""
    items = "".join(
        f", a{n} AS (SELECT id, {step.format(n=n)} AS x FROM a{n - 1})" for n in range(1, steps + 1)
    )
    sql = f"WITH a0 AS (SELECT id, price AS x FROM bid){items} {last.format(n=steps)}"
    statement = parse_statement(sql, "postgres")
    assert isinstance(statement, Select)
    return bind(statement.query, small_catalog(), dialect="postgres", sql=sql)


def largest(bound: BoundQuery) -> tuple[int, int]:
    """Return size and depth of the largest expressions of a plan."""
    found = []
    for node in list_nodes(bound.plan):
        if isinstance(node, Project):
            found += [expr for _, expr in node.items]
        elif isinstance(node, Aggregate):
            found += [expr for _, expr in node.keys]
        elif isinstance(node, Filter):
            found.append(node.predicate)
        elif isinstance(node, Join) and node.residual is not None:
            found.append(node.residual)
    return max(map(count_nodes, found)), max(map(measure_depth, found))


@pytest.mark.parametrize(
    ("step", "last"),
    [
        (THRICE, LAST),
        ("x + x", LAST),
        ("x + 1", LAST),
        ("greatest(x, x, x)", LAST),
        (THRICE, f"{LAST} WHERE x > 3 AND x IN (1, 2)"),
        ("x + 1", f"{LAST} WHERE x > 3"),
        (THRICE, "SELECT x, count(*) AS n FROM a{n} WHERE x > 3 GROUP BY x"),
        (THRICE, "SELECT b.id FROM a{n} AS b JOIN auction ON auction.id = b.x WHERE b.x > 7"),
    ],
)
def test_a_chain_is_planned(step: str, last: str) -> None:
    parts, levels = largest(chain(step, STEPS, last))
    assert parts <= 2 * MOST_NODES  # of two conditions
    assert levels <= MOST_LEVELS + 5


def test_a_chain_above_the_aggregate_of_a_subquery_is_planned() -> None:
    items = "".join(f", a{n} AS (SELECT x + x + x AS x FROM a{n - 1})" for n in range(1, 30))
    sql = f"SELECT id, (WITH a0 AS (SELECT max(price) AS x FROM bid){items} SELECT x FROM a29) AS y FROM auction"
    statement = parse_statement(sql, "postgres")
    assert isinstance(statement, Select)
    bound = bind(statement.query, small_catalog(), dialect="postgres", sql=sql)
    assert largest(bound)[0] <= MOST_NODES


def test_steps_that_read_a_column_once_are_one_projection() -> None:
    assert sum(isinstance(node, Project) for node in list_nodes(chain("x + 1", 10).plan)) == 1
