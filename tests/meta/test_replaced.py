"""A view with another query has no content above what it has, and is computed as a whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from engine.hummock import Commit, Hummock, Put
from engine.meta.content import Content
from engine.meta.frontier import frontiers, lapsed_at
from engine.meta.replaced import marked, replaced, settled

SCHEMA = pa.schema([("id", pa.int64())])


def test_it_is_pending_though_nothing_that_it_reads_has_changed(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        base = store.create_table("t", SCHEMA, ["id"])
        view = store.create_table("m", SCHEMA, ["id"])
        epoch = store.ingest_batch({base: [Put(pa.table({"id": [1]}))]})
        store.commit(Commit(epochs={view.name: epoch}))
        inputs = {"t": (), "m": ("t",)}
        before = frontiers(store.version, ("t", "m"), inputs)["m"]
        assert (before.frontier, before.lagging) == (store.version.epoch, False)
        version = store.commit(Commit(catalog=marked("m")))
        after = frontiers(version, ("t", "m"), inputs)["m"]
        assert (after.frontier, after.pending, after.lagging) == (epoch, True, True)
        assert Content(version, inputs).newest("m", version.epoch) == epoch
        assert (
            lapsed_at(version, "m", epoch, ["t"]) == epoch + 1 and lapsed_at(version, "t", epoch, []) is None
        )
        done = store.commit(Commit(epochs={"m": version.epoch}, catalog=settled(version, ["m", "t"])))
        assert not replaced(done) and not frontiers(done, ("t", "m"), inputs)["m"].pending
