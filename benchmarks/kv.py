"""The storage engine by itself beside other stores, same bytes, everything durable, in one run.

`python -m benchmarks.kv [--rows 1000000] [--batch 100000] [--values realistic random] [--engines rocksdict ...]`

One million rows of an int64 key and a 100-byte value. Keys come in random order. `realistic` values are records as
applications store them (a name, a state, a city, an amount, a time and a random id as text); `random` values are random
bytes that nothing can compress. Prints rows a second per engine, the ratios to rocksdict, and whether the required
ratios hold; the exit code is 1 if one does not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.kv_engines import (
    SCHEMA,
    DeltaLake,
    DuckDb,
    Engine,
    Lmdb,
    RocksDict,
    Tideline,
    measure_median_seconds,
)

VALUE_BYTES = 100
MULTI_GET_KEYS = 10_000
SINGLE_GETS = 500
CACHED_GET_SECONDS = 1e-3
REQUIRED = {
    "ingest": 3.0,
    "overwrite": 3.0,
    "multi-get": 2.0,
    "scan": 1.5,
    "compacted multi-get": 2.0,
    "compacted scan": 2.0,
    "size": 1.0,
    "delete": 1.0,
}
"""The least ratio to rocksdict: rows a second against rows a second; for the size, its bytes by our compression against ours."""
ENGINES: dict[str, Callable[[Path], Engine]] = {
    "tideline-key": lambda folder: Tideline(folder, distributed=False),
    "tideline-hash": lambda folder: Tideline(folder, distributed=True),
    "rocksdict": RocksDict,
    "rocksdict-zstd": lambda folder: RocksDict(folder, zstd=True),
    "lmdb": Lmdb,
    "deltalake": DeltaLake,
    "duckdb": DuckDb,
}


@dataclass
class Result:
    """What one engine did: rows a second by workload, the median of a single get, bytes on disk."""

    name: str
    rates: dict[str, float] = field(default_factory=dict)
    get_seconds: float = 0.0
    size: int = 0
    cache: int = 0


def make_random_values(rows: int, chance: np.random.Generator) -> pa.Array:
    """Return values of random bytes."""
    data = pa.py_buffer(chance.bytes(rows * VALUE_BYTES))
    offsets = pa.py_buffer(np.arange(0, rows * VALUE_BYTES + 1, VALUE_BYTES, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), rows, [None, offsets, data])


def make_realistic_values(rows: int, chance: np.random.Generator) -> pa.Array:
    """Return records as text: name, state, city, amount, time and a random id, cut to the value's length."""
    names = ["anna", "boris", "chen", "dara", "emeka", "fatima", "goran", "hilde", "ines", "jun"]
    states = ["open", "paid", "packed", "shipped", "returned"]
    cities = ["lisbon", "osaka", "lagos", "lima", "tallinn", "pune", "quito", "turin", "perth", "dakar"]
    who, state, city = (chance.integers(0, len(words), rows) for words in (names, states, cities))
    amount, seconds = (
        chance.integers(100, 10_000_000, rows),
        chance.integers(1_700_000_000, 1_760_000_000, rows),
    )
    noise = chance.bytes(rows * 20).hex()
    values = []
    for row in range(rows):
        text = (
            f'{{"name":"{names[who[row]]}","state":"{states[state[row]]}","city":"{cities[city[row]]}",'
            f'"amount":{amount[row] / 100},"at":{seconds[row]},"id":"{noise[row * 40 : row * 40 + 40]}'
        )
        values.append(text[:VALUE_BYTES].ljust(VALUE_BYTES, ".").encode())
    return pa.array(values, pa.binary())


VALUES = {"random": make_random_values, "realistic": make_realistic_values}


@dataclass(frozen=True)
class Workload:
    """The same work for every engine."""

    first: list[pa.Table]
    second: list[pa.Table]
    wanted: list[np.ndarray]
    expected: list[list[bytes]]
    singles: np.ndarray
    deleted: list[np.ndarray]
    rows: int
    key_sum: int


