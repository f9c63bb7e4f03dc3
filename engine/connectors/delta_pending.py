"""Whether what waits in a Delta table can still be read: its log may tell of versions whose files are gone (VACUUM)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.connectors.contract import Spark
from engine.connectors.delta_log import DeltaLog
from engine.connectors.delta_read import reading, snapshot_of, taken_columns
from engine.connectors.delta_steps import HistoryGone, Position, next_step
from engine.sql.catalog import Relation

MOST_FILES = 1_000
"""So many files are looked for, from the oldest version on: the oldest go first, and in a bucket each look is a request."""


def check_pending(log: DeltaLog, relation: Relation, at: Position, spark: Spark) -> None:
    """Raise HistoryGone if a version behind a position, or a file that tells what it has changed, is not there any more."""
    left = MOST_FILES
    for version, file in _files(log, relation, at, spark):
        if left == 0:
            return
        left -= 1
        if not log.holds(file):
            told = f"{file} of version {version} of the Delta table at {log.place.shown} is gone (VACUUM deletes such files)"
            raise HistoryGone(relation.name, told)


def _files(log: DeltaLog, relation: Relation, at: Position, spark: Spark) -> Iterator[tuple[int, str]]:
    """Yield the files that a poll would read beside those of the newest version, each with its version."""
    step = next_step(log, relation.name, at)
    while step is not None:
        if step.kind == "feed":
            for version in range(step.first, step.last + 1):
                commit = log.commit(version)
                yield from ((version, file) for file in (() if commit is None else commit.files))
        elif step.kind == "difference" and relation.passes:  # between two versions, both read as a whole
            yield from ((at.version, file) for file in _files_of(log, relation, at, spark))
        at = step.then
        step = next_step(log, relation.name, at)


def _files_of(log: DeltaLog, relation: Relation, at: Position, spark: Spark) -> list[str]:
    """Return the files of a version as a whole."""
    columns = taken_columns(relation, at.metadata, log.place)
    with reading(spark, relation.name, log.place) as session:
        found = snapshot_of(session, relation, at.version, log.place, columns).inputFiles()
    return list(found)
