"""Damages the objects of a store at random and reads it: every answer is right, or an error that Tideline has a name for.

python -m tests.hummock.fuzz_objects --flips 10000 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import TidelineError
from engine.hummock import Delete, Hummock, Put
from engine.verification import VARIABLE
from tests.hummock.small import small_sizes

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64())])
TABLES = {"hashed": ["id"], "ordered": []}
ROWS = 40

Read = Callable[[Hummock], Any]


@dataclass
class Outcome:
    """What came of the damages by kind, and those that gave a wrong answer or an error without a name."""

    reports: Counter[str] = field(default_factory=Counter)
    unharmed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def build(folder: Path) -> None:
    """Make a store with checkpoints, bundles, runs, deletions, history, a boundary and a hint."""
    chance = random.Random(0)
    with Hummock.open(folder.as_uri(), cache_dir=folder.parent / "building", auto_compact="off") as store:
        for name, distribution in TABLES.items():
            store.create_table(name, SCHEMA, ["id"], distribution)
        for step in range(20):
            ids = chance.sample(range(ROWS), 12)
            given = pa.table({"id": ids, "name": [f"{step}.{n}" for n in ids], "v": [n / 3 for n in ids]})
            keys = pa.table({"id": chance.sample(range(ROWS), 2)})
            store.ingest_batch({name: [Put(given), Delete(keys)] for name in TABLES})
            if step in (6, 14):
                store.compact("hashed")
            if step == 9:
                store.compact_l0("ordered")
            if step == 12:
                store.gc(grace_seconds=0)


def reads(store: Hummock) -> dict[str, Read]:
    """What is asked of a store; each starts from files that nobody has decoded."""
    found: dict[str, Read] = {}
    for name in TABLES:
        safe = store.version.tables[name].safe_epoch
        found |= {
            f"get {name}": lambda s, name=name: [s.get(name, {"id": n}) for n in range(0, ROWS, 5)],
            f"multi_get {name}": lambda s, name=name: s.multi_get(name, _ids()).to_pylist(),
            f"scan {name}": lambda s, name=name: _rows(s.iter(name)),
            f"log {name}": lambda s, name=name, safe=safe: _rows(s.iter_log(name, safe)),
            f"past {name}": lambda s, name=name, safe=safe: _rows(s.iter(name, epoch=safe)),
        }
    return found


def _ids() -> pa.Table:
    return pa.table({"id": pa.array(range(ROWS), pa.int64())})


def _rows(parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for row in part.to_pylist()]


def damage(chance: random.Random, paths: Sequence[Path]) -> tuple[str, dict[Path, bytes]]:
    """Damage one object, or swap two of a kind; return what was done, and the bytes to restore."""
    path = chance.choice(paths)
    before = path.read_bytes()
    kind = chance.choice(("bit", "bit", "bit", "byte", "bytes", "cut", "empty", "longer", "swap"))
    data, saved = bytearray(before), {path: before}
    if kind == "swap":
        other = chance.choice([p for p in paths if p.parent == path.parent])
        saved[other] = other.read_bytes()
        path.write_bytes(saved[other])
        other.write_bytes(before)
        return f"swap {path.name} with {other.name}", saved
    if kind == "bit":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "byte":
        data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == "bytes":
        start = chance.randrange(len(data))
        data[start : start + 16] = chance.randbytes(len(data[start : start + 16]))
    elif kind == "cut":
        del data[chance.randrange(len(data)) :]
    elif kind == "empty":
        data.clear()
    else:
        data += chance.randbytes(chance.randrange(1, 64))
    path.write_bytes(data)
    return f"{kind} of {path.parent.name}/{path.name}", saved


def run(flips: int, seed: int, folder: Path, tell: Callable[[str], None] = lambda text: None) -> Outcome:
    """Damage the store `flips` times, one damage at a time, and read it; every tenth time the local cache instead."""
    outcome, started = Outcome(), time.perf_counter()
    with small_sizes(), _unverified():
        build(folder / "store")
        url = (folder / "store").as_uri()
        with Hummock.open(url, cache_dir=folder / "right", create=False, auto_compact="off") as store:
            asked = reads(store)
            right = {name: read(store) for name, read in asked.items()}
        objects = sorted(p for p in (folder / "store").rglob("*") if p.is_file())
        cached = sorted(p for p in (folder / "right").rglob("*.arrow"))
        for number in range(flips):
            chance = random.Random(f"{seed}/{number}")
            name = chance.choice(sorted(asked))
            in_cache = number % 10 == 9
            what, saved = damage(chance, cached if in_cache else objects)
            cache = folder / ("right" if in_cache else "cold")
            kind = f"{what.split(' ')[0]} in {'cache' if in_cache else next(iter(saved)).parent.name}"
            try:
                answer = _ask(url, cache, asked[name])
            except TidelineError as error:
                outcome.reports[kind] += 1
                if in_cache:
                    outcome.failures.append(
                        f"{number}: {what}: {name}: the cache is never needed, but {error}"
                    )
            except Exception as error:
                outcome.failures.append(f"{number}: {what}: {name}: {type(error).__name__}: {error}")
            else:
                outcome.unharmed[kind] += 1
                if answer != right[name]:
                    outcome.failures.append(f"{number}: {what}: {name}: a wrong answer")
            for path, data in saved.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            shutil.rmtree(folder / "cold", ignore_errors=True)
            if number % 500 == 499:
                seconds = time.perf_counter() - started
                tell(f"{number + 1} damages in {seconds:.0f} s, {len(outcome.failures)} failures")
    return outcome


@contextlib.contextmanager
def _unverified() -> Iterator[None]:
    """Read as in production: where claims are checked, a wrong answer would be told by the check."""
    before = os.environ.pop(VARIABLE, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[VARIABLE] = before


def _ask(url: str, cache: Path, read: Read) -> Any:
    store = Hummock.open(url, cache_dir=cache, create=False, auto_compact="off")
    try:
        return read(store)
    finally:
        store.close()


def main() -> int:
    """Run from the command line; the exit code is 1 if there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tideline-fuzz-"))
    try:
        outcome = run(given.flips, given.seed, folder, lambda text: print(text, flush=True))
    finally:
        shutil.rmtree(folder)
    for kind in sorted(outcome.reports | outcome.unharmed):
        print(f"{kind:20} reports {outcome.reports[kind]:6}   unharmed {outcome.unharmed[kind]:6}")
    for failure in outcome.failures[:50]:
        print(failure)
    print(f"{given.flips} damages, seed {given.seed}: {len(outcome.failures)} failures")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
