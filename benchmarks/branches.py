"""What a branch costs of a store with many files: `python -m benchmarks.branches [--files 1000000]`, or `--store s3://…`.

The store is a synthetic one: its version names so many files, of which none is there. Without `--store` it is in a temporary
folder. The requests are those that reach the object store. Each part is printed with its seconds and its requests by kind.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from engine.hummock import Commit, Hummock
from engine.hummock.epoch import epoch_at
from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.manifest import CHECKPOINT_EVERY, encode_manifest, manifest_path
from engine.hummock.metrics import Counters
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.hummock.object_store.counting import CountingObjectStore
from engine.hummock.version import Generation, SstInfo, Table, TableVersion, Version

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})
BYTES, ROWS = 128 << 20, 1_000_000
T = TypeVar("T")


def make_version(files: int, epoch: int) -> Version:
    """Return a version of one table of so many files, at a manifest that holds it as a whole."""
    width = (1 << 64) // files
    run = tuple(_make_file(epoch, -(1 << 63) + n * width, width) for n in range(files))
    table = Table("t", SCHEMA, ("id",), ("id",))
    version = TableVersion(table, 1, epoch, (), (Generation(epoch, (run,)),))
    return Version(CHECKPOINT_EVERY, epoch, {"t": version}, next_table_id=2)


def _make_file(epoch: int, low: int, width: int) -> SstInfo:
    path = f"sst/{epoch >> 16:013d}-{uuid.uuid4().hex}.parquet"
    return SstInfo(path, 0, BYTES, ROWS, low, low + width - 1, 0, uuid.uuid4().int >> 64, BYTES)


def write_store(objects: ObjectStore, files: int) -> None:
    """Make the store: one manifest, which holds the whole version."""
    version = make_version(files, epoch_at(time.time() - 3600))
    delta = Delta(version.number, version.epoch, uuid.uuid4().hex)
    data = encode_manifest([delta], version)
    print(f"{files:,} files, a whole version has {len(data) / 1e6:,.1f} MB")
    objects.put(manifest_path(version.number), data)


class Costs:
    """Prints what parts cost."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def measure(self, what: str, work: Callable[[], T]) -> T:
        """Do some work, and print its seconds and requests."""
        before, started = self._read(), time.perf_counter()
        done = work()
        seconds = time.perf_counter() - started
        asked = {kind: number - before.get(kind, 0) for kind, number in self._read().items()}
        made = ", ".join(f"{kind} {number}" for kind, number in asked.items() if number)
        print(f"{what:44} {seconds:8.3f} s  {sum(asked.values()):3} requests  {made}")
        return done

    def _read(self) -> dict[str, int]:
        return self._counters.count_unreported()


def run(url: str, files: int, cache: Path) -> None:
    """Measure a branch of a store at a new address, from its creation to its drop."""
    objects, counters = open_object_store(url), Counters()
    write_store(objects, files)
    counted, costs = CountingObjectStore(objects, counters), Costs(counters)

    def open_at(address: str) -> Hummock:
        return Hummock.open(address, object_store=counted, cache_dir=cache, auto_compact="off")

    store = costs.measure("open the store", lambda: open_at(url))
    costs.measure("an empty commit", lambda: store.commit(Commit()))
    branch = costs.measure("create a branch", lambda: store.create_branch("first"))
    costs.measure("create another", lambda: store.create_branch("second"))
    opened = costs.measure("open the branch", lambda: open_at(branch.url))
    costs.measure("a commit in the branch", lambda: opened.commit(Commit(catalog={"k": "v"})))
    costs.measure("collect in the store, nothing to delete", lambda: store.gc())
    costs.measure("drop the branch", lambda: store.drop_branch("first"))
    costs.measure("drop the other", lambda: store.drop_branch("second"))


def choose_places(given: str) -> Iterator[tuple[str, Path]]:
    """Yield where to make the store, with a folder for the cache; both are new."""
    with tempfile.TemporaryDirectory() as folder:
        yield given or (Path(folder) / "store").as_uri(), Path(folder) / "cache"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--store", default="", help="a new address; by default a temporary folder")
    given = parser.parse_args(None if arguments is None else list(arguments))
    for url, cache in choose_places(given.store):
        run(url, given.files, cache)


if __name__ == "__main__":
    main()
