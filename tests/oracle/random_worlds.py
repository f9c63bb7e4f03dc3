"""A random world: tables, epochs and several queries over them as views of one store; and the replay of one of its cases.

`python -m tests.oracle.random_worlds SEED [VIEW]` runs one world again, or one of its views alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from duckdb import DuckDBPyConnection
from pyarrow import Table
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import Session
from tests.oracle.batch import assert_equal, content, duckdb_over
from tests.oracle.random_queries import QueryMaker
from tests.oracle.random_rows import KINDS, Epoch, RandomTable, random_epochs

VIEWS = 10
EPOCHS = 4
RULES = ("fast", "reference")


@dataclass(frozen=True)
class World:
    """What one seed stands for."""

    seed: int
    tables: tuple[RandomTable, ...]
    epochs: tuple[Epoch, ...]
    queries: tuple[str, ...]

    def replay(self, view: int) -> str:
        """The line that runs one case again."""
        return f"python -m tests.oracle.random_worlds {self.seed} {view}"


def world(seed: int) -> World:
    """Return the world of a seed."""
    chance = random.Random(seed)
    tables = []
    for number in range(chance.choice((2, 2, 3))):
        kinds = [chance.choice(KINDS) for _ in range(chance.randrange(2, 5))]
        tables.append(RandomTable(f"t{number}", tuple((f"c{n}", kind) for n, kind in enumerate(kinds))))
    epochs = random_epochs(chance, tables, EPOCHS)
    maker = QueryMaker(chance, tables)
    queries = tuple(maker.query().text for _ in range(VIEWS))
    return World(seed, tuple(tables), tuple(epochs), queries)


def check(
    world: World, spark: SparkSession, views: Iterator[int] | None = None, *, by_spark: bool = False
) -> list[str]:
    """Run a world and return one message per case that went wrong: what, the query, and the line that replays it.

    Each query is kept by the fast rules and by the reference rule; both are compared with DuckDB after each epoch, and
    with `by_spark` with a batch run on Spark at the end.
    """
    failures: dict[int, str] = {}
    chosen = list(range(len(world.queries)) if views is None else views)
    with (
        tempfile.TemporaryDirectory(prefix="tideline-oracle-") as folder,
        Session((Path(folder) / "store").as_uri(), spark, dialect="postgres") as session,
    ):
        for table in world.tables:
            session.sql(table.ddl)
        for number, epoch in enumerate(world.epochs):
            _write(session, world, epoch)
            if number == 0:  # views over rows that are there already
                for view in chosen:
                    _create(session, world, view, failures)
            for report in session.flush().failed:
                failures.setdefault(_view_number(report.view), f"epoch {number}: {report.error}")
            tables = {table.name: content(session, table.name) for table in world.tables}
            with duckdb_over(tables) as judge:
                for view in (v for v in chosen if v not in failures):
                    _compare(session, judge, world, view, f"epoch {number}", failures)
        if by_spark:
            for view in (v for v in chosen if v not in failures):
                _compare_spark(session, world, view, failures)
    return [
        f"{text}\n  query: {world.queries[view]}\n  replay: {world.replay(view)}"
        for view, text in failures.items()
    ]


def _write(session: Session, world: World, epoch: Epoch) -> None:
    by_name = {table.name: table for table in world.tables}
    for write in epoch:
        table = by_name[write.table]
        if write.deletes:
            keys = Table.from_pydict({"id": write.deletes})
            session.write(table.name, keys, mode="delete")
        else:
            session.write(table.name, table.arrow(write.rows))


def _names(view: int) -> tuple[tuple[str, str], ...]:
    return tuple((f"{rules}_{view}", rules) for rules in RULES)


def _view_number(name: str) -> int:
    return int(name.rsplit("_", 1)[1])


def _create(session: Session, world: World, view: int, failures: dict[int, str]) -> None:
    for name, rules in _names(view):
        try:
            options = "" if rules == "fast" else f"WITH (rules = '{rules}') "
            session.sql(f"CREATE MATERIALIZED VIEW {name} {options}AS {world.queries[view]}", build=False)
        except TidelineError as error:
            failures.setdefault(view, f"{rules} rules: {type(error).__name__}: {error}")


def _compare(
    session: Session,
    judge: DuckDBPyConnection,
    world: World,
    view: int,
    label: str,
    failures: dict[int, str],
) -> None:
    expected = judge.sql(world.queries[view]).to_arrow_table()
    for name, rules in _names(view):
        try:
            assert_equal(content(session, name), expected, f"{label}, {rules} rules against DuckDB")
        except (AssertionError, TidelineError) as error:
            failures.setdefault(view, str(error))


def _compare_spark(session: Session, world: World, view: int, failures: dict[int, str]) -> None:
    try:
        expected = session.sql(world.queries[view])
        assert expected is not None
        assert_equal(content(session, _names(view)[0][0]), expected, "fast rules against Spark")
    except (AssertionError, TidelineError) as error:
        failures.setdefault(view, str(error))


def main() -> None:
    """Run the world, or the case, that the command line names, and print what went wrong."""
    from engine.runtime.spark import connect

    seed, views = int(sys.argv[1]), [int(text) for text in sys.argv[2:]]
    made = world(seed)
    spark = connect("local[2]")
    failures = check(made, spark, iter(views) if views else None, by_spark=True)
    spark.stop()
    for text in failures:
        print(text)
    print(f"{len(failures)} of {len(views) or len(made.queries)} cases went wrong")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
