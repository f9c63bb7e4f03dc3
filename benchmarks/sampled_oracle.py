"""How soon samples find a wrong row: `python -m benchmarks.sampled_oracle [--rows 1000000] [--share 0.01]`.

Three views of so many rows (computed row by row, joined, and grouped by a column that is no key) are compared as a whole, which
gives the seconds of a pass in one step. Then one row of each is falsified in its table, one is taken out, and one that should not
be there is put in, and a pass is taken in small steps. Printed are the seconds of comparing until all of them are found, how long
that takes at the share, and how long it takes at most by the page's formula: the seconds of the pass / the share. It ends with 1
if a right row differs, if the pass does not find each wrong one, or if its steps take MOST_OF_WHOLE times as long as one step.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.hummock import Delete, Put
from engine.runtime.oracle.sampling import restart_samples
from engine.session import Session

STEP = 500_000
VIEWS = {
    "prices": "SELECT id, auction, price * 2 AS twice FROM bid WHERE price > 0",
    "sellers": "SELECT b.id, b.price, a.seller FROM bid b JOIN auction a ON b.auction = a.id",
    "by_bidder": "SELECT bidder, count(*) AS bids, sum(price) AS total FROM bid GROUP BY bidder",
}
VALUES = {"prices": "twice", "sellers": "price", "by_bidder": "total"}
WRONG = 3
MOST_OF_WHOLE = 2.0
"""Steps read the view's inputs again and again; a machine's speed changes, too."""


def fill(session: Session, rows: int) -> None:
    """Make the tables and the views."""
    rng = np.random.default_rng(1)
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, seller BIGINT)")
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, bidder BIGINT, price BIGINT)")
    auctions = max(rows // 20, 1)
    session.write("auction", pa.table({"id": np.arange(auctions), "seller": np.arange(auctions) % 997}))
    for first in range(0, rows, STEP):
        ids = np.arange(first, min(first + STEP, rows))
        price = rng.integers(1, 10_000, len(ids))
        columns = {"id": ids, "auction": ids % auctions, "bidder": ids * 7 % rows, "price": price}
        session.write("bid", pa.table(columns))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.flush(background_seconds=3_600).raise_for_errors()


def falsify(session: Session, view: str, rng: np.random.Generator) -> None:
    """Falsify a random row of a view's table, take one out, and put one in."""
    store = session.store
    table = store.refresh().tables[view]
    rows = pa.Table.from_batches(store.reader.scan(table, table.committed_epoch), table.schema)
    key, value = table.primary_key[0], VALUES[view]
    wrong, gone, other = (rows.slice(int(at), 1) for at in rng.choice(len(rows), WRONG, replace=False))
    wrong = wrong.set_column(
        rows.column_names.index(value), value, pa.array([-1], rows.schema.field(value).type)
    )
    other = other.set_column(rows.column_names.index(key), key, pa.array([-7], pa.int64()))
    store.ingest_batch({view: [Put(wrong), Put(other), Delete(gone.select(list(table.primary_key)))]})


def main() -> None:
    """Run it, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.01)
    chosen = parser.parse_args()
    rng, bad = np.random.default_rng(2), False
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder).as_uri(), "local[2]") as session:
        fill(session, chosen.rows)
        print(f"{chosen.rows:,} rows, {chosen.share:.0%} of the time")
        for view in VIEWS:
            (whole,) = session.sample_rows([view], 3_600.0)
            bad |= bool(whole.differ) or not whole.passed
            falsify(session, view, rng)
            restart_samples(session.store, [view])
            found, seconds, found_after = 0, 0.0, 0.0
            passed = False
            while not passed:
                (step,) = session.sample_rows([view], 0.0)
                seconds, passed = seconds + step.seconds, step.passed
                if step.differences:
                    found, found_after = found + len(step.differences), seconds
            bad |= found != WRONG or seconds > whole.seconds * MOST_OF_WHOLE
            hours = 1 / chosen.share / 3600
            print(
                f"{view}: {whole.rows:,} rows compared in {whole.seconds:.1f} s ({whole.differ} differ), in steps in "
                f"{seconds:.1f} s; {found} of {WRONG} wrong rows found after {found_after:.1f} s, which is "
                f"{found_after * hours:.2f} h at the share, at most {seconds * hours:.2f} h"
            )
    sys.exit(bad)


if __name__ == "__main__":
    main()
