"""A shared task stops beginning fragments by its processor time first, and chooses among the bodies of a fragment."""

from __future__ import annotations

import time

from engine.operators.shared_task import MOST_SECONDS, MOST_WAITED, TaskClock, choose_shape


def test_a_task_that_waits_has_more_time_than_one_that_computes() -> None:
    wall, processor = time.perf_counter(), time.process_time()
    assert TaskClock(wall, processor).has_time_left()
    assert TaskClock(wall - MOST_SECONDS, processor).has_time_left()
    assert not TaskClock(wall - MOST_WAITED * MOST_SECONDS, processor).has_time_left()
    assert not TaskClock(wall, processor - MOST_SECONDS).has_time_left()


def test_the_least_body_for_all_inputs_that_have_changed_is_chosen() -> None:
    shapes = [("a",), ("a", "b", "c"), ("a", "b"), ("b", "c")]
    assert choose_shape(shapes, ("a",)) == ("a",)
    assert choose_shape(shapes, ("b",)) == ("a", "b")
    assert choose_shape(shapes, ("c",)) == ("b", "c")
    assert choose_shape(shapes, ()) == ("a",)
    assert choose_shape(shapes, ("d",)) is None
    assert choose_shape([], ("a",)) is None
