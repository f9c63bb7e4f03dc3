"""What fingerprints cost: `python -m benchmarks.fingerprints [--rows 1000000] [--changes 1000] [--epochs 60] [--verify 1000000]`.

Two stores have the same tables and views, one of them without fingerprints. In turns, and in changing order, each gets the same
changes, which are new rows and updates. The seconds of writes and flushes are printed, with the median of the ratios of pairs
that were measured right after one another. Then all fingerprints are brought on, and the rows of a table are verified, again
after one cell of one file has been changed without a trace. It ends with 1 if a fingerprint is wrong, or that cell is not found.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.session import Session
from tests.hummock.upkeep.planted_cells import plant

STEP = 1_000_000
WARM = 8
VIEWS = {
    "by_auction": "SELECT auction, count(*) AS bids, sum(price) AS total, max(price) AS best FROM bid GROUP BY auction",
    "dear": "SELECT b.id, b.price, a.seller FROM bid b JOIN auction a ON b.auction = a.id WHERE b.price > 5000",
}


@dataclass
class Side:
    """One of the two stores, and the seconds that its epochs took."""

    session: Session
    writes: list[float] = field(default_factory=list)
    flushes: list[float] = field(default_factory=list)

    @property
    def epochs(self) -> list[float]:
        """The seconds of a write and its flush."""
        return [write + flush for write, flush in zip(self.writes, self.flushes, strict=True)]

    def run_epoch(self, rows: pa.Table, *, counts: bool) -> None:
        """Write changes and bring the views up to date."""
        started = time.perf_counter()
        self.session.write("bid", rows)
        written = time.perf_counter()
        self.session.flush().raise_for_errors()
        if counts:
            self.writes.append(written - started)
            self.flushes.append(time.perf_counter() - written)


def build_rows(rng: np.random.Generator, ids: np.ndarray, auctions: int) -> pa.Table:
    """Return bids of some ids."""
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "auction": rng.integers(0, auctions, count),
            "price": rng.integers(1, 10_000, count),
            "bidder": [f"bidder {n}" for n in rng.integers(0, 1000, count).tolist()],
        }
    )


def fill(session: Session, rows: int, *, keeps: bool) -> None:
    """Make the tables and views of a store."""
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, bidder STRING)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, seller BIGINT)")
    auctions, rng = max(1, rows // 5), np.random.default_rng(0)
    session.write("auction", pa.table({"id": np.arange(auctions), "seller": rng.integers(0, 100, auctions)}))
    for begin in range(0, rows, STEP):
        session.write("bid", build_rows(rng, np.arange(begin, min(rows, begin + STEP)), auctions))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.flush().raise_for_errors()
    if not keeps:
        for name in session.store.refresh().tables:
            session.store.alter_table(name, fingerprint=False)


def compare_epochs(folder: Path, rows: int, changes: int, epochs: int) -> bool:
    """Measure epochs of two stores in turns; False if a fingerprint is wrong."""
    with (
        Session((folder / "host").as_uri()) as host,
        Session((folder / "with").as_uri(), host.spark) as first,
        Session((folder / "without").as_uri(), host.spark) as second,
    ):
        sides = Side(first), Side(second)  # neither has started Spark
        for side, keeps in zip(sides, (True, False), strict=True):
            fill(side.session, rows, keeps=keeps)
        rng, auctions = np.random.default_rng(1), max(1, rows // 5)
        for number in range(WARM + epochs):
            new = rows + number * (changes // 2) + np.arange(changes // 2)
            ids = np.concatenate([new, rng.choice(rows, changes - len(new), replace=False)])
            made = build_rows(rng, ids, auctions)
            for side in sides if number % 2 else sides[::-1]:
                side.run_epoch(made, counts=number >= WARM)
        print(f"{changes:,} changes, {rows:,} rows, {epochs} epochs of each, medians")
        print(f"{'':8} {'with':>10} {'without':>10} {'ratio':>8}")
        for what in ("writes", "flushes", "epochs"):
            one, other = (getattr(side, what) for side in sides)
            ratio = statistics.median(a / b for a, b in zip(one, other, strict=True))
            print(f"{what:8} {statistics.median(one):8.4f} s {statistics.median(other):8.4f} s {ratio:8.3f}")
        behind = [
            t.name
            for t in first.store.version.tables.values()
            if t.fingerprint and t.fingerprint.epoch < t.committed_epoch
        ]
        print(f"behind: {', '.join(behind) or 'none'}")
        started = time.perf_counter()
        first.store.maintenance.move_fingerprints()
        print(f"moved on in {time.perf_counter() - started:.3f} s")
        names = [n for n, t in first.store.refresh().tables.items() if t.table.has_fingerprint]
        return all([first.store.verify_fingerprint(name).is_right for name in names])


def measure_verification(folder: Path, rows: int) -> bool:
    """Measure how long a table is read and compared; False if its fingerprint is wrong, or a flipped cell is not found."""
    with Session((folder / "verified").as_uri()) as session:
        session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, bidder STRING)")
        rng = np.random.default_rng(0)
        for begin in range(0, rows, STEP):
            session.write("bid", build_rows(rng, np.arange(begin, min(rows, begin + STEP)), rows))
        started = time.perf_counter()
        session.store.fingerprint("bid")
        moved = time.perf_counter()
        check = session.store.verify_fingerprint("bid")
        seconds = time.perf_counter() - moved
        print(
            f"verified {check.rows:,} rows in {seconds:.2f} s, after the log was read in {moved - started:.2f} s"
        )
        path = plant(session.store, "bid", column="price")
        found = session.store.verify_fingerprint("bid")
        print(f"one cell of {found.rows:,} rows flipped: {'not found' if found.is_right else 'found'}")
        return check.is_right and not found.is_right and found.damaged == (path,)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--verify", type=int, default=1_000_000)
    given = parser.parse_args(None if arguments is None else list(arguments))
    with tempfile.TemporaryDirectory() as folder:
        right = compare_epochs(Path(folder), given.rows, given.changes, given.epochs)
        right &= measure_verification(Path(folder), given.verify)
    sys.exit(0 if right else "a fingerprint is wrong")


if __name__ == "__main__":
    main()
