"""A process that polls all sources of a store and runs its views, or delivers its sinks, until it is told to end, or killed.

`python -m tests.connectors.conformance.process STORE poll|deliver SPARK`: says "ready" once it works, then what a round has done.
A line on its input ends it. SPARK is "none" where no session is needed.
"""

from __future__ import annotations

import select
import sys

from engine.connectors import registry
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.session import Session
from tests.connectors.sqlite_connector import JournalConnector

ROUND_SECONDS = 0.01
BACKFILL_ROWS = 5
"""From so many rows on a view is built in steps: kills come between them."""


def main(url: str, what: str, spark: str) -> None:
    """Work in rounds."""
    registry.register(JournalConnector())
    with Session(url, None if spark == "none" else spark, backfill_rows=BACKFILL_ROWS) as session:
        if spark != "none":
            session.computing.range(1).collect()
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], ROUND_SECONDS)[0]:
            session.store.refresh()
            if what == "deliver":
                deliver(session)
            else:
                poll(session)


def deliver(session: Session) -> None:
    """Deliver the sinks."""
    print("begins", flush=True)
    lines = [f"{report.rows} {report.error}" for report in session.sinks.run(wait_seconds=60)]
    print("; ".join(lines), flush=True)


def poll(session: Session) -> None:
    """Take what is pending, and run the views, also over what a process before this one has taken."""
    if compute_pending_digest(session.catalog, session.store)[0]:
        print("begins", flush=True)
        reports = poll_all(session.catalog, session.store, None, lambda: session.computing)
        print("; ".join(f"{report.rows} {report.error}" for report in reports), flush=True)
    session.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
