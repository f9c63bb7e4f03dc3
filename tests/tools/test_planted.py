"""The bugs that `make planted` plants can be planted in the code as it is."""

from __future__ import annotations

import pytest

from tools.planted import BUGS, LEFT_OUT, ROOT, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what)
def test_a_bugs_text_stands_once_where_it_is_planted(bug: Bug) -> None:
    text = (ROOT / bug.file).read_text()
    assert text.count(bug.text) == 1 and bug.planted not in text.replace(bug.text, "")
    assert all((ROOT / path).exists() for path in bug.tests)


def test_what_is_left_out_is_what_make_test_leaves_out() -> None:
    expression = " and ".join(f"not {marker}" for marker in LEFT_OUT)
    assert f"SLOW := {expression}\n" in (ROOT / "Makefile").read_text()
