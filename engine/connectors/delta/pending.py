"""Whether what waits in a Delta table can still be read: its log may tell of versions whose files are gone (VACUUM)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.connectors.contract.connector import Spark
from engine.connectors.delta.frames import match_delta_columns, open_read_session, read_snapshot
from engine.connectors.delta.log import DeltaLog
from engine.connectors.delta.steps import DeltaPosition, HistoryGone, plan_next_step
from engine.sql.catalog import Relation

MOST_FILES = 1_000
"""So many files are looked for, from the oldest version on: the oldest go first, and in a bucket each look is a request."""


def check_pending(log: DeltaLog, relation: Relation, at: DeltaPosition, spark: Spark) -> None:
    """Raise HistoryGone if a version behind a position, or a file that tells what it has changed, is not there any more."""
    left = MOST_FILES
    for version, file in _list_pending_files(log, relation, at, spark):
        if left == 0:
            return
        left -= 1
        if not log.has_file(file):
            reason = (
                f"{file} of version {version} of the Delta table at {log.place.display_name} is gone (VACUUM "
                f"deletes such files)"
            )
            raise HistoryGone(relation.name, reason)


def _list_pending_files(
    log: DeltaLog, relation: Relation, at: DeltaPosition, spark: Spark
) -> Iterator[tuple[int, str]]:
    """Yield the files that a poll would read beside those of the newest version, each with its version."""
    step = plan_next_step(log, relation.name, at)
    while step is not None:
        if step.kind == "feed":
            for version in range(step.first, step.last + 1):
                commit = log.read_commit(version)
                yield from ((version, file) for file in (() if commit is None else commit.files))
        elif (
            step.kind == "difference" and relation.is_pass_through
        ):  # between two versions, both read as a whole
            yield from ((at.version, file) for file in _list_snapshot_files(log, relation, at, spark))
        at = step.then
        step = plan_next_step(log, relation.name, at)


def _list_snapshot_files(log: DeltaLog, relation: Relation, at: DeltaPosition, spark: Spark) -> list[str]:
    """Return the files of a version as a whole."""
    columns = match_delta_columns(relation, at.metadata, log.place)
    with open_read_session(spark, relation.name, log.place) as session:
        found = read_snapshot(session, relation, at.version, log.place, columns).inputFiles()
    return list(found)
