"""Room in one Spark session: a step of a backfill holds it and does not count as work that has to be yielded to."""

from __future__ import annotations

from engine.runtime.spark.slots import Slots


def test_only_epochs_of_running_views_make_slots_busy() -> None:
    slots = Slots(2)
    with slots.hold(alone=True, building=True):
        assert not slots.busy
    with slots.hold(alone=False):
        assert slots.busy
        with slots.hold(alone=False, building=True):
            assert slots.busy
    assert not slots.busy
