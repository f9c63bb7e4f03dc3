"""How long statements of a session take once it is warm: CREATE MATERIALIZED VIEW, and INSERT, UPDATE, DELETE whose views follow.

`python -m benchmarks.statements [--rounds 15]` prints medians in seconds, for views over an empty table and a small one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine.session import Session

WARM_UP = 4
VIEWS = {
    "filter": "SELECT id, n + 1 AS m FROM {t} WHERE n > 1",
    "groups": "SELECT k, count(*) AS c, sum(n) AS s, max(n) AS m FROM {t} GROUP BY k",
    "join": "SELECT a.id, b.n AS other FROM {t} AS a JOIN {t} AS b ON a.k = b.k",
    "first rows": "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n, id) AS r FROM {t}) AS x WHERE r <= 2",
}
STATEMENTS = {
    "INSERT": "INSERT INTO {t} VALUES ({n}, {n} % 5, {n})",
    "UPDATE": "UPDATE {t} SET n = n + 1 WHERE id = {n}",
    "DELETE": "DELETE FROM {t} WHERE id = {n}",
}


def measure_statement(session: Session, statement: str) -> float:
    """Return the seconds that a statement takes."""
    started = time.perf_counter()
    session.sql(statement)
    return time.perf_counter() - started


def measure_statements(
    session: Session, view: str, table: str, rounds: int
) -> Iterator[tuple[str, list[float]]]:
    """Yield what was done and its seconds, by round, for a kind of view over a table."""
    created = []
    for n in range(rounds):
        created.append(
            measure_statement(session, f"CREATE MATERIALIZED VIEW v{n} AS {VIEWS[view].format(t=table)}")
        )
        if n + 1 < rounds:
            session.sql(f"DROP MATERIALIZED VIEW v{n}")
    yield f"CREATE MATERIALIZED VIEW, {view}", created
    for name, text in STATEMENTS.items():
        found = [measure_statement(session, text.format(t=table, n=1000 + n)) for n in range(rounds)]
        yield f"{name}, {view}", found
    session.sql(f"DROP MATERIALIZED VIEW v{rounds - 1}")


def main() -> None:
    """Run the statements and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds + WARM_UP
    with (
        tempfile.TemporaryDirectory() as folder,
        Session(Path(folder).as_uri(), dialect="risingwave") as session,
    ):
        session.sql("SET rw_implicit_flush TO true")
        for table in ("empty", "small"):
            session.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, k INT, n BIGINT)")
        session.sql("INSERT INTO small SELECT i, i % 5, i FROM generate_series(1, 100) AS g(i)")
        for table in ("empty", "small"):
            for view in VIEWS:
                for what, seconds in measure_statements(session, view, table, rounds):
                    print(f"{statistics.median(seconds[WARM_UP:]):.3f} s  {what}, {table} table", flush=True)


if __name__ == "__main__":
    main()
