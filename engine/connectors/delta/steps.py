"""What comes next of a Delta table: which versions one commit takes, and whether as changes or as a difference.

A step's versions have one schema, so that Spark reads all of them alike; each version belongs to one step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.connectors.delta.file_changes import FileChanges
from engine.connectors.delta.log import DeltaCommit, DeltaLog, Metadata
from engine.errors import SourceError

STEP_BYTES = 256 << 20
"""A commit takes further versions up to so many bytes of changes; one version may be larger."""
RESTORE = "RESTORE"
Means = Literal["feed", "files"]
ALL_MEANS: frozenset[Means] = frozenset(("feed", "files"))
"""What tells the changes between two versions: a change data feed, or which files came and went."""


class HistoryGone(SourceError):
    """A Delta table's versions do not follow what was taken of it."""

    def __init__(self, table: str, why: str) -> None:
        self.table, self.why = table, why
        super().__init__(
            f"table {table}: {why}: ALTER TABLE {table} RESYNC writes the difference between it and the newest snapshot"
        )

    def as_source_error(self) -> SourceError:
        """Return the error of a source, which has no rows to compare with."""
        return SourceError(
            f"source {self.table}: {self.why}: DROP SOURCE {self.table} CASCADE, and create it and its views again, or CREATE "
            "TABLE … WITH (connector = 'delta', …), which keeps the rows"
        )


@dataclass(frozen=True)
class DeltaPosition:
    """How far a Delta table is taken: up to a version, whose entry in the log had a digest, and what the table was there."""

    version: int
    digest: str
    metadata: Metadata


@dataclass(frozen=True)
class DeltaStep:
    """What one commit takes: versions from `first` to `last`, as changes or as a difference; afterwards it stands at `then`.

    `files` are changes, too, told by the files that came and went. `nothing` changes no row. `size` are bytes of files. Of a
    feed's changes `last` is the last version that has some. `keeps_ids` tells that rows were tracked all the while: else those
    which nothing has changed may have other ids by now. `commits` are those that a feed's changes are of.
    """

    kind: Literal["snapshot", "feed", "files", "difference", "nothing"]
    first: int
    last: int
    size: int
    then: DeltaPosition
    files: FileChanges = field(default_factory=FileChanges)
    keeps_ids: bool = True
    commits: tuple[DeltaCommit, ...] = ()


def plan_snapshot(log: DeltaLog, kind: Literal["snapshot", "difference"]) -> DeltaStep:
    """Return the step that brings a table to the newest version, whatever it holds."""
    newest = log.find_newest_version()
    digest = log.compute_digest(newest)
    if digest is None:
        raise SourceError(
            f"version {newest} of the Delta table at {log.place.display_name} has gone: poll again"
        )
    return DeltaStep(kind, newest, newest, 0, DeltaPosition(newest, digest, log.read_metadata(newest)))


def has_next(log: DeltaLog, at: DeltaPosition) -> bool:
    """Tell whether a version has come, or what was taken has gone; the cost is that of two looks."""
    return log.stat_entry(at.version + 1) is not None or log.stat_entry(at.version) is None


def plan_next_step(
    log: DeltaLog, table: str, at: DeltaPosition, most: int = STEP_BYTES, by: frozenset[Means] = ALL_MEANS
) -> DeltaStep | None:
    """Return what comes next, None if nothing has; raises HistoryGone where versions do not follow `at`.

    `by` are the means that may be used: versions for which there is none are compared as a whole.
    """
    _check_same(log, table, at)
    kind: Literal["feed", "files", "difference", "nothing"] = "nothing"
    first = last = at.version + 1
    commits: list[DeltaCommit] = []
    size, then, feeds, files, tracked = 0, at, True, FileChanges(), at.metadata.tracks_rows
    without: Literal["files", "difference"] = "files" if "files" in by else "difference"
    while (commit := _read_next_commit(log, then, at)) is not None:
        wrong = _explain_break(commit, then.metadata, by)
        if wrong and then is at:
            raise HistoryGone(table, wrong)
        metadata = commit.metadata or then.metadata
        its: Literal["feed", "files", "difference"] = (
            "feed" if metadata.has_feed and "feed" in by else without
        )
        if wrong or (kind == "feed" and metadata.schema_string != then.metadata.schema_string):
            break
        log.place.check_files(commit.elsewhere)
        if commit.changes:
            if kind not in ("nothing", its) or (kind == "feed" and (not feeds or size + commit.size > most)):
                break
            if kind == "files" and files.measure() >= most:
                break
        by_files = kind != "feed" and not (commit.changes and its == "feed")
        if by_files and "files" in by and not files.take(commit.actions):
            break
        if commit.changes:
            first = commit.version if kind == "nothing" else first
            kind, size, last = its, size + commit.size, commit.version
            if its == "feed":
                commits.append(commit)
        feeds = feeds and (
            metadata.has_feed or kind != "feed"
        )  # none is read across a version without, even one of no rows
        tracked = tracked and metadata.tracks_rows and metadata.row_columns == at.metadata.row_columns
        then = DeltaPosition(commit.version, commit.digest, metadata)
    if then is at:
        if log.find_newest_version() > at.version:
            raise HistoryGone(
                table,
                f"version {at.version + 1} of the Delta table at {log.place.display_name} is no longer in its log",
            )
        return None
    if kind == "files":
        kind, size = ("files" if any(files.iterate_files()) else "nothing"), files.measure()
    last = last if kind == "feed" else then.version
    return DeltaStep(kind, first, last, size, then, files, tracked, tuple(commits))


def _read_next_commit(log: DeltaLog, then: DeltaPosition, at: DeltaPosition) -> DeltaCommit | None:
    """Return what the version behind a position did; raises SourceError for a broken entry once what came before it is taken."""
    try:
        return log.read_commit(then.version + 1)
    except SourceError:
        if then is at:
            raise
        return None


def _check_same(log: DeltaLog, table: str, at: DeltaPosition) -> None:
    """Raise HistoryGone if the version that was taken last is another one by now."""
    digest = log.compute_digest(at.version)
    if digest == at.digest:
        return
    where = f"the Delta table at {log.place.display_name}"
    if digest is not None:
        raise HistoryGone(
            table, f"{where} was dropped and created again: version {at.version} is another one"
        )
    following = log.read_commit(at.version + 1)
    if following is None:
        raise HistoryGone(table, f"version {at.version} of {where} is gone: dropped, or no longer in its log")
    if (
        log.read_metadata(following.version).id != at.metadata.id
    ):  # old entries go once a checkpoint holds them
        raise HistoryGone(table, f"{where} was dropped and created again")


def _explain_break(commit: DeltaCommit, before: Metadata, by: frozenset[Means]) -> str:
    """Return why a version does not follow the one before as a change, "" if it does."""
    if commit.metadata is not None and commit.metadata.id != before.id:
        return f"version {commit.version} of its Delta table created the table again"
    reads_feed = "feed" in by and (commit.metadata or before).has_feed
    if commit.operation == RESTORE and commit.changes and reads_feed:
        return f"version {commit.version} of its Delta table restored an earlier one"
    return ""
