"""The project of fifteen views: its tables change as they say, and every view equals Spark's batch after each hour."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.project import (
    WORKLOADS,
    HourCost,
    Project,
    ProjectBatch,
    Workload,
    is_same_bag,
    list_bounds,
    run_hours,
    show_views,
)
from benchmarks.shop import DDL, Shop
from benchmarks.shop_views import VIEWS
from benchmarks.tpch import KEYS
from benchmarks.tpch_hours import TpchHours
from engine.session import Session


def test_the_same_seed_gives_the_same_hours() -> None:
    one, other = Shop(0.002), Shop(0.002)
    hours = [[each.rows for each in shop.generate_hour(200)] for shop in (one, other)]
    assert all(mine.equals(yours) for mine, yours in zip(*hours, strict=True))
    assert {each.table for each in one.generate_hour(200)} == set(DDL)


def test_keys_stay_keys_and_lines_have_their_orders_from_hour_to_hour() -> None:
    shop = Shop(0.002)
    for _ in range(3):
        changes = shop.generate_hour(300)
        assert {each.mode for each in changes if each.table == "orders"} == {"upsert", "delete"}
    for table in DDL:
        ids = shop.read(table).column("id")
        assert len(ids.unique()) == len(ids), table
    owners = set(shop.read("order_lines").column("order_id").to_pylist())
    assert owners <= set(shop.read("orders").column("id").to_pylist())


def test_bags_are_the_same_where_every_row_is_there_as_often() -> None:
    rows = pa.table({"a": [1, 2, 2], "b": ["x", None, "y"]})
    assert is_same_bag(rows.take([2, 0, 1]), rows)
    assert not is_same_bag(rows.take([0, 1, 1]), rows)


@pytest.mark.long
def test_views_over_views_equal_the_batch_after_each_hour(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_VERIFY", "0")  # each hour of each view is held against the batch
    views = {name: VIEWS[name] for name in ("stock", "vendor_stock")}
    costs, wrong = _run_project(session, tmp_path, Shop(0.002), views)
    assert wrong == [] and len(costs) == 2
    assert all(cost.fragments and cost.jobs and cost.spark and cost.duckdb for cost in costs)
    assert all(each.way is not None for cost in costs for each in cost.fragments)
    by_view = show_views(costs, dict.fromkeys(views, 1.0))
    assert set(by_view) == set(views)
    assert list_bounds(costs, wrong, WORKLOADS["shop"], by_view)[-1].is_met


def test_tables_of_tpch_go_on_as_their_changes_say() -> None:
    hours, other = TpchHours(0.002), TpchHours(0.002)
    before = {table: hours.read(table) for table in hours.ddl}
    changes, same = hours.generate_hour(300), other.generate_hour(300)
    assert all(mine.rows.equals(yours.rows) for mine, yours in zip(changes, same, strict=True))
    for table, rows in before.items():
        key = list(KEYS[table])
        content = {tuple(row[name] for name in key): row for row in rows.to_pylist()}
        for change in (each for each in changes if each.table == table):
            for row in change.rows.to_pylist():
                at = tuple(row[name] for name in key)
                assert change.mode == "upsert" or (at in content) == (change.mode == "delete")
                if change.mode == "delete":
                    del content[at]
                else:
                    content[at] = row
        assert content == {tuple(row[name] for name in key): row for row in hours.read(table).to_pylist()}
    owners = set(hours.read("lineitem").column("l_orderkey").to_pylist())
    assert owners == set(hours.read("orders").column("o_orderkey").to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("workload", [Shop(0.002), TpchHours(0.005)], ids=["shop", "tpch"])
def test_all_views_equal_the_batch_after_each_hour(
    session: Session, tmp_path: Path, workload: Workload
) -> None:
    assert _run_project(session, tmp_path, workload, workload.views)[1] == []


def _run_project(
    session: Session, folder: Path, workload: Workload, views: Mapping[str, str]
) -> tuple[list[HourCost], list[str]]:
    project = Project(session, workload, views)
    project.load_tables()
    project.create_views()
    return run_hours(project, ProjectBatch(session.computing, folder, workload, views), 2, 200)
