"""The rule of retries: doubling waits with an upper bound, and clocks that were wrong hold nothing up."""

from __future__ import annotations

from engine.hummock.back_off import BackOff


def test_waits_double_up_to_the_longest() -> None:
    rule = BackOff(1.5, 100.0)
    assert [rule.find_wait(n) for n in (0, 1, 2, 3, 7, 8, 10_000)] == [0.0, 1.5, 3.0, 6.0, 96.0, 100.0, 100.0]
    assert rule.find_retry_time(3, 1000.0) == 1006.0


def test_only_a_time_within_the_longest_wait_is_waited_for() -> None:
    rule = BackOff(1.0, 100.0)
    assert rule.is_waiting(1050.0, 1000.0) and rule.is_waiting(1100.0, 1000.0)
    assert not rule.is_waiting(1000.0, 1000.0) and not rule.is_waiting(1100.5, 1000.0)
