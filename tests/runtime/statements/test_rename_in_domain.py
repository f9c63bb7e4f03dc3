"""Renaming a view of a domain of several: what is known of the domain's backfill goes on under the new name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.hummock import Put
from engine.meta.domains.creation import find_computed_table
from engine.runtime.statements.alter.alter import run_alter
from engine.sql.statements import reader as st
from tests.contexts import build_context
from tests.crash.views_in_memory import ViewsInMemory


@pytest.fixture
def views(tmp_path: Path) -> ViewsInMemory:
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "x")
    rows = pa.table({"id": list(range(60)), "x": [1] * 60})
    made.store.ingest_batch({"t": [Put(rows)]})
    made.view("v", "SELECT id, x FROM t", domain="red", background="true")
    made.view("w", "SELECT x, count(*) AS n FROM t GROUP BY x", domain="red")
    made.flusher.backfill.largest_step = 5
    return made


def rename(views: ViewsInMemory) -> None:
    run_alter(
        st.parse_statement("ALTER MATERIALIZED VIEW v RENAME TO other", "spark"), build_context(views.store)
    )


def test_a_view_whose_domain_is_being_created_cannot_be_renamed(
    views: ViewsInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = views.flusher.backfill._run_step

    def slow(*what):  # type: ignore[no-untyped-def]
        views.clock.sleep(10.0)
        return step(*what)

    monkeypatch.setattr(views.flusher.backfill, "_run_step", slow)
    views.flusher.run(background_seconds=5.0)
    with pytest.raises(SqlError, match="v is still being created"):
        rename(views)
    assert find_computed_table(views.store.refresh(), "v") is None
    views.flusher.run(background_seconds=10_000.0).raise_for_errors()
    assert len(views.rows("v")) == 60


def test_steps_of_a_backfill_cannot_be_read_under_a_new_name(views: ViewsInMemory) -> None:
    views.flusher.run(background_seconds=10_000.0).raise_for_errors()
    steps = [entry.epoch for entry in views.store.refresh().tables["v"].log]
    assert len(steps) > 1, "the view was built in steps"
    rename(views)
    content = views.content()
    assert not content.has_content("other", steps[0]) and content.has_content(
        "other", views.store.version.epoch
    )
    views.put("t", id=99, x=1)
    views.flusher.run().raise_for_errors()
    assert len(views.rows("other")) == 61
