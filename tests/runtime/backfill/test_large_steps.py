"""Large steps of a backfill run the batch plan over their piece; what they add up to equals a batch run."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from engine.operators import context, spread
from engine.operators.context import EpochContext
from engine.operators.lookups import scan
from engine.operators.lookups.scan import ReadTable
from engine.operators.spread import Pack
from engine.runtime import executor
from engine.runtime.backfill import run as backfill_run
from engine.runtime.epoch import epoch_run, spark_executor
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session
from engine.sql.plan import list_scans
from tests.oracle.batch import assert_equal, by_duckdb, content

ROWS = 1200
VIEWS = {
    "plain": "SELECT id, price * 2 AS p FROM sale WHERE price % 3 <> 0",
    "by_shop": "SELECT shop, count(*) AS n, sum(price) AS total FROM sale GROUP BY shop",
    "largest": "SELECT shop, max(price) AS top FROM sale GROUP BY shop",
    "means": "SELECT price % 5 AS p, avg(price) AS mean, count(DISTINCT shop) AS shops FROM sale GROUP BY price % 5",
    "total": "SELECT count(*) AS n, sum(price) AS s FROM sale WHERE price > 10",
    "named": "SELECT s.id, s.price, shop.name FROM sale s LEFT JOIN shop ON s.shop = shop.id",
    "by_name": "SELECT shop.name, sum(s.price) AS s FROM shop JOIN sale s ON s.shop = shop.id GROUP BY shop.name",
    "known": "SELECT id FROM sale WHERE shop IN (SELECT id FROM shop WHERE name <> 'shop 3')",
    "unknown": "SELECT id FROM sale WHERE NOT EXISTS (SELECT 1 FROM shop WHERE shop.id = sale.shop)",
    "both": "SELECT id AS x, price AS y FROM sale UNION ALL SELECT id AS x, 0 AS y FROM shop",
    "of_union": "SELECT y, count(*) AS n FROM (SELECT id AS x, price AS y FROM sale UNION ALL SELECT id, 7 FROM shop) u GROUP BY y",
}

OF_STATES = ("largest", "means")
"""Views that are mostly computed from states of their own, which are small."""


class TaskRecorder:
    """Passes tasks on; keeps them."""

    def __init__(self, inner: executor.Executor) -> None:
        self.inner, self.tasks = inner, list[FragmentTask]()

    @property
    def parallelism(self) -> int:
        return self.inner.parallelism

    def compute(self, task: FragmentTask) -> TaskResult:
        self.tasks.append(task)
        return self.inner.compute(task)


@pytest.fixture
def large(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session to which every step is a large one, over a table that it builds views of step by step."""
    for module in (context, executor, backfill_run):
        monkeypatch.setattr(module, "SMALL_CHANGE_ROWS", 2)
    session._runner.backfill.least_rows = 100
    chance = np.random.default_rng(3)
    ids = np.arange(ROWS)
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
    session.sql("CREATE TABLE shop (id BIGINT PRIMARY KEY, name STRING)")
    session.write("sale", pa.table({"id": ids, "shop": ids % 40, "price": chance.integers(0, 100, ROWS)}))
    session.write("shop", pa.table({"id": list(range(30)), "name": [f"shop {i % 7}" for i in range(30)]}))
    return session


def record_tasks(session: Session) -> list[FragmentTask]:
    found = TaskRecorder(session._runner.executor)
    session._runner.executor = session._runner.backfill.executor = found  # type: ignore[assignment]
    return found.tasks


def check(session: Session) -> None:
    tables = {name: content(session, name) for name in ("sale", "shop")}
    for name, query in VIEWS.items():
        assert_equal(content(session, name), by_duckdb(tables, query), name)


