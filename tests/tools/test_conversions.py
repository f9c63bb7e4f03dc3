"""docs/conversions.md is what the table of conversions says."""

from __future__ import annotations

from tools.conversions import PAGE, page


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "stale: run make pages"
