"""What `tideline explain flush` says of what a run would do, at the widths that terminals have."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from engine.cli.layout import WIDE_ONLY, render_columns
from engine.cli.listings.flush import build_flush_listing
from engine.cli.listings.status import Listing
from engine.runtime.epoch.mutation_run import request_mutation
from tests.crash.views_in_memory import ViewsInMemory


@pytest.fixture
def listing(tmp_path: Path) -> Listing:
    """`groups` lags, `below` reads it, `rests` is paused, `on_rests` reads that, `new` has no content, `current` has all."""
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "g", "x")
    made.table("u", "id")
    made.view("groups", "SELECT g, count(*) AS n FROM t GROUP BY g")
    made.view("below", "SELECT n FROM groups WHERE n > 0")
    made.view("rests", "SELECT id FROM t")
    made.view("on_rests", "SELECT count(*) AS n FROM rests")
    made.view("current", "SELECT id FROM u")
    made.put("t", id=1, g=1, x=1)
    request_mutation(made.store, "rests", "pause", None, made.clock())
    made.flusher.run()
    made.view("new", "SELECT x FROM t")
    made.put("t", id=2, g=1, x=1)
    made.clock.sleep(30.0)
    return build_flush_listing(made.flusher.plan(made.flusher.build_request()), made.clock())


def _lines(listing: Listing, width: int | None) -> list[str]:
    columns = [column for column in listing.columns if width is None or column.rank < WIDE_ONLY]
    return list(render_columns(columns, width, listing.notes))


@pytest.mark.parametrize("width", [80, 160])
def test_each_domain_is_told_with_its_work_and_what_it_waits_for(listing: Listing, width: int) -> None:
    lines = _lines(listing, width)
    assert max(cell_len(line) for line in lines) <= width
    by_view = {
        line.split()[0]: line.split()[1:] for line in lines if line and not line.startswith((" ", "─"))
    }
    assert by_view["groups"][:4] == ["epoch", "1", "30", "s"] and by_view["below"][:2] == ["epoch", "0+"]
    assert by_view["new"][:3] == ["first", "content", "2"] and by_view["current"] == ["nothing"]
    assert by_view["rests"] == ["waits"] and by_view["on_rests"] == ["waits"]
    notes = [line.strip() for line in lines if line.startswith("    ")]
    assert "groups by aggregate: 1 row" in notes and "below by linear: what comes of groups" in notes
    assert any(note.startswith("waits for rests: paused") for note in notes)


def test_programs_get_numbers(listing: Listing) -> None:
    found = {record["domain"]: record for record in listing.records}
    assert found["groups"]["rows"] == 1 and found["groups"]["up_to"] > found["groups"]["from"]
    assert found["below"]["rows_may_grow"] is True and found["groups"]["rows_may_grow"] is False
    assert found["rests"]["up_to"] is None and "RESUME" in found["rests"]["waits_for"]


def test_the_cut_is_told_at_the_end(listing: Listing) -> None:
    assert listing.footer.startswith("the target epoch of the run: 2026-")
