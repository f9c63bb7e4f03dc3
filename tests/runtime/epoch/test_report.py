"""What is told of two runs that follow each other."""

from __future__ import annotations

import pytest

from engine.runtime.epoch.report import FlushReport, ViewReport

DONE = ViewReport("v", 2, 1, inserted=3)
NOTHING = ViewReport("v", 2, 2, skipped=True)
FAILED = ViewReport("v", 1, 1, error="divided by zero")
LOST = ViewReport("v", 1, 1, inserted=3, waits_for="what it was made over was refused")
LEFT_ALONE = ViewReport("v", 1, 1, skipped=True, waits_for="it is tried again later")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (DONE, NOTHING, DONE),
        (DONE, FAILED, FAILED),
        (FAILED, DONE, DONE),
        (FAILED, NOTHING, NOTHING),
        (FAILED, LEFT_ALONE, FAILED),
        (LOST, NOTHING, NOTHING),
        (LOST, LEFT_ALONE, LEFT_ALONE),
    ],
)
def test_of_two_runs_the_one_is_told_that_says_how_a_view_stands(
    before: ViewReport, after: ViewReport, expected: ViewReport
) -> None:
    assert FlushReport((before,)).merge(FlushReport((after,))) == FlushReport((expected,))
