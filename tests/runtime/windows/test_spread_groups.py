"""Touched groups of a small epoch that are computed by a task on each core are what one task would compute.

Floating numbers as groups or in orders are Spark's: then tasks are put together before, each told its share.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.operators import context
from engine.runtime.epoch import prepared_frames
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

VIEWS = {
    "running": "SELECT id, s, sum(n) OVER (PARTITION BY s ORDER BY id ROWS UNBOUNDED PRECEDING) AS total FROM t",
    "near": "SELECT id, s, lag(n) OVER (PARTITION BY s ORDER BY n NULLS FIRST, id) AS p FROM t",
    "totals": "SELECT id, k, sum(n) OVER (PARTITION BY k ORDER BY id) AS total FROM t",
    "best": (
        "SELECT id, s, n FROM (SELECT *, row_number() OVER (PARTITION BY s ORDER BY n DESC NULLS LAST, id) AS r FROM t) AS x "
        "WHERE r <= 2"
    ),
    "beside": "SELECT id, lag(n) OVER (PARTITION BY s, k ORDER BY n NULLS FIRST, id) AS p FROM t",
    "some": (
        "SELECT id, r FROM (SELECT id, n, rank() OVER (PARTITION BY s ORDER BY k, id) AS r FROM t WHERE n IS NOT NULL) AS x "
        "WHERE r < 4"
    ),
}
NUMBERS = (0.0, -0.0, float("nan"), 1.5, None, *map(float, range(2, 12)))


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every small epoch spread."""
    for module in (context, prepared_frames):
        monkeypatch.setattr(module, "SPREAD_ROWS", 1)


def drawn(chance: random.Random, ids: list[int]) -> pa.Table:
    def one(n: int) -> tuple[int, float | None, str | None, int | None]:
        return (
            n,
            chance.choice(NUMBERS),
            chance.choice((None, *"abcdefgh")),
            chance.choice((None, *range(6))),
        )

    columns = zip(*map(one, ids), strict=True)
    kinds = (pa.int64(), pa.float64(), pa.string(), pa.int32())
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["id", "k", "s", "n"])


@pytest.mark.long
@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 2), *(pytest.param(n, 20, marks=pytest.mark.oracle) for n in range(2, 5))]
)
def test_views_equal_duckdb_after_random_changes(session: Session, seed: int, steps: int) -> None:
    session.dialect = "postgres"
    chance = random.Random(seed)
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k DOUBLE PRECISION, s TEXT, n INT)")
    session.write("t", drawn(chance, list(range(60))))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    session.flush().raise_for_errors()
    for step in range(steps):
        session.write("t", drawn(chance, chance.sample(range(80), 12)))
        gone = chance.sample(range(80), 4)
        session.write("t", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
        session.flush().raise_for_errors()
        rows = {"t": content(session, "t")}
        for name, query in VIEWS.items():
            assert_equal(content(session, name), by_duckdb(rows, query), f"{name}, seed {seed}, step {step}")
    tables = session.store.refresh().tables
    assert {len(tables[name].log[-1].ssts) for name in ("running", "near", "_state_best_1")} == {2}
