"""A full compaction of one table: by the process that asks, and by Spark's tasks.

`python -m benchmarks.compaction [--rows 10000000] [--runs 8] [--rounds 3] [--spark local[2]] [--layout one|tasks]`

The table has `--rows` keys in a base run, of which a tenth is updated in each of the other runs and some are deleted. With
`--layout tasks` a run's files each hold a range of hashes, as tasks of a large epoch write them; with `one` each of them reaches
over all hashes. Each way compacts a copy of the store, in turns, and the rows are compared. Seconds, of the wall and of the
processors, are medians; memory is the peak of this process and of the largest Python worker, the most of all rounds; `driver` is
what tasks answered.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.dml import find_workers
from benchmarks.process_memory import read_high_water_mib, reset_high_water
from benchmarks.processors import measure_processors
from engine.hummock import Commit, Delete, Hummock, Put, SstInfo
from engine.hummock.compaction import RangeExecutor
from engine.hummock.compaction.pickers.vnode import list_group_bounds
from engine.hummock.rows.row_hash import xxhash64
from engine.runtime import compaction_tasks
from engine.runtime.compaction_tasks import SETTING, CompactionTasks
from engine.runtime.spark.session import EngineSpark, connect

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("n", pa.float64()), ("at", pa.timestamp("us"))])
BY_ITSELF, BY_TASKS = "by the process itself", "by tasks"
CHUNK = 1_000_000
GROUPS = 8


def fill_store(url: str, rows: int, runs: int, layout: str) -> None:
    """Make the store that is copied for each measurement."""
    chance = np.random.default_rng(0)
    with Hummock.open(url, auto_compact="off") as store:
        store.create_table("t", SCHEMA, ["id"], ["id"])
        for start in range(0, rows, CHUNK):
            _write(store, np.arange(start, min(rows, start + CHUNK)), "base", layout)
        store.compact("t")
        for run in range(1, runs):
            ids = np.sort(chance.choice(rows, rows // 10, replace=False))
            _write(store, ids, f"run {run}", layout)
            store.ingest_batch({"t": [Delete(pa.table({"id": ids[::50]}))]})


def _write(store: Hummock, ids: np.ndarray, label: str, layout: str) -> None:
    rows = pa.table(
        {
            "id": ids,
            "v": [f"{label} {one}" for one in ids.tolist()],
            "n": ids / 3,
            "at": pa.array(ids * 1_000_000, pa.int64()).cast(pa.timestamp("us")),
        },
        schema=SCHEMA,
    )
    if layout == "one":
        store.ingest_batch({"t": [Put(rows)]})
        return
    table, hashes, ssts = store.table("t"), xxhash64([pa.array(ids)]), list[SstInfo]()
    for low, high in list_group_bounds(GROUPS):
        some = rows.filter(pa.array((hashes >= low) & (hashes <= high)))
        operations = pa.repeat(pa.scalar(0, pa.uint8()), some.num_rows)
        ssts += store.reader.write_run(table, some.append_column("_op", operations))
    store.commit(Commit(writes={"t": ssts}))


def measure_compaction(given: Path, executor: Callable[[Hummock], RangeExecutor | None]) -> dict[str, float]:
    """Compact a copy of a store; returns what it took, and a digest of the rows."""
    copy = given.with_name("copy")
    shutil.copytree(given, copy)
    with Hummock.open(copy.as_uri(), auto_compact="off") as store:
        for pid in ("self", *find_workers()):
            reset_high_water(pid)
        before = store.metrics()
        started, burnt = time.perf_counter(), measure_processors().total
        report = store.compact("t", executor=executor(store))
        seconds, burnt = time.perf_counter() - started, measure_processors().total - burnt
        memory = (
            read_high_water_mib("self"),
            max((read_high_water_mib(pid) for pid in find_workers()), default=0.0),
        )
        metrics = store.metrics().since(before)
        digest = sum(float(np.nansum(batch.column("n").to_numpy())) for batch in store.iter("t"))
        files = [sst.rows for sst in store.version.tables["t"].live_ssts]
        assert sum(files) == report.rows_after
    shutil.rmtree(copy)
    return {
        "seconds": seconds,
        "cpu": burnt,
        "rows": report.rows_after,
        "files": len(files),
        "smallest": min(files),
        "driver": sum(metrics.driver_bytes.values()),
        "here": memory[0],
        "worker": memory[1],
        "digest": round(digest),
    }


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", default="local[2]")
    parser.add_argument("--layout", choices=["one", "tasks"], default="tasks")
    given = parser.parse_args()
    os.environ[SETTING] = "0"
    compaction_tasks.LEAST_ON_A_MACHINE = 1
    os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
    with tempfile.TemporaryDirectory(prefix="tideline-compaction-") as folder:
        os.environ["TIDELINE_CACHE_DIR"] = f"{folder}/cache"
        spark = connect(given.spark)
        ways: dict[str, Callable[[Hummock], RangeExecutor | None]] = {
            BY_ITSELF: lambda store: None,
            BY_TASKS: lambda store: CompactionTasks(store, lambda: EngineSpark.of(spark)),
        }
        warm, whole = Path(folder) / "warm" / "store", Path(folder) / "whole" / "store"
        fill_store(warm.as_uri(), 4_500_000, 2, given.layout)
        measure_compaction(warm, ways[BY_TASKS])
        fill_store(whole.as_uri(), given.rows, given.runs, given.layout)
        shutil.rmtree(f"{folder}/cache")
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for number in range(given.rounds):
            for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
                found[name].append(measure_compaction(whole, ways[name]))
        assert len({one["digest"] for some in found.values() for one in some}) == 1
        Console().print(render_table(given, found))


def render_table(given: argparse.Namespace, found: dict[str, list[dict[str, float]]]) -> Table:
    """Return the table of what was measured."""
    caption = f"{given.rows:,} keys in {given.runs} runs, files of {given.layout}, {given.spark}, median of {given.rounds}"
    table = Table(title=caption)
    for title in (
        "what",
        "seconds",
        "CPU",
        "rows",
        "files",
        "smallest",
        "driver",
        "MiB here",
        "MiB a worker",
    ):
        table.add_column(title, justify="left" if title == "what" else "right")
    for name, some in found.items():
        seconds, burnt = (statistics.median(one[key] for one in some) for key in ("seconds", "cpu"))
        most = {key: max(one[key] for one in some) for key in some[0]}
        cells = (f"{most[key]:,.0f}" for key in ("rows", "files", "smallest", "driver", "here", "worker"))
        table.add_row(name, f"{seconds:.1f}", f"{burnt:.1f}", *cells)
    return table


if __name__ == "__main__":
    main()
