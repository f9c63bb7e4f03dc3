"""The benchmark of events stores real ones: all of them without sampling, with it one in so many seconds and the last."""

from __future__ import annotations

import pytest

from benchmarks.event_log import measure


@pytest.mark.long
def test_sampling_is_what_keeps_events_few() -> None:
    every, sampled = measure(12, 2, 0.0), measure(12, 2, 5.0)
    assert (every.events, sampled.events) == (24, 8)
    assert every.rows - sampled.rows >= 16
    assert every.scale(120).events == 240
