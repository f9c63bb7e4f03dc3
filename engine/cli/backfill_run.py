"""`tideline backfill --run`: new views are built on until each is there."""

from __future__ import annotations

from engine.cli.connections import open_session, report_progress


def run_backfills(store: str, spark: str) -> None:
    """Go on with all backfills until none is under way, and tell after each round what they wait for."""
    with open_session(store, spark) as running:
        while going_on := [wait for wait in running.waits() if wait.goes_on]:
            running.flush([name for wait in going_on for name in running.members(wait.domain)])
            for wait in running.waits():
                report_progress(f"{wait.domain}: {wait.reason}")
