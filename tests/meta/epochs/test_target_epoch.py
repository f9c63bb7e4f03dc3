"""A domain's label is an epoch of which it shows the state, also where its inputs were brought on in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.views_in_memory import ViewsInMemory


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "g")
    made.table("s", "id", "y")
    made.view("counted", "SELECT g, count(*) AS n FROM t GROUP BY g")
    made.view("joined", "SELECT counted.n, s.y FROM counted JOIN s ON counted.g = s.id")
    made.put("t", id=1, g=1)
    made.put("s", id=1, y=1)
    made.flusher.run().raise_for_errors()
    return made


def test_a_view_has_no_content_between_changes_of_an_input_that_cancelled_out(views: ViewsInMemory) -> None:
    before = views.put("t", id=2, g=1)
    between = views.put("s", id=1, y=2)
    after = views.delete("t", id=2)
    views.flusher.run().raise_for_errors()
    content = views.content()
    assert views.store.version.tables["counted"].last_change < before, "the group has one row as before"
    assert not content.has_content("joined", between), (
        "a state with two rows in the group, which nobody computed"
    )
    assert content.find_newest("joined", between) == before - 1
    assert content.has_content("joined", after) and views.rows("joined", after) == [{"n": 1, "y": 2}]


def test_a_view_has_content_from_the_last_change_of_inputs_that_have_it(views: ViewsInMemory) -> None:
    views.put("t", id=2, g=1)
    views.delete("t", id=2)
    change = views.put("s", id=1, y=2)
    views.table("later", "id")
    views.put("later", id=1)
    views.flusher.run().raise_for_errors()
    assert views.content().has_content("joined", change)
    assert views.rows("joined", change) == [{"n": 1, "y": 2}]
