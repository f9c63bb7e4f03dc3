"""A row on which a step of a snapshot backfill fails costs its partition alone; the reference executor, no Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.quarantine import read_quarantine
from engine.meta.status.waits import list_waits
from tests.crash.program.steps import Program
from tests.crash.program.table_verbs import POISONOUS
from tests.crash.program.view_verbs import CHECKED

VIEWS = {
    "aggregate": "SELECT g, count(*) AS n, sum({x}) AS s FROM a GROUP BY g",
    "over a state": "SELECT g, max({x}) AS m, count(*) AS n FROM a GROUP BY g",
    "rows": "SELECT g, id, {x} AS x FROM a",
    "join": "SELECT a.g, a.id, b.id AS other, {x} + b.y AS v FROM a JOIN b ON a.g = b.g",
    "not in steps": "SELECT g, count(*) AS n FROM (SELECT g, id, {x} AS x FROM a) AS q GROUP BY g HAVING sum(x) > 0",
}


@pytest.mark.parametrize("shape", VIEWS)
def test_a_row_that_fails_in_a_backfill_leaves_just_its_partition_behind(shape: str, tmp_path: Path) -> None:
    program = Program(3, tmp_path, steps=0)
    program.objects.plan.rate = 0.0
    program.flusher.backfill.largest_step = 20
    rows = {i: (i % 6, i) for i in range(80)}
    program._put({"a": rows | {79: (4, POISONOUS)}, "b": {i: (i, i) for i in range(6)}})
    program.texts["v"] = VIEWS[shape].format(x="x")
    options = {"partition_by": "g", "background": "true"}
    program._commit_view("v", VIEWS[shape].format(x=CHECKED), options)
    report = program.flusher.run(background_seconds=600.0)
    version = program.store.refresh()
    assert not report.failed and list_waits(version, load_catalog(version), program.clock()) == ()
    left = read_quarantine(version, "v")
    assert list(left) == ["4"] and left["4"].epoch is None and "poison" in left["4"].error
    assert list(report["v"].quarantined) == ["4"]
    assert {row[0] for row in program._content("v", None)} == {0, 1, 2, 3, 5}
    program.check()  # the others hold what the query gives, of partition 4 there is nothing

    program._put({"a": {79: (4, 79)}})
    program.flusher.run()
    assert read_quarantine(program.store.refresh(), "v") == {}
    program.check()
    assert Counter(row[0] for row in program._content("v", None))[4] > 0
