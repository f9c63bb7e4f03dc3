"""A process that takes one huge commit of a source, or delivers one huge range, and says how much memory it took.

`python -m tests.connectors.conformance.memory STORE poll|deliver SPARK`: prints the growth of the memory that is its own, in bytes,
from before the work to the greatest extent during it. Mapped files (the cache of decoded ones) do not count: the system takes
their pages back when it needs them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.process_memory import read_own_mib
from engine.connectors import registry
from engine.connectors.sources import poll_all
from engine.hummock import compaction
from engine.hummock.sorted_files import file_set
from engine.hummock.writes import batch
from engine.session import Session
from tests.connectors.sqlite_connector import JournalConnector

SAMPLE_SECONDS = 0.005


@contextmanager
def sample_growth() -> Iterator[list[float]]:
    """Add to the list that it gives, again and again, by how many MiB this process's own memory has grown since the beginning."""
    before, grown, ended = read_own_mib(), [0.0], threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            grown.append(read_own_mib() - before)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield grown
    finally:
        ended.set()
        sampler.join()


def main(url: str, what: str, spark: str) -> None:
    """Do the work once."""
    registry.register(JournalConnector())
    batch.SPILL_BYTES = 8 << 20  # what one commit gathers goes to files from there on: 512 MiB else
    file_set.HELD_BYTES = (
        8 << 20
    )  # small files that stay open: 128 MiB else, which a few hundred commits fill
    compaction.TIER_ROWS = 500_000
    """So many rows a merge of small files has at hand: 2 million else, which only the greater of two commits would reach. A
    topic of 3 million rows takes 100 MiB without merges, and 260 MiB with one of 1.6 million rows."""
    with Session(url, None if spark == "none" else spark) as session:
        if spark != "none":
            session.computing.range(1).collect()
        with sample_growth() as grown:
            if what == "deliver":
                (report,) = session.sinks.run(wait_seconds=300)
                assert report.error is None and report.lag_rows == 0, report
            else:
                (polled,) = poll_all(session.catalog, session.store, None, lambda: session.computing)
                assert polled.error is None, polled
        print(round(max(grown) * (1 << 20)))


if __name__ == "__main__":
    main(*sys.argv[1:])
