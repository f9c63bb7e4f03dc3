"""Whether what waits in a Delta table can still be read: its log may tell of versions whose files are gone (VACUUM)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.connectors.contract.connector import Spark
from engine.connectors.delta.file_changes import DataFile
from engine.connectors.delta.frames import match_delta_columns, open_read_session, read_snapshot
from engine.connectors.delta.log import DeltaLog
from engine.connectors.delta.steps import DeltaPosition, DeltaStep, HistoryGone, plan_next_step
from engine.connectors.delta.ways import list_means
from engine.sql.catalog import Relation

MOST_FILES = 1_000
"""So many files are looked for, from the oldest version on: the oldest go first, and in a bucket each look is a request."""


class PendingCheck:
    """A look at the files that a poll would read, `MOST_FILES` of them at most."""

    def __init__(self, log: DeltaLog, relation: Relation, spark: Spark) -> None:
        self.log, self.relation, self.spark = log, relation, spark
        self._left = MOST_FILES

    def run(self, at: DeltaPosition) -> str:
        """Return what the poll behind a position will do, "" if nothing waits.

        Raises HistoryGone if a version, or a file that tells what it has changed, is not there any more.
        """
        means, told = list_means(self.relation), list[str]()
        step = plan_next_step(self.log, self.relation.name, at, by=means)
        while step is not None:
            told.append(self._check_step(step, at))
            at = step.then
            step = plan_next_step(self.log, self.relation.name, at, by=means)
        return "; ".join(dict.fromkeys(filter(None, told)))

    def _check_step(self, step: DeltaStep, at: DeltaPosition) -> str:
        if step.kind == "feed":
            self._require(self._list_feed_files(step))
            return "the feed tells what has changed"
        if step.kind == "files":
            gone = self._find_gone(
                (step.then.version, file) for file in _list_names(step.files.iterate_files())
            )
            if not gone:
                return _describe_files(step)
        if step.kind in ("files", "difference"):
            if self.relation.is_pass_through:  # between two versions, both read as a whole
                self._require((at.version, file) for file in self._list_snapshot_files(at))
            return "the whole table is compared"
        return ""

    def _require(self, files: Iterator[tuple[int, str]]) -> None:
        if gone := self._find_gone(files):
            raise HistoryGone(self.relation.name, gone)

    def _find_gone(self, files: Iterator[tuple[int, str]]) -> str:
        """Return which of some files, each with its version, is not there any more, "" if all are."""
        for version, file in files:
            if self._left == 0:
                return ""
            self._left -= 1
            if not self.log.has_file(file):
                return (
                    f"{file} of version {version} of the Delta table at {self.log.place.display_name} is gone "
                    "(VACUUM deletes such files)"
                )
        return ""

    def _list_feed_files(self, step: DeltaStep) -> Iterator[tuple[int, str]]:
        for version in range(step.first, step.last + 1):
            commit = self.log.read_commit(version)
            yield from ((version, file) for file in (() if commit is None else commit.files))

    def _list_snapshot_files(self, at: DeltaPosition) -> list[str]:
        """Return the files of a version as a whole."""
        columns = match_delta_columns(self.relation, at.metadata, self.log.place)
        with open_read_session(self.spark, self.relation.name, self.log.place) as session:
            rows = read_snapshot(session, self.relation, at.version, self.log.place, columns)
            return list(rows.inputFiles())


def _list_names(files: Iterator[DataFile]) -> Iterator[str]:
    """Yield the names of files, and of those that hold their deletion vectors."""
    for file in files:
        yield file.path
        if file.deletion_vector is not None and not file.deletion_vector.is_inline:
            yield file.deletion_vector.path


def _describe_files(step: DeltaStep) -> str:
    come, gone, changed = (
        len(each) for each in (step.files.list_come(), step.files.list_gone(), step.files.list_changed())
    )
    return (
        f"{come} new files, {gone} removed ones and {changed} with other deletion vectors are read: "
        f"about {step.size / (1 << 20):,.1f} MiB"
    )
