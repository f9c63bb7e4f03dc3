"""When what failed is tried again: by times in the store, of which a wrong clock may have written some."""

from __future__ import annotations

import pytest

from engine.meta.domains.failures import RETRIES

NOW = 1_800_000_000.0


@pytest.mark.parametrize("attempts", [1, 5, 50])
def test_a_failure_of_just_now_waits_and_then_is_tried(attempts: int) -> None:
    at = RETRIES.find_retry_time(attempts, NOW)
    assert RETRIES.is_waiting(at, NOW)
    assert not RETRIES.is_waiting(at, NOW + RETRIES.longest)


@pytest.mark.parametrize("ahead", [86_400.0, 10 * 365 * 86_400.0])
def test_a_failure_told_by_a_clock_that_was_ahead_holds_nobody_up(ahead: float) -> None:
    assert not RETRIES.is_waiting(RETRIES.find_retry_time(3, NOW + ahead), NOW)


def test_a_failure_told_by_a_clock_that_was_behind_is_tried_at_once() -> None:
    assert not RETRIES.is_waiting(RETRIES.find_retry_time(3, NOW - 86_400.0), NOW)
