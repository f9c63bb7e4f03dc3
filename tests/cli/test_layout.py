"""Columns in a width: whole values, as many columns as fit, the rest told."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from engine.cli.layout import TextColumn, format_ago, format_duration, format_size, render_columns

COLUMNS = (
    TextColumn("name", ["orders", "a_view_of_a_longer_name"]),
    TextColumn("lag", ["0", "12 min"], right=True, rank=1),
    TextColumn("rows", ["7", "1,234,567"], right=True, rank=2),
)


def test_where_all_fits_all_is_shown() -> None:
    assert list(render_columns(COLUMNS, 80)) == [
        "name                        lag       rows",
        "───────────────────────  ──────  ─────────",
        "orders                        0          7",
        "a_view_of_a_longer_name  12 min  1,234,567",
    ]


def test_what_does_not_fit_is_left_out_by_its_rank_and_told() -> None:
    assert list(render_columns(COLUMNS, 40)) == [
        "name                        lag",
        "───────────────────────  ──────",
        "orders                        0",
        "a_view_of_a_longer_name  12 min",
        "",
        "--wide shows rows too",
    ]


def test_a_name_too_long_for_its_neighbours_stands_on_a_line_of_its_own() -> None:
    long = "a_name_of_sixty_characters_that_somebody_has_really_given_it"
    lines = list(
        render_columns(
            (TextColumn("name", [long]), TextColumn("state", ["behind"]), TextColumn("lag", ["3 s"], rank=1)),
            62,
        )
    )
    assert lines[2:4] == [long, "  behind  3 s"]
    assert all(cell_len(line) <= 62 for line in lines)


def test_a_note_is_wrapped_between_words_and_never_within() -> None:
    note = "the path /a/very/long/path/that/has/no/place/to/break/at/all.csv is not there"
    lines = list(render_columns(COLUMNS, 50, ["", note]))
    assert lines[4:] == [
        "    the path",
        "    /a/very/long/path/that/has/no/place/to/break/at/all.csv",
        "    is not there",
    ]


def test_wide_characters_are_counted_by_their_cells() -> None:
    lines = list(render_columns((TextColumn("name", ["日本", "ab"]), TextColumn("n", ["1", "2"])), 80))
    assert lines[2:] == ["日本  1", "ab    2"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (3.2, "3 s"), (119, "119 s"), (121, "2 min"), (7300, "2 h"), (86_400 * 5, "5 d")],
)
def test_spans_are_told_in_their_largest_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert format_ago(seconds) == f"{text} ago"


def test_a_clock_that_runs_behind_does_not_make_the_future() -> None:
    assert format_ago(-5) == "0.0 s ago"


def test_bytes_are_told_in_their_largest_unit() -> None:
    assert [format_size(n) for n in (0, 1023, 1024, 5 * 1024**3)] == ["0 B", "1,023 B", "1.0 KiB", "5.0 GiB"]


def test_a_note_keeps_the_indent_of_its_lines() -> None:
    lines = list(
        render_columns(COLUMNS[:1], 40, ["", "wrong:\n  the row of sales with the key 5003 is not right"])
    )
    assert lines[4:] == ["    wrong:", "      the row of sales with the key 5003", "      is not right"]
