"""Seconds per epoch of a maintained view against a full recompute by Spark, for small and large bases, in one run.

`python -m benchmarks.epochs [--base 100000 10000000] [--changes 1000] [--epochs 9]`
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from engine.runtime.spark import connect
from engine.session import Session

QUERY = "SELECT auction, count(*) AS bids, sum(price) AS total, max(price) AS high FROM bid GROUP BY auction"
CHUNK = 1_000_000


def bids(start: int, rows: int, groups: int, seed: int) -> pa.Table:
    """Return `rows` bids with ids from `start`, uniform over `groups` auctions."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(start, start + rows),
            "auction": chance.integers(0, groups, rows),
            "price": chance.integers(1, 10_000, rows),
        }
    )


def chunks(rows: int, groups: int) -> Iterator[pa.Table]:
    """Yield the base's rows in chunks."""
    for start in range(0, rows, CHUNK):
        yield bids(start, min(CHUNK, rows - start), groups, start)


def load(session: Session, folder: Path, rows: int, groups: int) -> float:
    """Write the base as a table of the store and as plain Parquet, create the view, and return the build's seconds."""
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT) APPEND ONLY")
    folder.mkdir()
    for n, chunk in enumerate(chunks(rows, groups)):
        session.write("bid", chunk, mode="insert")
        pq.write_table(chunk, folder / f"part-{n:04d}.parquet")
    started = time.perf_counter()
    session.sql(f"CREATE MATERIALIZED VIEW top AS {QUERY}")
    return time.perf_counter() - started


def epoch_seconds(session: Session, rows: int, groups: int, changes: int, epochs: int) -> list[float]:
    """Return the seconds of each epoch of `changes` new rows, after two that warm up."""
    seconds = []
    for epoch in range(epochs + 2):
        session.write("bid", bids(rows + epoch * changes, changes, groups, epoch + 7), mode="insert")
        started = time.perf_counter()
        session.flush().raise_for_errors()
        seconds.append(time.perf_counter() - started)
    return seconds[2:]


def recompute_seconds(session: Session, folder: Path, repeats: int = 3) -> list[float]:
    """Return the seconds of a full recompute by Spark of the same query, from Parquet to Parquet."""
    spark = session.spark
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    spark.read.parquet(str(folder)).createOrReplaceTempView("bid")
    seconds = []
    for n in range(repeats + 1):
        started = time.perf_counter()
        spark.sql(QUERY).write.mode("overwrite").parquet(str(folder.parent / f"recomputed-{folder.name}"))
        if n:
            seconds.append(time.perf_counter() - started)
    return seconds


def main() -> None:
    """Run every base and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=int, nargs="+", default=[100_000, 10_000_000])
    parser.add_argument("--changes", type=int, nargs="+", default=[1_000])
    parser.add_argument("--epochs", type=int, default=9)
    options = parser.parse_args()
    console, spark = Console(), connect("local[2]")
    shown = Table(
        "base rows", "groups", "rows an epoch", "build s", "epoch s (median)", "recompute s", "times faster"
    )
    medians: dict[int, dict[int, float]] = {}
    for rows in options.base:
        with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
            groups = max(rows // 2, 1)
            with Session((Path(folder) / "store").as_uri(), spark) as session:
                build = load(session, Path(folder) / "parquet", rows, groups)
                console.print(f"base {rows:,}: loaded, view built in {build:.1f} s")
                done = 0
                recompute = statistics.median(recompute_seconds(session, Path(folder) / "parquet"))
                for changes in options.changes:
                    seconds = epoch_seconds(session, rows + done, groups, changes, options.epochs)
                    done += changes * (options.epochs + 2)
                    median = statistics.median(seconds)
                    medians.setdefault(changes, {})[rows] = median
                    ratio = f"{recompute / median:.1f}"
                    shown.add_row(
                        f"{rows:,}",
                        f"{groups:,}",
                        f"{changes:,}",
                        f"{build:.1f}",
                        f"{median:.3f}",
                        f"{recompute:.2f}",
                        ratio,
                    )
    console.print(shown)
    for changes, by_base in medians.items():
        small, large = min(by_base), max(by_base)
        if small != large:
            console.print(
                f"epoch of {changes:,} rows: base {large:,} takes {by_base[large] / by_base[small]:.2f} x base {small:,}"
            )


if __name__ == "__main__":
    main()
