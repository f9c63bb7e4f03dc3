"""A backfill that begins while another process computes partitions of what it reads again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.meta.domains.quarantine import read_quarantine
from engine.meta.epochs.barrier import Barrier
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED
from tests.crash.views_in_memory import ViewsInMemory, hook_runs


def test_a_backfill_does_not_begin_where_what_it_reads_is_about_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = ViewsInMemory(tmp_path)
    views.table("u", "id", "g", "x")
    views.view("cut", f"SELECT g, sum({CHECKED}) AS s FROM u GROUP BY g", partition_by="g")
    views.put("u", id=1, g=1, x=1)
    views.put("u", id=2, g=2, x=POISONOUS)
    views.flusher.run().raise_for_errors()
    views.put("u", id=2, g=2, x=3)
    views.view("below", "SELECT g, s FROM cut", background="true")

    first, other = views.flusher, views.process()
    hook_runs(monkeypatch, other, "_recompute_partitions", lambda *what: None)  # it finds nothing due
    begin = other.backfill._begin
    minted: list[Barrier] = []

    def minting(mint: Callable[..., Barrier], *what: Any) -> Barrier:
        """Let the other process plan its backfill first, up to the epoch at which this one computes again."""

        def beginning(*how: Any) -> Any:
            if not minted:
                minted.append(mint(*what))
            return begin(*how)

        if minted or what[-1].minting != "recompute":
            return mint(*what)
        monkeypatch.setattr(other.backfill, "_begin", beginning)
        other.run(["below"], background_seconds=60.0).raise_for_errors()
        return minted[0]

    hook_runs(monkeypatch, first, "_mint_barrier", minting)
    first.run(["cut"]).raise_for_errors()
    assert minted and not read_quarantine(views.store.refresh(), "cut")
    views.process().run(background_seconds=60.0).raise_for_errors()
    shown = [{"g": row["g"], "s": row["s"]} for row in views.rows("below")]
    assert shown == views.rows("cut") == [{"g": 1, "s": 1}, {"g": 2, "s": 3}]
