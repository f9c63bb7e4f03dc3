"""A backfill that fails on a row of its snapshot goes on when the row is mended; the reference executor, no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.meta.domains.creation import list_creations
from engine.meta.domains.failures import list_failures
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory

SHAPES = {
    "rows": f"SELECT id, {CHECKED} AS x FROM t",
    "an aggregate": f"SELECT count(*) AS n, sum({CHECKED}) AS s FROM t",
    "over a state": f"SELECT x % 7 AS g, max({CHECKED}) AS m FROM t GROUP BY x % 7",
    "over another view's table": f"SELECT x % 7 AS g, max({CHECKED}) AS m FROM (SELECT id, max(x) AS x FROM t GROUP BY id) GROUP BY x % 7",
}


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    """Thirty rows of `t`, of which one cannot be computed; steps of five rows."""
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "x")
    for number in range(30):
        made.put("t", id=number, x=number)
    made.put("t", id=7, x=POISONOUS)
    made.flusher.backfill.largest_step = 5
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_a_backfill_that_fails_on_a_row_goes_on_when_it_is_mended(shape: str, views: ViewsInMemory) -> None:
    views.view("v", SHAPES[shape], background="true")
    assert "poison" in str(views.flusher.run(background_seconds=60.0)["v"].error)
    views.put("t", id=7, x=7)
    views.flusher.run(background_seconds=60.0).raise_for_errors()
    views.view("w", SHAPES[shape])
    views.flusher.run().raise_for_errors()
    assert views.rows("v") == views.rows("w") and not list_failures(views.store.version)


def test_a_backfill_keeps_what_it_has_while_the_row_that_fails_is_there(views: ViewsInMemory) -> None:
    views.view("v", SHAPES["rows"], background="true")
    views.flusher.run(background_seconds=60.0)
    before = list_creations(views.store.refresh())["v"]
    views.put("t", id=100, x=1)
    assert "poison" in str(views.flusher.run(background_seconds=60.0)["v"].error)
    assert list_creations(views.store.refresh())["v"] == before


def test_a_backfill_that_began_anew_leaves_no_hold_behind(views: ViewsInMemory) -> None:
    views.view("v", SHAPES["rows"], background="true")
    views.flusher.run(background_seconds=60.0)
    written = views.put("t", id=7, x=7)
    views.flusher.run(background_seconds=60.0).raise_for_errors()
    held = views.store.refresh().tables["t"]
    assert set(held.acks) == {"v"} and held.acks["v"] >= written and not held.pins
