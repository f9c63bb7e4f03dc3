"""A process that keeps views of a store up to date until its input ends: some change, one fails, one has a sink.

Its bids come by files, of which one has a row that does not fit. `python -m tests.telemetry.workload STORE FOLDER`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pyarrow as pa

from engine.session import Session

STATEMENTS = (
    "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)",
    "CREATE TABLE landed (id BIGINT PRIMARY KEY, price BIGINT) WITH (connector = 'landing', path = '{folder}/landed')",
    "CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS best FROM bid GROUP BY auction",
    "CREATE MATERIALIZED VIEW by_best AS SELECT best, count(*) AS auctions FROM top GROUP BY best",
    "CREATE MATERIALIZED VIEW ratio AS SELECT id, 1000 DIV (price + 1) AS share FROM bid",
    "CREATE SINK top_files FROM top WITH (connector = 'file', path = '{folder}/out', format = 'jsonl')",
)
ROWS = 200


def main() -> None:
    """Write rows and flush, again and again; `ratio` fails from the third time on."""
    url, folder = sys.argv[1], Path(sys.argv[2])
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with Session(url) as session:
        (folder / "landed").mkdir(parents=True)
        for statement in STATEMENTS:
            session.sql(statement.format(folder=folder))
        (folder / "landed" / "one.csv").write_text("id,price\n1,30\n2,x\n")
        session.poll()
        print("ready", flush=True)
        for turn in range(1_000_000):
            first = turn * ROWS
            ids = range(first, first + ROWS)
            prices = [-1 if turn >= 2 and id == first else id % 50 + turn for id in ids]
            session.write(
                "bid", pa.table({"id": [*ids], "auction": [id % 50 for id in ids], "price": prices})
            )
            session.flush(eager=False)
            if turn % 8 == 7:
                session.compact()
            if ended.wait(0.2):
                return


if __name__ == "__main__":
    main()
