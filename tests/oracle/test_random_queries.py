"""Random worlds: whatever their user does, a view holds what its query gives over the rows that were written, by DuckDB and by Spark."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.oracle import timed_worlds
from tests.oracle.judges import Judge
from tests.oracle.model import Model
from tests.oracle.random_changes import ChangeMaker
from tests.oracle.random_worlds import ROUNDS, check, world
from tests.oracle.words import either, spelled

ALWAYS_SEEDS = (2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (4, 6)))
ORACLE_WORLDS, PARTS = 200, 20
SEEDS = 1 << 32
# No shrinking: a failing case is one view of a world already, and each attempt costs seconds of Spark.
AS_DRAWN = settings(
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.function_scoped_fixture, HealthCheck.too_slow),
)


def assert_right(seed: int, spark: SparkSession, rounds: int = ROUNDS) -> None:
    failures = check(world(seed), spark, rounds=rounds)
    assert not failures, "\n" + "\n".join(failures)


def test_a_text_is_told_in_the_words_of_each_engine() -> None:
    text = f"SELECT ⟪T0.1⟫ + {either('a', 'b', 'c', 'd')} AS ⟪=Up⟫ FROM ⟪T0⟫ JOIN ⟪V3⟫"
    names = {"T0": "Orders", "T0.1": "group", "V3": "v_3"}
    assert spelled(text, "spark", names) == "SELECT `group` + a AS `Up` FROM `Orders` JOIN v_3"
    assert spelled(text, "risingwave", names) == 'SELECT "group" + b AS "Up" FROM "Orders" JOIN v_3'
    assert spelled(text, "duckdb", {}) == 'SELECT c1 + c AS "Up" FROM t0 JOIN v3'
    assert spelled(text, "judge", {}) == "SELECT c1 + d AS `Up` FROM t0 JOIN v3"


@pytest.mark.parametrize("seed", range(3))
def test_what_worlds_write_and_ask_is_what_duckdb_runs(seed: int) -> None:
    made = world(seed)
    tables = list(made.tables)
    model = Model(tables)
    maker = ChangeMaker(random.Random(seed), tables, model)
    for number in range(12):
        change = maker.first(tables[number]) if number < len(tables) else maker.change()
        assert model.change(
            change.table, [spelled(text, "duckdb", {}) for text in change.model], change.fresh
        )
        tables[change.table.number] = change.altered or change.table
    judge = Judge(made.views, model.states)
    for view in made.views:
        for at in (0, len(model.states) - 1):
            assert judge.content(view.number, at).num_columns == len(view.query.columns)
    model.close()


def test_a_seed_gives_the_same_world_again() -> None:
    assert world(7) == world(7)
    assert world(7) != world(8)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", ALWAYS_SEEDS)
def test_the_views_of_a_random_world_are_right(spark: SparkSession, seed: int) -> None:
    assert_right(seed, spark, rounds=2)


@pytest.mark.oracle
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
@settings(AS_DRAWN, max_examples=ORACLE_WORLDS // PARTS)
@given(drawn=st.integers(0, SEEDS // PARTS - 1))
def test_the_two_thousand_views_of_random_worlds_are_right(
    spark: SparkSession, part: int, drawn: int
) -> None:
    assert_right(part * (SEEDS // PARTS) + drawn, spark)


@pytest.mark.oracle
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(20))
def test_the_views_of_worlds_in_which_time_passes_are_right(spark: SparkSession, seed: int) -> None:
    failures, _ = timed_worlds.check(seed, spark)
    assert not failures, "\n" + "\n".join(failures)
