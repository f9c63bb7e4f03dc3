"""The project of fifteen views: its tables change as they say, and every view equals Spark's batch after each hour."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.project import HourCost, Project, ProjectBatch, is_same_bag, list_bounds, run_hours
from benchmarks.shop import DDL, Shop
from benchmarks.shop_views import VIEWS
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


def test_views_over_views_equal_the_batch_after_each_hour(session: Session, tmp_path: Path) -> None:
    views = {name: VIEWS[name] for name in ("stock", "vendor_stock")}
    costs, wrong = _run_project(session, tmp_path, views)
    assert wrong == [] and len(costs) == 2
    assert all(cost.fragments and cost.jobs and cost.spark and cost.duckdb for cost in costs)
    assert list_bounds(costs, wrong)[-1].is_met


@pytest.mark.long
def test_all_views_equal_the_batch_after_each_hour(session: Session, tmp_path: Path) -> None:
    assert len(VIEWS) == 15
    assert _run_project(session, tmp_path, VIEWS)[1] == []


def _run_project(
    session: Session, folder: Path, views: Mapping[str, str]
) -> tuple[list[HourCost], list[str]]:
    project = Project(session, Shop(0.002), views)
    project.load_tables()
    project.create_views()
    return run_hours(project, ProjectBatch(session.computing, folder, views), 2, 200)
