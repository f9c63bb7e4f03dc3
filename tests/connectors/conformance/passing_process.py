"""A process that polls all sources of a store and brings its views on, until it is killed.

`python -m tests.connectors.conformance.passing_process STORE`: says "ready" once it works.
"""

from __future__ import annotations

import sys

from engine.connectors.sources import poll_all
from engine.session import Session


def main(url: str) -> None:
    """Work in rounds."""
    with Session(url, "local[1]", backfill_rows=5) as session:
        session.computing.range(1).collect()
        print("ready", flush=True)
        while True:
            poll_all(session.catalog, session.store, None, lambda: session.computing)
            session.flush(eager=True)


if __name__ == "__main__":
    main(sys.argv[1])