def make_workload(kind: str, rows: int, batch: int, seed: int = 7) -> Workload:
    """Make the rows, twice in different random orders, and the keys to ask for and to delete."""
    chance = np.random.default_rng(seed)
    keys = chance.permutation(np.arange(rows, dtype=np.int64) * 37 + 11)

    def split_batches(order: np.ndarray) -> list[pa.Table]:
        values = VALUES[kind](rows, chance)
        table = pa.table([pa.array(order), values], schema=SCHEMA)
        return [pa.concat_tables([table.slice(at, batch)]).combine_chunks() for at in range(0, rows, batch)]

    first, second = split_batches(keys), split_batches(chance.permutation(keys))
    newest = {}
    for table in second:
        newest.update(zip(table.column("k").to_pylist(), table.column("v").to_pylist(), strict=True))
    lookups = [chance.choice(keys, min(MULTI_GET_KEYS, rows), replace=False) for _ in range(5)]
    expected = [[newest[key] for key in some.tolist()] for some in lookups]
    gone = chance.permutation(keys)[: rows // 2]
    deleted = [gone[at : at + batch] for at in range(0, len(gone), batch)]
    return Workload(
        first, second, lookups, expected, chance.choice(keys, SINGLE_GETS), deleted, rows, int(keys.sum())
    )


def run(engine: Engine, load: Workload, folder: Path) -> Result:
    """Run every workload on an empty engine, checking the answers outside the clock."""
    result = Result(engine.name)

    def measure_writes(what: str, batches: list[object], write: Callable[[object], None], rows: int) -> None:
        os.sync()
        started = time.perf_counter()
        for batch in batches:
            write(batch)
        result.rates[what] = rows / (time.perf_counter() - started)

    def measure_reads(prefix: str) -> None:
        prepared = [engine.prepare_keys(keys) for keys in load.wanted]
        for keys, expected in zip(prepared, load.expected, strict=True):
            if engine.values_of(engine.multi_get(keys)) != expected:
                raise AssertionError(
                    f"{engine.name}: {prefix}multi-get does not answer what was written last"
                )
        next_keys = iter(prepared * 3)
        result.rates[f"{prefix}multi-get"] = len(load.wanted[0]) / measure_median_seconds(
            len(prepared) * 3, lambda: engine.multi_get(next(next_keys))
        )
        answers = []
        result.rates[f"{prefix}scan"] = load.rows / measure_median_seconds(
            3, lambda: answers.append(engine.scan())
        )
        if set(answers) != {(load.rows, load.key_sum)}:
            raise AssertionError(f"{engine.name}: {prefix}scan read {answers}, not {load.rows} rows")

    measure_writes(
        "ingest", [engine.prepare_rows(t) for t in load.first], lambda b: engine.upsert(b, True), load.rows
    )
    measure_writes(
        "overwrite",
        [engine.prepare_rows(t) for t in load.second],
        lambda b: engine.upsert(b, False),
        load.rows,
    )
    measure_reads("")
    singles = engine.prepare_keys(load.singles)
    next_key = iter(singles.column("k").to_pylist() if isinstance(singles, pa.Table) else singles)
    result.get_seconds = measure_median_seconds(
        len(load.singles) if engine.name != "deltalake (no fsync)" else 5, lambda: engine.get(next(next_key))
    )
    started = time.perf_counter()
    if engine.compact():
        result.rates["compaction"] = load.rows / (time.perf_counter() - started)
    measure_reads("compacted ")
    engine.tidy()
    result.cache = measure_folder(folder / "cache")
    result.size = measure_folder(folder) - result.cache
    rows = sum(len(keys) for keys in load.deleted)
    measure_writes("delete", [engine.prepare_keys(keys) for keys in load.deleted], engine.delete, rows)
    if engine.scan()[0] != load.rows - rows:
        raise AssertionError(f"{engine.name}: deleted rows are still there")
    engine.close()
    return result


def measure_folder(folder: Path) -> int:
    """Return the bytes that the files below a folder take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def compute_ratios(ours: Result, theirs: Result) -> dict[str, float]:
    """Return how many times better `ours` is, by workload."""
    found = {what: ours.rates[what] / theirs.rates[what] for what in ours.rates if what in theirs.rates}
    return {**found, "size": theirs.size / ours.size}


def render_table(results: list[Result], kind: str, rows: int, batch: int) -> Table:
    """Return the table of all engines and workloads."""
    table = Table(
        title=f"{rows:,} rows, {VALUE_BYTES}-byte {kind} values, batches of {batch:,}: thousand rows/s"
    )
    table.add_column("")
    reference = next((result for result in results if result.name == "rocksdict"), None)
    for result in results:
        table.add_column(result.name, justify="right")
        if reference is not None and result.name.startswith("tideline"):
            table.add_column("x rocksdict", justify="right", style="bold")
    for what in results[0].rates:
        cells = []
        for result in results:
            cells.append(f"{result.rates[what] / 1000:,.0f}" if what in result.rates else "-")
            if reference is not None and result.name.startswith("tideline"):
                cells.append(f"{compute_ratios(result, reference)[what]:.1f}")
        table.add_row(what, *cells)
    for label, cell in (
        ("single get, median us", lambda r: f"{r.get_seconds * 1e6:,.0f}"),
        ("MB on disk, compacted", lambda r: f"{r.size / 1e6:,.0f}"),
        ("MB of local cache", lambda r: f"{r.cache / 1e6:,.0f}" if r.cache else "-"),
    ):
        cells = []
        for result in results:
            cells.append(cell(result))
            if reference is not None and result.name.startswith("tideline"):
                cells.append(f"{compute_ratios(result, reference)['size']:.2f}" if "disk" in label else "")
        table.add_row(label, *cells)
    return table


def check_ratios(results: list[Result]) -> list[tuple[bool, str]]:
    """Return (holds, sentence) for each required ratio and for the single get."""
    reference = next((result for result in results if result.name == "rocksdict"), None)
    packed = next((result for result in results if result.name == "rocksdict-zstd"), reference)
    found = []
    for result in (result for result in results if result.name.startswith("tideline")):
        if reference is not None:
            reached = compute_ratios(result, reference)
            if packed is not None:
                reached["size"] = packed.size / result.size
            found += [
                (
                    reached[what] >= least,
                    f"{result.name}: {what} {reached[what]:.2f} x rocksdict, required {least:g} x",
                )
                for what, least in REQUIRED.items()
            ]
        found.append(
            (
                result.get_seconds <= CACHED_GET_SECONDS,
                f"{result.name}: cached get {result.get_seconds * 1e3:.2f} ms at the median, required 1 ms",
            )
        )
    return found


def main() -> None:
    """Run the engines one after another and print what they did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--values", nargs="+", choices=list(VALUES), default=list(VALUES))
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    options = parser.parse_args()
    console, holds = Console(width=160), True
    for kind in options.values:
        load, results = make_workload(kind, options.rows, options.batch), []
        for name in options.engines:
            folder = Path(tempfile.mkdtemp(prefix=f"tideline-kv-{name}-"))
            try:
                results.append(run(ENGINES[name](folder), load, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            console.print(f"{kind} values: {results[-1].name} done", style="dim")
        console.print(render_table(results, kind, options.rows, options.batch))
        for good, sentence in check_ratios(results):
            holds = holds and good
            console.print(f"{'pass' if good else 'FAIL'}  {sentence}", style="green" if good else "red")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
