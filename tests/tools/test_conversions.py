"""docs/conversions.md is what the table of conversions says."""

from __future__ import annotations

from tools.conversions import PAGE, render_page


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == render_page(), "stale: run make pages"
