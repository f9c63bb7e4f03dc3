"""A view of eight joins and one on a chain of ten views follow their base tables."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.deep_views import change, create, find_differences
from engine.session import Session


@pytest.mark.long
def test_eight_joins_and_ten_views_in_a_row_equal_their_queries_after_an_epoch(session: Session) -> None:
    chance = np.random.default_rng(3)
    create(session, 300, chance)
    change(session, 300, 0, 20, chance)
    session.flush().raise_for_errors()
    assert find_differences(session) == {}
