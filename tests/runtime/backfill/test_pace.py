"""The size of a step follows the time that steps take, the cap while others work, and the rate limit."""

from __future__ import annotations

from engine.hummock.reads.merge import HASHES
from engine.runtime.backfill.pace import (
    AWAITED_STEP,
    LARGEST_AWAITED_STEP,
    LARGEST_STEP,
    MOST_STEPS,
    SMALLEST_STEP,
    Pace,
    compute_rest,
    limit_step_rows,
)


def test_quick_steps_grow_and_slow_ones_shrink_within_bounds() -> None:
    pace = Pace(rows=50_000)
    pace.adjust(50_000, 0.1)
    assert pace.rows == 100_000
    for _ in range(20):
        pace.adjust(pace.rows, 0.1)
    assert pace.rows == LARGEST_STEP
    for _ in range(20):
        pace.adjust(pace.rows, pace.rows / 1_000)
    assert pace.rows == SMALLEST_STEP


def test_steps_whose_time_is_not_that_of_their_rows_grow() -> None:
    pace = Pace(rows=50_000)
    for _ in range(20):
        pace.adjust(pace.rows, 3.0)
    assert pace.rows >= LARGEST_STEP // 2


def test_a_step_is_capped_by_the_rate_limit_and_by_running_views() -> None:
    pace = Pace(rows=100_000)
    assert pace.choose_next_rows(1_000_000, 50_000, None) == 50_000
    assert pace.choose_next_rows(1_000_000, 50_000, 200) == 200


def test_a_backfill_never_takes_more_steps_than_it_has_labels_for() -> None:
    assert Pace().choose_next_rows(10**9, 50_000, 1) == 10**9 // MOST_STEPS


def test_the_rest_after_a_step_keeps_the_rate() -> None:
    assert compute_rest(100, 0.25, 200) == 0.25
    assert compute_rest(100, 3.0, 200) == 0.0
    assert compute_rest(100, 3.0, None) == 0.0


def test_a_step_that_nobody_waits_for_is_a_hundredth_of_a_large_table_at_most() -> None:
    assert limit_step_rows(10_000_000) == 100_000
    assert limit_step_rows(40_000_000) == 400_000
    assert limit_step_rows(1_000) == 100_000
    assert limit_step_rows(1 << 40) == LARGEST_STEP


def test_a_build_that_is_waited_for_takes_few_large_steps() -> None:
    pace = Pace.for_waiting_user()
    assert pace.choose_next_rows(60_000_000, LARGEST_AWAITED_STEP, None) == AWAITED_STEP
    for _ in range(20):
        pace.adjust(pace.rows, 4.0)
    assert pace.rows == LARGEST_AWAITED_STEP


def test_a_step_takes_what_little_it_would_leave_over_unless_something_bounds_it() -> None:
    pace = Pace.for_waiting_user()
    assert pace.compute_span(AWAITED_STEP, AWAITED_STEP + 10, HASHES) == HASHES
    assert pace.compute_span(AWAITED_STEP, 2 * AWAITED_STEP, HASHES) == HASHES // 2
    assert pace.compute_span(1000, 1010, HASHES) < HASHES
    assert Pace().compute_span(Pace().rows, Pace().rows + 10, HASHES) < HASHES
