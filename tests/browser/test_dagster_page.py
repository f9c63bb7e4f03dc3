"""What people see and click in Dagster: the graph, a run, plots, a failing model, checks, one partition, a backfill."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.conftest import SCREENS, WAIT_SECONDS, Served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]
expect.set_options(timeout=WAIT_SECONDS * 1000)


@pytest.fixture
def page(browser_page: Page, served: Served, request: pytest.FixtureRequest) -> Page:
    """The browser's page; the picture of how it looked at the end is kept."""
    request.addfinalizer(lambda: picture(browser_page, request.node.name.removeprefix("test_")))
    return browser_page


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page once nothing of it is still being loaded."""
    expect(page.get_by_text(re.compile("^Loading")).locator("visible=true")).to_have_count(0)
    expect(page.locator(".bp5-spinner, [class*=Spinner]").locator("visible=true")).to_have_count(0)
    page.screenshot(path=SCREENS / f"{name}.png")


_LAUNCHES = re.compile(r'"operationName":\s*"Launch(PipelineExecution|MultipleRuns|PartitionBackfill)"')


def _launches(request: Request) -> bool:
    return _LAUNCHES.search(request.post_data or "") is not None


def launched(page: Page, button: Locator, name: str = "id|runId") -> str:
    """Click what launches something, and return the id that Dagster answers with."""
    with page.expect_response(lambda answer: _launches(answer.request)) as answered:
        button.click()
    found = re.search(rf'"(?:{name})":\s*"([0-9a-z-]{{8,}})"', answered.value.text())
    assert found is not None, answered.value.text()
    return found[1]


def test_the_graph_shows_how_a_view_follows_from_its_table(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/runs")
    expect(page.get_by_text(re.compile("^(Success|Failure)$")).first).to_be_visible()
    page.goto(f"{served.address}/locations/shop/asset-groups/sales")
    for name in ("orders", "sales_by_shop"):
        expect(page.get_by_text(name, exact=True).locator("visible=true").first).to_be_visible()


def test_a_view_is_materialized_by_a_click(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/sales_by_shop")
    run = launched(page, page.get_by_text("Materialize", exact=True).first)
    page.goto(f"{served.address}/runs/{run}")
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
    expect(page.get_by_text(re.compile(r"^\d+/\d+/\d{4}$")).first).to_be_visible()  # below its history
    picture(page, "a_model_that_fails")
    page.goto(f"{served.address}/runs/{served.run(failed).run_id}")
    expect(page.get_by_text("there is no column shopp").first).to_be_visible()
    expect(page.get_by_text("line 7, column 45").first).to_be_visible()  # of the file


def test_what_is_healthy_does_not_look_failed_beside_it(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/orders")
    expect(page.get_by_text("Latest materialization")).to_be_visible()
    expect(page.get_by_text(re.compile("^Failed in"))).to_have_count(0)


def shown(page: Page, check: str, result: str, *texts: str) -> None:
    """Expect how a check came out that is chosen by a click, and what is told of it."""
    page.get_by_text(check, exact=True).first.click()
    for text in (rf"Evaluation result\s+{result}\s", *texts):
        expect(page.locator("body")).to_contain_text(re.compile(text), use_inner_text=True)


def test_checks_that_fail_name_their_rows_and_tell_what_stops_the_view(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/takings_seen?view=checks")
    shown(page, "small", "Failed", r"stops\s+no\s", r"rows\s+1\s", "1 row: id = 1")
    shown(page, "positive", "Failed", r"stops\s+yes\s", r"rows\s+1\s", "1 row: id = 3")


def test_a_check_names_the_partition_that_fails_and_passes_once_it_is_mended(
    page: Page, served: Served
) -> None:
    page.goto(f"{served.address}/assets/takings_by_day?view=checks")
    page.get_by_text("no_partition_in_quarantine").first.click()
    expect(page.get_by_text("DIVIDE_BY_ZERO").first).to_be_visible()
    picture(page, "a_check_that_fails")
    served.land("takings/2.csv", "id,day,cents\n3,wed,2\n")
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()


def test_a_check_passes_again_beside_one_that_only_warns(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/takings_seen?view=checks")
    shown(page, "positive", "Passed", r"rows\s+0\s")
    shown(page, "small", "Failed", r"stops\s+no\s", "1 row: id = 1")


def test_one_partition_is_computed_again_by_a_click(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/takings_by_day?view=partitions")
    page.get_by_text(re.compile("^Materialize")).first.click()
    page.get_by_text("Select a partition or create one").click()
    page.get_by_text("mon", exact=True).locator("visible=true").last.click()
    page.keyboard.press("Escape")
    expect(page.get_by_placeholder("Filter partitions")).to_have_count(0)
    picture(page, "one_partition_is_chosen")
    run = launched(page, page.get_by_text(re.compile("^Launch (backfill|1 run)$")))
    page.goto(f"{served.address}/runs/{run}")
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()
    assert served.run(run).tags["dagster/partition"] == "mon"


def test_a_backfill_of_all_partitions_shows_how_far_it_is(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/assets/takings_by_day?view=partitions")
    expect(page.get_by_text("mon", exact=True).locator("visible=true").first).to_be_visible()
    page.get_by_text(re.compile("^Materialize")).first.click()
    page.get_by_text("All", exact=True).locator("visible=true").last.click()
    backfill = launched(page, page.get_by_text("Launch backfill", exact=True), "backfillId")
    page.goto(f"{served.address}/runs/b/{backfill}")
    expect(page.get_by_text("takings_by_day").locator("visible=true").first).to_be_visible()
    expect(page.get_by_text("Succeeded", exact=True).locator("visible=true").first).to_be_visible()
    expect(page.get_by_text("100% completed")).to_be_visible()
