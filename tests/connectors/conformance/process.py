"""A process that polls all sources of a store, or delivers its sinks, until it is told to end, or killed.

`python -m tests.connectors.conformance.process STORE poll|deliver SPARK`: says "ready" once it works, then a line a round. A
line on its input ends it. SPARK is "none" where no session is needed.
"""

from __future__ import annotations

import select
import sys
import time

from engine.connectors import registry
from engine.connectors.sources import pending_digest, poll_all
from engine.session import Session
from tests.connectors.sqlite_connector import JournalConnector

ROUND_SECONDS = 0.01


def main(url: str, what: str, spark: str) -> None:
    """Work in rounds."""
    registry.register(JournalConnector())
    with Session(url, None if spark == "none" else spark) as session:
        if spark != "none":
            session.computing.range(1).collect()
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            session.store.refresh()
            if what == "deliver":
                print("begins", flush=True)
                reports = session.sinks.run(wait_seconds=60)
                told = [f"{report.rows} {report.error}" for report in reports]
            elif pending_digest(session.catalog, session.store)[0]:
                print("begins", flush=True)
                polled = poll_all(session.catalog, session.store, None, lambda: session.computing)
                told = [f"{report.rows} {report.error}" for report in polled]
            else:
                told = []
            if told:
                print("; ".join(told), flush=True)
            time.sleep(ROUND_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
