"""Pages are wrapped where a line is too long, and nowhere else."""

from __future__ import annotations

import pytest

from tools.wrap import LONGEST_LINE, wrap_page

LONG = "word " * 40
CODE = "x" * 200


def test_a_paragraph_with_a_long_line_is_wrapped_as_a_whole() -> None:
    found = wrap_page(f"Short.\nStays\nas it is.\n\n{LONG}\nend.\n").splitlines()
    assert found[:4] == ["Short.", "Stays", "as it is.", ""]
    assert all(len(line) <= LONGEST_LINE for line in found)
    assert " ".join(found[4:]).split() == [*LONG.split(), "end."]


def test_what_follows_an_item_of_a_list_keeps_its_indent() -> None:
    found = wrap_page(f"- one\n- {LONG}\n  end\n- three\n").splitlines()
    assert found[0] == "- one" and found[-1] == "- three"
    assert found[1].startswith("- word") and all(line.startswith("  ") for line in found[2:-1])


@pytest.mark.parametrize(
    "text", [f"```\n{CODE} {LONG}\n```\n", f"| {LONG} |\n", f"# {LONG}\n", f"<!-- {LONG} -->\n"]
)
def test_code_tables_and_headings_stay(text: str) -> None:
    assert wrap_page(text) == text


def test_a_word_that_is_too_long_by_itself_is_not_broken() -> None:
    assert CODE in wrap_page(f"See {CODE} there.\n").splitlines()
