"""Seconds per epoch of a view of eight joins and of a chain of ten views, after 1,000 changes.

`python -m benchmarks.deep_views [--rows 200000] [--changes 1000] [--epochs 4]`

Each epoch brings new rows and overwrites old ones; at the end both views are compared with their queries over the base tables.
Exit status 1: an epoch took longer than the bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from engine.runtime.spark.session import connect
from engine.session import Session

JOINS, CHAIN, DIMENSION_ROWS = 8, 10, 1_000
MOST_SECONDS = 10.0
LAST = f"c{CHAIN - 1}"
EIGHT = f"SELECT f.id, f.x, {', '.join(f'd{i}.name AS n{i}' for i in range(JOINS))} FROM fact f " + " ".join(
    f"JOIN dimension{i} d{i} ON f.k{i} = d{i}.id" for i in range(JOINS)
)


def make_facts(ids: np.ndarray, chance: np.random.Generator) -> pa.Table:
    """Return rows with a key into every dimension."""
    keys = {f"k{i}": chance.integers(0, DIMENSION_ROWS, len(ids)) for i in range(JOINS)}
    return pa.table({"id": ids, **keys, "x": chance.integers(0, 100, len(ids))})


def create(session: Session, rows: int, chance: np.random.Generator) -> None:
    """Create the base tables and both views."""
    keys = ", ".join(f"k{i} BIGINT" for i in range(JOINS))
    session.sql(f"CREATE TABLE fact (id BIGINT PRIMARY KEY, {keys}, x BIGINT)")
    for i in range(JOINS):
        session.sql(f"CREATE TABLE dimension{i} (id BIGINT PRIMARY KEY, name STRING)")
        names = [f"{i}-{k}" for k in range(DIMENSION_ROWS)]
        session.write(f"dimension{i}", pa.table({"id": np.arange(DIMENSION_ROWS), "name": names}))
    session.write("fact", make_facts(np.arange(rows), chance))
    session.sql(f"CREATE MATERIALIZED VIEW eight AS {EIGHT}", build=False)
    below = "fact"
    for n in range(CHAIN):
        session.sql(f"CREATE MATERIALIZED VIEW c{n} AS SELECT id, x + 1 AS x FROM {below}", build=False)
        below = f"c{n}"
    session.flush().raise_for_errors()


def change(session: Session, rows: int, number: int, changes: int, chance: np.random.Generator) -> None:
    """Write one epoch's changes: half of them new rows, most others overwrite rows, a few rename an entry of a dimension."""
    renamed = max(changes // 1_000, 1)
    new = changes // 2
    old = changes - new - renamed
    ids = np.concatenate([chance.choice(rows, old, replace=False), rows + number * new + np.arange(new)])
    session.write("fact", make_facts(ids, chance))
    entries = chance.choice(DIMENSION_ROWS, renamed, replace=False)
    session.write("dimension0", pa.table({"id": entries, "name": [f"again-{number}"] * renamed}))


def find_differences(session: Session) -> dict[str, tuple[object, object]]:
    """Return what distinguishes each view from its query over the base tables, by sums over their rows."""
    hashed = "SELECT count(*) AS n, sum(CAST(xxhash64(v.*) AS DECIMAL(38, 0))) AS h FROM"
    pairs = {
        "eight": (f"{hashed} eight v", f"{hashed} ({EIGHT}) v"),
        LAST: (
            f"SELECT count(*) AS n, sum(id * x) AS h FROM {LAST}",
            f"SELECT count(*) AS n, sum(id * (x + {CHAIN})) AS h FROM fact",
        ),
    }
    found = {}
    for view, texts in pairs.items():
        stored, expected = ([tuple(row.values()) for row in _read_rows(session, text)] for text in texts)
        if stored != expected:
            found[view] = (stored, expected)
    return found


def _read_rows(session: Session, text: str) -> list[dict[str, object]]:
    answer = session.sql(text)
    assert answer is not None
    return answer.to_pylist()


def main() -> int:
    """Build, change, measure, compare; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    console, chance = Console(), np.random.default_rng(1)
    table = Table("epoch", "seconds", "eight joins", f"first of {CHAIN}", f"last of {CHAIN}")
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
        Session(Path(folder).as_uri(), connect("local[2]")) as session,
    ):
        started = time.perf_counter()
        create(session, options.rows, chance)
        console.print(f"{options.rows:,} rows; views built in {time.perf_counter() - started:.1f} s")
        seconds = []
        for number in range(options.epochs):
            change(session, options.rows, number, options.changes, chance)
            started = time.perf_counter()
            report = session.flush()
            seconds.append(time.perf_counter() - started)
            report.raise_for_errors()
            each = [f"{report[view].seconds:.2f}" for view in ("eight", "c0", LAST)]
            table.add_row(str(number + 1), f"{seconds[-1]:.2f}", *each)
        wrong = find_differences(session)
    console.print(table)
    for view, (stored, expected) in wrong.items():
        console.print(f"[bold red]{view} differs from its query: {stored}, not {expected}[/]")
    holds = max(seconds) < MOST_SECONDS
    verdict = "[green]PASS[/]" if holds else "[bold red]FAIL[/]"
    console.print(
        f"epoch of {options.changes:,} changes: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s, "
        f"demanded < {MOST_SECONDS:g} s: {verdict}"
    )
    console.print(
        f"{os.cpu_count()} cores, load average {', '.join(f'{value:.1f}' for value in os.getloadavg())}"
    )
    return 0 if holds and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
