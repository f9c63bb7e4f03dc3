"""One of several processes that write and flush the same store at once: `python -m tests.crash.racer STORE NAME EPOCHS SPARK`."""

from __future__ import annotations

import sys

import pyarrow as pa

from engine.errors import Fenced
from engine.session import Session


def race(store: str, writer: int, epochs: int, spark: str) -> None:
    """Write and flush `epochs` times; a flush that lost to another process is counted, not an error."""
    fenced = 0
    with Session(store, spark) as session:
        assert session.spark is not None
        print("ready", flush=True)
        sys.stdin.readline()
        for epoch in range(epochs):
            ids = [writer * 1_000_000 + epoch * 10 + i for i in range(10)]
            rows = pa.table({"id": ids, "auction": [i % 5 for i in ids], "price": [i % 97 for i in ids]})
            session.write("bid", rows)
            try:
                session.flush().raise_for_errors()
            except Fenced:
                fenced += 1
        session.flush().raise_for_errors()
    print(f"done {fenced}", flush=True)


if __name__ == "__main__":
    race(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
