"""A process that takes one huge commit of a source, or delivers one huge range, and says how much memory it took.

`python -m tests.connectors.conformance.memory STORE poll|deliver SPARK`: prints the growth of its resident memory, in bytes, from
before the work to the greatest extent during it.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from engine.connectors import registry
from engine.connectors.sources import poll_all
from engine.hummock.writes import batch
from engine.session import Session
from tests.connectors.sqlite_connector import JournalConnector


def resident() -> int:
    """Return the bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def greatest() -> int:
    """Return the greatest extent of this process's memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(url: str, what: str, spark: str) -> None:
    """Do the work once."""
    registry.register(JournalConnector())
    batch.SPILL_BYTES = 32 << 20  # what one commit gathers goes to files from there on: 512 MiB else
    with Session(url, None if spark == "none" else spark) as session:
        if spark != "none":
            session.computing.range(1).collect()
        before = resident()
        if what == "deliver":
            (report,) = session.sinks.run(wait_seconds=300)
            assert report.error is None and report.lag_rows == 0, report
        else:
            (polled,) = poll_all(session.catalog, session.store, None, lambda: session.computing)
            assert polled.error is None, polled
        print(greatest() - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
