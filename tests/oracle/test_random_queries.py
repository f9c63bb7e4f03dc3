"""Random queries over random rows: a view equals DuckDB's and Spark's batch results after each epoch of random changes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.oracle.batch import duckdb_over
from tests.oracle.random_worlds import EPOCHS, VIEWS, check, world

ALWAYS_CASES = 50
ORACLE_CASES, PARTS = 2_000, 20
SEEDS = 1 << 32
# No shrinking: a failing case is one view of a world already, and each attempt costs seconds of Spark.
AS_DRAWN = settings(
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.function_scoped_fixture, HealthCheck.too_slow),
)


def assert_right(seed: int, spark: SparkSession, epochs: int = EPOCHS) -> None:
    failures = check(world(seed), spark, epochs=epochs)
    assert not failures, "\n" + "\n".join(failures)


def test_random_queries_are_queries_that_duckdb_runs() -> None:
    for seed in range(3):
        made = world(seed)
        with duckdb_over({table.name: table.arrow([]) for table in made.tables}) as connection:
            for query in made.queries:
                connection.sql(query).fetchall()


def test_a_seed_gives_the_same_world_again() -> None:
    assert world(7) == world(7)
    assert world(7) != world(8)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(ALWAYS_CASES // VIEWS))
def test_ten_random_views_equal_batch_results(spark: SparkSession, seed: int) -> None:
    assert_right(seed, spark, epochs=2)


@pytest.mark.oracle
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
@settings(AS_DRAWN, max_examples=ORACLE_CASES // VIEWS // PARTS)
@given(drawn=st.integers(0, SEEDS // PARTS - 1))
def test_two_thousand_random_views_equal_batch_results(spark: SparkSession, part: int, drawn: int) -> None:
    assert_right(part * (SEEDS // PARTS) + drawn, spark)
