"""A random world: tables, changes as a user writes them, and views over them in one store; and the replay of one of its cases.

`python -m tests.oracle.random_worlds SEED [VIEW …]` runs one world again, or some of its views (and those that they read) alone;
`python -m tests.oracle.random_worlds range FIRST LAST` runs many on one Spark.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tests.oracle.random_rows import RandomTable, random_table
from tests.oracle.random_views import DIALECTS, RandomView, ViewMaker
from tests.oracle.words import Engine

ROUNDS = 3
SIZES = (3_000, 8_000, 20_000)
HUGE = (160_000, 320_000)
"""Beyond the rows up to which an epoch is small, and up to which an index is kept without Spark."""


@dataclass(frozen=True)
class World:
    """What one seed stands for: tables, views, and how many rows come at once into table 0 where sizes matter."""

    seed: int
    dialect: Engine
    tables: tuple[RandomTable, ...]
    views: tuple[RandomView, ...]
    large: int = 0

    def replay(self, view: int | None = None) -> str:
        """The line that runs the world, or one case of it, again."""
        return f"python -m tests.oracle.random_worlds {self.seed}{'' if view is None else f' {view}'}"

    def closure(self, views: Collection[int]) -> tuple[RandomView, ...]:
        """Return some views and those that they read, these first."""
        wanted = set(views)
        for view in reversed(self.views):
            if view.number in wanted:
                wanted.update(view.reads)
        return tuple(view for view in self.views if view.number in wanted)


def world(seed: int) -> World:
    """Return the world of a seed."""
    chance = random.Random(seed)
    dialect = chance.choice(DIALECTS)
    large = chance.choice(HUGE) if seed % 97 == 5 else chance.choice(SIZES) if chance.random() < 0.08 else 0
    tables: list[RandomTable] = []
    for number in range(chance.choice((2, 2, 3))):
        table = random_table(chance, number, dialect)
        while any(table.name == other.name for other in tables):
            table = replace(table, name=f"{table.name}{number}")
        tables.append(table)
    if large:
        first = tables[0]
        tables[0] = replace(first, columns=(("c_0", "bigint"), *first.columns[1:]))
    views = ViewMaker(chance, tables, dialect, bool(large)).roster()
    return World(seed, dialect, tuple(tables), views, large)


def check(
    world: World, spark: SparkSession, views: Collection[int] | None = None, rounds: int = ROUNDS
) -> list[str]:
    """Run a world and return one message per case that went wrong: what, the query, and the line that replays it."""
    from tests.oracle.world_run import WorldRun

    chosen = world.views if views is None else world.closure(views)
    with WorldRun(world, spark, chosen) as run:
        return run.run(rounds)


def main() -> None:
    """Run the worlds, or the cases, that the command line names, and print what went wrong."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    from engine.runtime.spark.session import connect

    many = sys.argv[1] == "range"
    seeds = range(int(sys.argv[2]), int(sys.argv[3])) if many else [int(sys.argv[1])]
    views = None if many or not sys.argv[2:] else [int(text) for text in sys.argv[2:]]
    spark = connect("local[2]")
    spark.sparkContext.setLogLevel("OFF")  # rows that are poison on purpose
    bad = cases = wrong = 0
    for seed in seeds:
        made, began = world(seed), time.monotonic()
        failures = check(made, spark, views)
        cases, wrong, bad = cases + len(made.views), wrong + len(failures), bad + bool(failures)
        for text in failures:
            print(text, flush=True)
        print(
            f"seed {seed}: {len(failures)} of {len(made.views)} cases went wrong, {time.monotonic() - began:.0f} s",
            flush=True,
        )
    print(f"{bad} of {len(seeds)} worlds and {wrong} of {cases} cases went wrong", flush=True)
    spark.stop()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
