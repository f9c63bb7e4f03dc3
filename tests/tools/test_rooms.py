"""docs/rooms.md shows the imports that there are, and none of them upwards."""

from __future__ import annotations

import grimp
import pytest

from tools.rooms import (
    PAGE,
    build_import_graph,
    count_arrows,
    list_drawings,
    reduce_arrows,
    render_page,
    strip_counts,
)


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return build_import_graph()


def test_the_page_shows_the_arrows_that_there_are(graph: grimp.ImportGraph) -> None:
    assert strip_counts(PAGE.read_text()) == strip_counts(render_page(graph)), (
        "an arrow came or went: run make pages"
    )


def test_all_arrows_lead_down(graph: grimp.ImportGraph) -> None:
    for drawing in list_drawings():
        order = {room: place for place, room in enumerate(drawing.rooms)}
        assert not [(a, b) for a, b in count_arrows(graph, drawing.rooms) if order[a] > order[b]], (
            drawing.title
        )


def test_every_room_of_a_divided_folder_is_drawn(graph: grimp.ImportGraph) -> None:
    rooms = {room for drawing in list_drawings() for room in drawing.rooms}
    children = {*graph.find_children("engine.sql"), *graph.find_children("engine.runtime")}
    assert children <= rooms
    assert graph.find_children("engine") <= rooms | {"engine.py"}


def test_an_arrow_is_left_out_where_another_way_leads_there() -> None:
    found = {("a", "b"): 1, ("b", "c"): 1, ("a", "c"): 5, ("a", "d"): 2}
    assert reduce_arrows(found) == [("a", "b"), ("b", "c"), ("a", "d")]


def test_counts_may_differ_and_arrows_may_not() -> None:
    assert strip_counts("1 a  .   7\n") == strip_counts("1 a  . 110\n")
    assert strip_counts("1 a  .   7\n") != strip_counts("1 a  7   .\n")
