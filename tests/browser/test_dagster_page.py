"""What people see and click in Dagster: the graph, a run, plots, a failing model, checks, one partition, a backfill."""

from __future__ import annotations

import re

import pytest
from dagster import AssetKey, DagsterRunStatus
from dagster._core.execution.backfill import BulkActionStatus
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENS, WAIT_SECONDS, Served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]
expect.set_options(timeout=WAIT_SECONDS * 1000)


@pytest.fixture
def page(browser_page: Page, served: Served, request: pytest.FixtureRequest) -> Page:
    """The browser's page; the picture of how it looked at the end is kept."""
    request.addfinalizer(
        lambda: browser_page.screenshot(path=SCREENS / f"{request.node.name.removeprefix('test_')}.png")
    )
    return browser_page


def materialized(served: Served, asset: str) -> bool:
    return served.instance.get_latest_materialization_event(AssetKey(asset)) is not None


def test_the_graph_shows_how_a_view_follows_from_its_table(page: Page, served: Served) -> None:
    served.wait_until(lambda: materialized(served, "sales_by_shop"), "the first epoch run")
    page.goto(f"{served.address}/locations/shop/asset-groups/sales")
    for name in ("orders", "sales_by_shop"):
        expect(page.get_by_text(name, exact=True).locator("visible=true").first).to_be_visible()


def test_a_view_is_materialized_by_a_click(page: Page, served: Served) -> None:
    before = {run.run_id for run in served.runs()}
    page.goto(f"{served.address}/assets/sales_by_shop")
    page.get_by_text("Materialize", exact=True).first.click()

    def by_hand() -> list[str]:
        return [
            run.run_id
            for run in served.runs()
            if run.run_id not in before
            and run.asset_selection == {AssetKey("sales_by_shop")}
            and run.status == DagsterRunStatus.SUCCESS
        ]

    served.wait_until(lambda: bool(by_hand()), "a run that a click asked for")
    page.goto(f"{served.address}/runs/{by_hand()[0]}")
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()


def test_the_numbers_of_epochs_are_plotted(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/sales_by_shop")
    page.get_by_text("Plots", exact=True).click()
    for name in ("inserted", "deleted"):
        expect(page.get_by_text(name, exact=True)).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()


def test_a_model_that_fails_is_shown_with_its_error_and_its_place(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/misspelt")
    failed = page.get_by_text(re.compile("^Failed in")).first.inner_text().split()[-1]
    page.screenshot(path=SCREENS / "a_model_that_fails.png")
    page.goto(f"{served.address}/runs/{next(r.run_id for r in served.runs() if r.run_id.startswith(failed))}")
    expect(page.get_by_text("there is no column shopp").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"line 1, column \d+")).first).to_be_visible()


def test_what_is_healthy_does_not_look_failed_beside_it(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/orders")
    expect(page.get_by_text("Latest materialization")).to_be_visible()
    expect(page.get_by_text(re.compile("^Failed in"))).to_have_count(0)


def test_a_check_names_the_partition_that_fails_and_passes_once_it_is_mended(
    page: Page, served: Served
) -> None:
    page.goto(f"{served.address}/assets/takings_by_day?view=checks")
    page.get_by_text("no_partition_in_quarantine").first.click()
    expect(page.get_by_text("DIVIDE_BY_ZERO").first).to_be_visible()
    page.screenshot(path=SCREENS / "a_check_that_fails.png")
    served.land("takings/2.csv", "id,day,cents\n3,wed,2\n")
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()


def test_one_partition_is_computed_again_by_a_click(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/takings_by_day?view=partitions")
    page.get_by_text(re.compile("^Materialize")).first.click()
    page.get_by_text("Select a partition or create one").click()
    page.get_by_text("mon", exact=True).locator("visible=true").last.click()
    page.keyboard.press("Escape")
    page.screenshot(path=SCREENS / "one_partition_is_chosen.png")
    page.get_by_text(re.compile("^Launch (backfill|1 run)$")).click()

    def of_the_partition() -> list[str]:
        return [
            run.run_id
            for run in served.runs()
            if run.status == DagsterRunStatus.SUCCESS and run.tags.get("dagster/partition") == "mon"
        ]

    served.wait_until(lambda: bool(of_the_partition()), "the run of one partition")
    page.goto(f"{served.address}/runs/{of_the_partition()[0]}")
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()


def test_a_backfill_of_all_partitions_shows_how_far_it_is(page: Page, served: Served) -> None:
    served.wait_until(lambda: bool(served.instance.get_dynamic_partitions("takings_by_day")), "a partition")
    page.goto(f"{served.address}/assets/takings_by_day?view=partitions")
    page.get_by_text(re.compile("^Materialize")).first.click()
    page.get_by_text("All", exact=True).locator("visible=true").last.click()
    page.get_by_text("Launch backfill", exact=True).click()

    def ended() -> bool:
        found = served.instance.get_backfills(limit=1)
        return bool(found) and found[0].status == BulkActionStatus.COMPLETED_SUCCESS

    served.wait_until(ended, "the end of the backfill")
    page.goto(f"{served.address}/runs/b/{served.instance.get_backfills(limit=1)[0].backfill_id}")
    expect(page.get_by_text("takings_by_day").locator("visible=true").first).to_be_visible()
    expect(page.get_by_text("Succeeded", exact=True).locator("visible=true").first).to_be_visible()
    expect(page.get_by_text("100% completed")).to_be_visible()
