"""The rule of retries: doubling waits with an upper bound, and clocks that were wrong hold nothing up."""

from __future__ import annotations

import pytest

from engine.hummock.back_off import AttemptLog, Attempts, BackOff

NOW = 1_800_000_000.1
RULE = BackOff(1.0, 100.0)


def test_waits_double_up_to_the_longest() -> None:
    rule = BackOff(1.5, 100.0)
    assert [rule.find_wait(n) for n in (0, 1, 2, 3, 7, 8, 10_000)] == [0.0, 1.5, 3.0, 6.0, 96.0, 100.0, 100.0]
    assert Attempts(rule, 3, 1000.0).retry_at == 1006.0


def test_free_attempts_cost_no_wait() -> None:
    rule = BackOff(1.5, 100.0, free=2)
    assert [rule.find_wait(n) for n in (0, 1, 2, 3, 4)] == [0.0, 0.0, 0.0, 1.5, 3.0]


def test_a_share_of_a_rule_is_a_share_of_each_wait() -> None:
    rule = BackOff(2.0, 100.0).scale(0.75)
    assert [rule.find_wait(n) for n in (1, 2, 20)] == [1.5, 3.0, 75.0]


@pytest.mark.parametrize(("count", "seconds"), [(1, 1.0), (3, 4.0), (50, 100.0)])
def test_what_has_just_failed_waits_and_then_is_tried(count: int, seconds: float) -> None:
    tried = Attempts(RULE, count, NOW)
    assert tried.find_wait(NOW) == pytest.approx(seconds) and tried.is_waiting(NOW + seconds - 0.1)
    assert not tried.is_waiting(tried.retry_at) and tried.find_wait(NOW + 86_400.0) == 0.0


@pytest.mark.parametrize("ahead", [100.0, 86_400.0, 10 * 365 * 86_400.0])
def test_a_failure_told_by_a_clock_that_was_ahead_holds_nobody_up(ahead: float) -> None:
    assert not Attempts(RULE, 3, NOW + ahead).is_waiting(NOW)


def test_attempts_are_counted_until_they_are_forgotten() -> None:
    none = Attempts(RULE)
    tried = none.add(NOW).add(NOW + 5)
    assert (tried.count, tried.last, tried.text) == (2, NOW + 5, "2 times") and none.add(NOW).text == "once"
    assert tried.forget() == none and not none.is_waiting(NOW)


def test_work_waits_after_attempts_and_other_work_does_not() -> None:
    log = AttemptLog(BackOff(10.0, 100.0, free=1))
    assert log.is_due("a", 5.0)
    log.record("a", 5.0)
    assert log.is_due("a", 5.0)
    log.record("a", 6.0)
    assert not log.is_due("a", 15.5) and log.is_due("a", 16.0)
    assert log.is_due("b", 6.0)
    log.record("b", 6.0)
    log.record("a", 7.0)
    assert log.is_due("a", 7.0)
