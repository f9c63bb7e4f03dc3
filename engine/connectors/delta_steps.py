"""What comes next of a Delta table: which versions one commit takes, and whether as changes or as a difference.

A step's versions have one schema, so that Spark reads all of them alike; each version belongs to one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.connectors.delta_log import DeltaCommit, DeltaLog, Metadata
from engine.errors import SourceError

STEP_BYTES = 256 << 20
"""A commit takes further versions up to so many bytes of changes; one version may be larger."""
RESTORE = "RESTORE"


class HistoryGone(SourceError):
    """A Delta table's versions do not follow what was taken of it."""

    def __init__(self, table: str, why: str) -> None:
        self.table, self.why = table, why
        super().__init__(
            f"table {table}: {why}: ALTER TABLE {table} RESYNC writes the difference between it and the newest snapshot"
        )

    def of_source(self) -> SourceError:
        """Return the error of a source, which has no rows to compare with."""
        return SourceError(
            f"source {self.table}: {self.why}: DROP SOURCE {self.table} CASCADE, and create it and its views again, or CREATE "
            "TABLE … WITH (connector = 'delta', …), which keeps the rows"
        )


@dataclass(frozen=True)
class Position:
    """How far a Delta table is taken: up to a version, whose entry in the log had a digest, and what the table was there."""

    version: int
    digest: str
    metadata: Metadata


@dataclass(frozen=True)
class Step:
    """What one commit takes: versions from `first` to `last`, as changes or as a difference; afterwards it stands at `then`.

    `nothing` changes no row. `size` are bytes of files. Of changes `last` is the last version that has some.
    """

    kind: Literal["snapshot", "feed", "difference", "nothing"]
    first: int
    last: int
    size: int
    then: Position


def snapshot_step(log: DeltaLog, kind: Literal["snapshot", "difference"]) -> Step:
    """Return the step that brings a table to the newest version, whatever it holds."""
    newest = log.newest()
    digest = log.digest(newest)
    if digest is None:
        raise SourceError(f"version {newest} of the Delta table at {log.place.shown} has gone: poll again")
    return Step(kind, newest, newest, 0, Position(newest, digest, log.metadata(newest)))


def has_next(log: DeltaLog, at: Position) -> bool:
    """Tell whether a version has come, or what was taken has gone; the cost is that of two looks."""
    return log.look(at.version + 1) is not None or log.look(at.version) is None


def next_step(log: DeltaLog, table: str, at: Position, most: int = STEP_BYTES) -> Step | None:
    """Return what comes next, None if nothing has; raises HistoryGone where versions do not follow `at`."""
    _check_same(log, table, at)
    kind: Literal["feed", "difference", "nothing"] = "nothing"
    first = last = at.version + 1
    size, then, feeds = 0, at, True
    while (commit := _following(log, then, at)) is not None:
        wrong = _wrong(commit, then.metadata)
        if wrong and then is at:
            raise HistoryGone(table, wrong)
        metadata = commit.metadata or then.metadata
        its: Literal["feed", "difference"] = "feed" if metadata.has_feed else "difference"
        if wrong or (kind == "feed" and metadata.schema_string != then.metadata.schema_string):
            break
        log.place.check(commit.elsewhere)
        if commit.changes:
            if kind not in ("nothing", its) or (kind == "feed" and (not feeds or size + commit.size > most)):
                break
            first = commit.version if kind == "nothing" else first
            kind, size, last = its, size + commit.size, commit.version
        feeds = feeds and (
            metadata.has_feed or kind != "feed"
        )  # none is read across a version without, even one of no rows
        then = Position(commit.version, commit.digest, metadata)
    if then is at:
        if log.newest() > at.version:
            raise HistoryGone(
                table,
                f"version {at.version + 1} of the Delta table at {log.place.shown} is no longer in its log",
            )
        return None
    return Step(kind, first, last if kind == "feed" else then.version, size, then)


def _following(log: DeltaLog, then: Position, at: Position) -> DeltaCommit | None:
    """Return what the version behind a position did; raises SourceError for a broken entry once what came before it is taken."""
    try:
        return log.commit(then.version + 1)
    except SourceError:
        if then is at:
            raise
        return None


def _check_same(log: DeltaLog, table: str, at: Position) -> None:
    """Raise HistoryGone if the version that was taken last is another one by now."""
    digest = log.digest(at.version)
    if digest == at.digest:
        return
    where = f"the Delta table at {log.place.shown}"
    if digest is not None:
        raise HistoryGone(
            table, f"{where} was dropped and created again: version {at.version} is another one"
        )
    following = log.commit(at.version + 1)
    if following is None:
        raise HistoryGone(table, f"version {at.version} of {where} is gone: dropped, or no longer in its log")
    if log.metadata(following.version).id != at.metadata.id:  # old entries go once a checkpoint holds them
        raise HistoryGone(table, f"{where} was dropped and created again")


def _wrong(commit: DeltaCommit, before: Metadata) -> str:
    """Return why a version does not follow the one before as a change, "" if it does."""
    if commit.metadata is not None and commit.metadata.id != before.id:
        return f"version {commit.version} of its Delta table made the table anew"
    if commit.operation == RESTORE and commit.changes and (commit.metadata or before).has_feed:
        return f"version {commit.version} of its Delta table restored an earlier one"
    return ""
