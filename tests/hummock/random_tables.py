"""Random tables with all that a compaction has to mind: updates, deletions, levels, expiry, dropped and added columns, crowded hashes."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path

import pyarrow as pa

from engine.errors import EpochExpired
from engine.hummock import Delete, Hummock, Put
from engine.hummock.clock import Clock
from engine.hummock.compaction import Full, Tier
from engine.hummock.compaction.task import list_live_runs
from engine.hummock.rows.column_defaults import with_default
from engine.hummock.version import Run

SCHEMA = pa.schema([("g", pa.int64()), ("id", pa.int64()), ("v", pa.string()), ("at", pa.int64()), ("gone", pa.int64())])  # fmt: skip
KINDS = ("plain", "ttl", "watermark", "crowded", "ordered", "groups")
LONG_AGO = -86_400.0


class Earlier(Clock):
    """The machine's clock, set back by `behind` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.behind = LONG_AGO

    def __call__(self) -> float:
        return super().__call__() + self.behind


def random_table(folder: Path, seed: int | str, kind: str, rows: int = 1_200) -> Hummock:
    """Return a store in `folder` with a table `t` that nobody has fully compacted."""
    chance, clock = random.Random(seed), Earlier()
    store = Hummock.open(folder.as_uri(), cache_dir=folder.parent / "cache", auto_compact="off", clock=clock)
    options = {"ttl": {"ttl_seconds": 3_600.0}, "watermark": {"watermark_column": "at"}, "groups": {"vnode_groups": 3}}  # fmt: skip
    spread = {"ordered": None, "crowded": ["g"]}.get(kind, ["id"])
    key = ["g", "id"] if kind == "crowded" else ["id"]
    store.create_table("t", SCHEMA, key, spread, **options.get(kind, {}))
    for step in range(9):
        if step == 5:
            clock.behind = 0.0  # what was written before is past its time to live
            added = with_default(pa.field("more", pa.int64()), pa.scalar(7))
            store.alter_table("t", add=[added], drop=["gone"])
        count = rows if step in (1, 7) else chance.choice([1, 50, rows // 4])
        ids = chance.sample(range(2 * rows), count)
        names = store.version.tables["t"].schema.names
        given = {"g": [one % 3 for one in ids], "id": ids, "v": [f"{step} {one}" for one in ids]}
        given |= {name: [chance.randrange(100) for _ in ids] for name in names if name not in given}
        whole = pa.table(given, schema=store.version.tables["t"].schema)
        gone = whole.select(key).slice(0, count // 3)
        store.ingest_batch({"t": [Delete(gone)] if step % 3 == 2 else [Put(whole), Delete(gone)]})
        if step in (3, 6):
            store.compact("t", chance.choice([Full(), Tier()]))
        if kind == "watermark" and step in (5, 7):
            store.set_watermark("t", 20 + step)
    return store


def copied(store: Hummock, folder: Path) -> Hummock:
    """Return a copy of a store, whose files have the same names."""
    shutil.copytree(store.url.removeprefix("file://"), folder)
    return Hummock.open(folder.as_uri(), cache_dir=folder.parent / "copied", auto_compact="off")


def readable(store: Hummock) -> dict[int, pa.Table]:
    """Return what the table shows at each epoch that can be read, in the order of its files."""
    table = store.refresh().tables["t"]
    found = {}
    for epoch in (table.safe_epoch, *(entry.epoch for entry in table.log), table.committed_epoch):
        with contextlib.suppress(EpochExpired):  # what is past its time to live is not kept as long
            found[epoch] = pa.Table.from_batches(store.iter("t", epoch=epoch), schema=table.schema)
    return found


def newest_run(store: Hummock) -> Run:
    """Return the one run that is left of the table."""
    (run,) = list_live_runs(store.refresh().tables["t"])
    return run
