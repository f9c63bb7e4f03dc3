"""Several cut views commit together: a row that fails in one of them leaves a partition of that one behind, of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.meta.domains.quarantine import read_quarantine
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory


@pytest.mark.parametrize("poisoned", ["first", "second"])
def test_the_view_in_which_a_row_fails_is_the_one_that_is_left_behind(tmp_path: Path, poisoned: str) -> None:
    views = ViewsInMemory(tmp_path)
    for view in ("first", "second"):
        views.table(f"of_{view}", "id", "g", "x")
        query = f"SELECT g, sum({CHECKED}) AS s FROM of_{view} GROUP BY g"
        views.view(view, query, partition_by="g", domain="both")
        views.put(f"of_{view}", id=1, g=1, x=1)
    views.flusher.run().raise_for_errors()
    for view in ("first", "second"):
        views.put(f"of_{view}", id=1, g=1, x=5)
        views.put(f"of_{view}", id=2, g=2, x=POISONOUS if view == poisoned else 3)
    views.flusher.run().raise_for_errors()
    for view in ("first", "second"):
        left = ["2"] if view == poisoned else []
        assert list(read_quarantine(views.store.version, view)) == left
        healthy = [{"g": 1, "s": 5}] + ([] if left else [{"g": 2, "s": 3}])
        assert views.rows(view) == healthy
