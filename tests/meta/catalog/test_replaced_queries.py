"""A view with another query has no content above what it has, and is computed as a whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from engine.hummock import Commit, Hummock, Put
from engine.meta.catalog.replaced_queries import clear_replaced, list_replaced_tables, mark_replaced
from engine.meta.epochs.content import Content
from engine.meta.epochs.frontier import compute_frontiers, find_expiry_epoch

SCHEMA = pa.schema([("id", pa.int64())])


def test_it_is_pending_though_nothing_that_it_reads_has_changed(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        base = store.create_table("t", SCHEMA, ["id"])
        view = store.create_table("m", SCHEMA, ["id"])
        epoch = store.ingest_batch({base: [Put(pa.table({"id": [1]}))]})
        store.commit(Commit(epochs={view.name: epoch}))
        inputs = {"t": (), "m": ("t",)}
        before = compute_frontiers(store.version, ("t", "m"), inputs)["m"]
        assert (before.frontier, before.lagging) == (store.version.epoch, False)
        version = store.commit(Commit(catalog=mark_replaced("m")))
        after = compute_frontiers(version, ("t", "m"), inputs)["m"]
        assert (after.frontier, after.pending, after.lagging) == (epoch, True, True)
        assert Content(version, inputs).find_newest("m", version.epoch) == epoch
        assert (
            find_expiry_epoch(version, "m", epoch, ["t"]) == epoch + 1
            and find_expiry_epoch(version, "t", epoch, []) is None
        )
        done = store.commit(Commit(epochs={"m": version.epoch}, catalog=clear_replaced(version, ["m", "t"])))
        assert not list_replaced_tables(done) and not compute_frontiers(done, ("t", "m"), inputs)["m"].pending
