"""What commands say of a store in trouble, at the widths that terminals have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from engine.cli.layout import WIDE_ONLY, render_columns
from engine.cli.listings.status import (
    Listing,
    build_backfills_listing,
    build_partitions_listing,
    build_relations_listing,
    build_waits_listing,
)
from engine.meta.status.waits import DomainWait
from tests.cli.standings import CREATIONS, EPOCH, NOW, PARTITIONS, STATUSES, WAITS

LISTINGS = {
    "status": build_relations_listing(STATUSES, {wait.domain: wait for wait in WAITS}, NOW),
    "waits": build_waits_listing(WAITS, NOW),
    "backfill": build_backfills_listing(CREATIONS, {"route_carriers": 30.0}),
    "partitions": build_partitions_listing(PARTITIONS, NOW),
}


def _lines(listing: Listing, width: int | None) -> list[str]:
    columns = [column for column in listing.columns if width is None or column.rank < WIDE_ONLY]
    return list(render_columns(columns, width, listing.notes))


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", LISTINGS)
def test_no_line_is_longer_than_the_terminal(name: str, width: int) -> None:
    assert max(cell_len(line) for line in _lines(LISTINGS[name], width)) <= width


@pytest.mark.parametrize("width", [80, 160])
def test_each_relation_is_one_line_with_its_state_its_age_and_its_lag(width: int) -> None:
    lines = _lines(LISTINGS["status"], width)
    by_view = {line.split()[0]: line for line in lines if line and not line.startswith(" ")}
    assert "failed" in by_view["cancellations_by_airport"] and "67 min" in by_view["cancellations_by_airport"]
    assert "paused" in by_view["departures_in_weather"]
    assert "backfill" in by_view["route_carriers"]
    assert "quarantine" in by_view["delay_by_carrier_day"]
    assert "behind" in by_view["to_the_lake"] and "3 d" in by_view["to_the_lake"]
    assert "current" in by_view["flight"] and "3 s ago" in by_view["flight"]


@pytest.mark.parametrize("width", [80, 160])
def test_an_error_is_told_whole_under_its_view(width: int) -> None:
    lines = _lines(LISTINGS["status"], width)
    message = " ".join(line.strip() for line in lines if line.startswith("    "))
    assert message == f"error: {STATUSES[1].last_error}"


def test_epochs_are_times_with_their_zone_named_and_numbers_only_where_all_is_asked_for() -> None:
    usual, wide = _lines(LISTINGS["status"], 160), _lines(LISTINGS["status"], None)
    assert "epoch (UTC)" in usual[0] and "2026-11-22 06:59:01.767" in usual[2]
    assert str(EPOCH) not in "\n".join(usual)
    assert str(EPOCH) in wide[2]


def test_programs_get_numbers() -> None:
    first = LISTINGS["status"].records[0]
    assert first["epoch"] == EPOCH and first["lag_seconds"] == 0.0 and first["rows_at_most"] == 12_345_678


def test_a_view_that_failed_says_so_even_when_the_next_run_tries_it_again() -> None:
    due = DomainWait(STATUSES[1].name, "due", "the next run does it", NOW - 5, None)
    assert build_relations_listing(STATUSES[1:2], {due.domain: due}, NOW).records[0]["state"] == "failed"


def test_rows_that_files_may_hold_twice_are_told_as_at_most_so_many() -> None:
    found = [STATUSES[0], replace(STATUSES[1], rows_are_counted=False)]
    (columns,) = (
        column.values for column in build_relations_listing(found, {}, NOW).columns if column.name == "rows"
    )
    assert columns == ["12,345,678", "≤ 12,345,678"]


def test_a_view_without_content_has_no_lag() -> None:
    listing = build_relations_listing(STATUSES[3:4], {}, NOW)
    assert next(column.values[0] for column in listing.columns if column.name == "lag") == ""


def test_watermarks_and_late_rows_are_told_where_a_table_has_one() -> None:
    usual = {column.name for column in LISTINGS["status"].columns}
    assert not {"watermark", "late"} & usual
    marked = replace(STATUSES[0], watermark="2026-11-22 06:55:00", late_rows=1_234)
    listing = build_relations_listing([marked, *STATUSES[1:]], {}, NOW)
    columns = {column.name: column.values for column in listing.columns}
    assert columns["watermark"][:2] == ["2026-11-22 06:55:00", ""] and columns["late"][:2] == ["1,234", ""]
    assert [record["late_rows"] for record in listing.records[:2]] == [1_234, None]
