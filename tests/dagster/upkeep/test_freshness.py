"""Freshness: how far behind views are and why, what is too far, and the overview of all domains."""

from __future__ import annotations

import pytest

from dagster_tideline.upkeep.freshness import FRESHNESS, FreshnessConfig, find_lags
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.epochs.time_boundary import load_present
from tests.dagster.conftest import Project, failure

FAILING = "CREATE MATERIALIZED VIEW halves AS SELECT shop, assert_true(max(price) < 50) AS ok FROM orders GROUP BY shop"


@pytest.fixture
def current(project: Project) -> Project:
    """A project whose views have all that was written."""
    project.land("1.csv", "id,shop,price\n1,a,10\n2,b,30\n")
    assert project.run().success
    return project


def test_current_views_are_fresh(current: Project) -> None:
    assert current.maintain(FRESHNESS, {"max_lag_seconds": 0.001}).success
    report = current.read_metadata("tideline_freshness")
    assert (report["views"], report["views_lagging"], report["views_late_or_stuck"]) == (2, 0, 0)
    assert report["oldest_lag_seconds"] == 0 and "lags" not in report


def test_a_view_that_lags_too_far_is_named_with_its_reason_and_the_numbers_are_told_all_the_same(
    current: Project,
) -> None:
    current.session.sql("INSERT INTO orders VALUES (7, 'a', 1)")
    assert current.maintain(FRESHNESS).success  # it lags, but not for long
    assert current.read_metadata("tideline_freshness")["views_lagging"] == 2
    result = current.maintain(FRESHNESS, {"max_lag_seconds": 0.001})
    assert not result.success
    text = failure(result)
    assert "totals: lags by" in text and "the next run does it" in text and "large: lags by" in text
    report = current.read_metadata("tideline_freshness")
    assert (report["views_lagging"], report["views_late_or_stuck"]) == (2, 2)
    assert report["oldest_lag_seconds"] >= 0 and "| totals |" in report["lags"]
    assert current.read_metadata("tideline_overview")["views_lagging"] == 2
    current.session.flush()
    assert current.maintain(FRESHNESS, {"max_lag_seconds": 0.001}).success


def test_a_view_that_rests_by_its_own_option_may_lag(current: Project) -> None:
    current.model(
        "shop/rare.sql",
        "CREATE MATERIALIZED VIEW rare WITH (refresh = 'manual') AS SELECT count(*) AS n FROM orders",
    )
    current.run()
    current.session.sql("INSERT INTO orders VALUES (7, 'a', 1)")
    current.session.flush()
    assert "rare" in current.session.lagging()
    assert current.maintain(FRESHNESS, {"max_lag_seconds": 0.001}).success
    assert "| rare |" in current.read_metadata("tideline_freshness")["lags"]


def test_a_paused_view_that_lags_is_named(current: Project) -> None:
    current.session.pause("totals")
    current.session.flush()
    current.session.sql("INSERT INTO orders VALUES (7, 'a', 1)")
    result = current.maintain(FRESHNESS, {"max_lag_seconds": 0.001})
    assert not result.success and "totals: lags by" in failure(result) and "paused" in failure(result)


def test_what_fails_is_stuck_after_a_while_and_in_the_overview_at_once(current: Project) -> None:
    current.session.sql(FAILING)
    current.session.sql("INSERT INTO orders VALUES (9, 'a', 90)")
    assert current.session.flush().failed
    assert current.maintain(FRESHNESS).success
    overview = current.read_metadata("tideline_overview")
    assert (overview["views"], overview["views_failing"]) == (3, 1)
    (row,) = [line for line in overview["domains"].splitlines() if line.startswith("| halves |")]
    assert "| orders | failed |" in row
    result = current.maintain(FRESHNESS, {"stuck_seconds": 0.001})
    assert not result.success and failure(result).startswith("halves: is stuck (failed) for")
    assert current.read_metadata("tideline_freshness")["longest_stuck_seconds"] >= 0


def test_the_overview_tells_where_each_domain_stands_and_what_its_last_epochs_took(current: Project) -> None:
    current.maintain(FRESHNESS)
    report = current.read_metadata("tideline_overview")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report["domains"].splitlines()]
    header, totals, large = rows[0], rows[2], rows[3]
    assert totals[:3] == ["totals", "orders", "current"] and large[:3] == ["large", "totals", "current"]
    by_name = dict(zip(header, totals, strict=True))
    assert by_name["lag in s"] == "0.0" and by_name["epochs"] == "1" and float(by_name["seconds"]) > 0
    assert int(by_name["rows in"]) == current.read_metadata("totals")["rows_in"] == 2
    tables = current.session.store.refresh().tables.values()
    assert report["files"] == sum(table.file_count for table in tables)
    assert report["state_bytes"] == sum(table.size_bytes for table in tables) > 0
    assert report["log_bytes"] > 0 and report["oldest_lag_seconds"] == 0


def test_lags_are_in_order_and_a_store_without_views_has_none(project: Project) -> None:
    store = project.session.store
    version, stored = load_present(store, store.clock())
    assert find_lags(version, stored, store.clock()) == ()
    project.run()
    project.session.sql("INSERT INTO orders VALUES (7, 'a', 1)")
    version = store.refresh()
    found = find_lags(version, load_catalog(version), store.clock() + 60)
    assert {lag.view for lag in found} == {"totals", "large"}
    assert all(lag.seconds >= 60 for lag in found)
    assert all(lag.find_complaint(FreshnessConfig(max_lag_seconds=3600)) is None for lag in found)
    assert all(lag.find_complaint(FreshnessConfig(max_lag_seconds=30)) is not None for lag in found)
