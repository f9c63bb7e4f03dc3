"""One of several processes that write rows and flush the same views; says how far reads of all views reach after each flush."""

from __future__ import annotations

import json
import random
import sys
from types import SimpleNamespace

import pyarrow as pa

from engine.hummock import Hummock, Put
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.epochs.query_policy import choose_epochs
from engine.runtime.domains.flush import FlushRunner
from tests.crash.program.view_verbs import ViewVerbs
from tests.crash.program.world import World
from tests.crash.reference import ReferenceExecutor
from tests.crash.tables import TABLES

TEXTS = {
    "v1": "SELECT g, count(*) AS n, sum(x) AS s FROM a GROUP BY g",
    "v2": "SELECT g, count(*) AS n, sum(x) AS s FROM a GROUP BY g",
    "v3": "SELECT count(*) AS n FROM v1",
    "v4": "SELECT count(*) AS n, sum(k) AS s FROM (SELECT n AS k FROM v1 UNION ALL SELECT n AS k FROM v2) u",
}


def create(url: str, cache: str) -> None:
    """Make the table and the views that the processes keep."""
    store = Hummock.open(url, cache_dir=cache)
    World._create_table(SimpleNamespace(store=store), "a", TABLES["a"])  # type: ignore[arg-type]
    for name, text in TEXTS.items():
        ViewVerbs._commit_view(SimpleNamespace(store=store), name, text, {})  # type: ignore[arg-type]
    FlushRunner(store, ReferenceExecutor(store, lambda task: None)).run().raise_for_errors()


def main(url: str, cache: str, number: int, rounds: int) -> None:
    """Write and flush `rounds` times, now and then only one view; print one JSON line a flush."""
    store, chance = Hummock.open(url, cache_dir=cache), random.Random(number)
    runner = FlushRunner(store, ReferenceExecutor(store, lambda task: None))
    for step in range(rounds):
        key = number * 1_000_000 + step
        written = store.ingest_batch({"a": [Put(pa.table({"id": [key], "g": [key % 5], "x": [step]}))]})
        views = [chance.choice(sorted(TEXTS))] if chance.random() < 0.3 else None
        runner.run(views).raise_for_errors()
        version = store.refresh()
        found = choose_epochs(version, load_catalog(version), tuple(TEXTS))["v1"]
        twins = [
            [row for batch in store.iter(v, epoch=found) for row in batch.to_pylist()] for v in ("v1", "v2")
        ]
        same = sorted(map(str, twins[0])) == sorted(map(str, twins[1]))
        report = {"whole": views is None, "written": written, "read": found, "same": same}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