@pytest.mark.long
def test_views_of_large_steps_equal_a_batch_run_and_go_on_from_the_log(
    large: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_batch: Counter[str] = Counter()
    step_content = epoch_run.compute_step_content

    def record_table(fragment, given):  # type: ignore[no-untyped-def]
        by_batch[fragment.table] += 1
        return step_content(fragment, given)

    monkeypatch.setattr(epoch_run, "compute_step_content", record_table)
    for name, query in VIEWS.items():
        large.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        large._runner.backfill.get_pace(name).rows = 450
    large.flush().raise_for_errors()
    assert all(by_batch[name] >= 2 for name in VIEWS if name not in OF_STATES), by_batch
    check(large)
    large.write("sale", pa.table({"id": [1, 2, ROWS], "shop": [3, 39, 3], "price": [1, 500, 7]}))
    large.write("sale", pa.table({"id": list(range(50, 90))}), mode="delete")
    large.write("shop", pa.table({"id": [3, 35], "name": ["other", "shop 3"]}))
    large.flush().raise_for_errors()
    check(large)


def test_a_backfill_of_one_step_computes_the_whole_at_once(large: Session) -> None:
    tasks = record_tasks(large)
    large.sql(f"CREATE MATERIALIZED VIEW by_shop AS {VIEWS['by_shop']}")
    assert [(t.fragment.table, t.piece, t.old) for t in tasks if t.fragment.table == "by_shop"] == [
        ("by_shop", None, None)
    ]
    assert large.backfills()["by_shop"].rows == ROWS


def test_a_step_that_is_small_beside_what_it_is_joined_with_looks_up(large: Session) -> None:
    large.sql(f"CREATE MATERIALIZED VIEW named AS {VIEWS['named']}", build=False)
    (fragment,) = large.stored.plans["named"].fragments
    scan = list_scans(fragment.plan)[0]
    tables = large.store.refresh().tables
    for rows, batch in ((10, False), (15, True)):
        given = EpochContext(large.spark, "", {}, tables, 1, 1, 1, rows, piece=(scan, (0, 1)))
        assert epoch_run.is_batch_step(fragment, given) is batch


def test_an_index_is_built_of_rows_that_are_read_once_and_move_packed(
    large: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_executor, "COPIED_ROWS", 0)
    plans: list[str] = []
    bodies: list[Pack | ReadTable] = []
    large.sql("CREATE INDEX sale_by_shop ON sale (shop)", build=False)
    runner = large._runner.executor
    build = runner._build_action  # type: ignore[attr-defined]

    def record_bodies(kind: type[Pack] | type[ReadTable]):  # type: ignore[no-untyped-def]
        def made(*given, **named):  # type: ignore[no-untyped-def]
            bodies.append(kind(*given, **named))
            return bodies[-1]

        return made

    monkeypatch.setattr(spread, "Pack", record_bodies(Pack))
    monkeypatch.setattr(scan, "ReadTable", record_bodies(ReadTable))

    def record_plan(task, **given):  # type: ignore[no-untyped-def]
        made = build(task, **given)
        plans.append(made.flow.frame._jdf.queryExecution().executedPlan().toString())
        return made

    runner._build_action = record_plan  # type: ignore[attr-defined]
    large.flush().raise_for_errors()
    assert len(plans) == 1 and plans[0].count("Exchange") == 1 and "_packed" in plans[0], plans
    assert [body.parts for body in bodies] == [2, 2], "each task reads its part of the rows"
    index = large.store.refresh().tables["_index_sale__shop"]
    assert index.row_count == ROWS
    assert large.sql("SELECT id FROM sale WHERE shop = 7").num_rows == ROWS // 40  # type: ignore[union-attr]


def test_views_that_are_built_step_by_step_come_after_the_running_ones(large: Session) -> None:
    large.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM sale")
    large.write("sale", pa.table({"id": [ROWS], "shop": [1], "price": [1]}))
    large.sql(f"CREATE MATERIALIZED VIEW plain AS {VIEWS['plain']}", build=False)
    tasks = record_tasks(large)
    large.flush().raise_for_errors()
    assert [task.fragment.table for task in tasks] == ["total", "plain"]
