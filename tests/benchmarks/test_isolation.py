"""A view that fails holds back nobody but what reads it, queries are what their policy says, and one range brings it back."""

from __future__ import annotations

import pytest

from benchmarks.isolation import measure
from engine.session import Session


@pytest.mark.long
def test_a_failing_view_leaves_the_others_alone_and_catches_up_in_one_range(session: Session) -> None:
    done = measure(session, epochs=3, rows=400, changes=20)
    assert sorted(table for table, _, _ in done.ranges) == ["downstream", "middle"]
    assert done.attempts >= 1
