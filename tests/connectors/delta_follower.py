"""A process that follows Delta tables into Delta tables, round after round, until it is killed.

`python -m tests.connectors.delta_follower STORE FOLDER…`: polls all sources, brings views on, delivers sinks, and does what errors
say. After a round in which all was brought it says "idle" and how many versions the Delta tables in the folders had before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from engine.connectors.sources import compute_pending_digest, poll_all
from engine.session import Session


def versions_of(folders: tuple[str, ...]) -> int:
    """Return how many versions the logs of Delta tables have."""
    return sum(len(list(Path(folder, "_delta_log").glob("*.json"))) for folder in folders)


def bring(session: Session) -> bool:
    """Bring on what there is; tell whether that was all."""
    reports = poll_all(session.catalog, session.store, None, lambda: session.computing)
    for report in reports:
        if report.error is not None and f"ALTER TABLE {report.table} RESYNC" in report.error:
            session.sql(f"ALTER TABLE {report.table} RESYNC")
        elif report.error is not None:
            print(f"error {report.error}", flush=True)
    done = session.flush(sink_seconds=60)
    done.raise_for_all()
    for sink in done.sinks:
        if sink.error is not None:
            print(f"error {sink.error}", flush=True)
    left = [one.error for one in (*reports, *done.sinks) if one.error] or any(s.lag_rows for s in done.sinks)
    return not left and compute_pending_digest(session.catalog, session.store)[0] == 0


def main(url: str, *folders: str) -> None:
    """Work in rounds."""
    with Session(url, "local[2]") as session:
        session.computing.range(1).collect()
        print("ready", flush=True)
        while True:
            before = versions_of(folders)
            if bring(session):
                print(f"idle {before}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
