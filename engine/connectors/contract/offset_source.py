"""Sources whose splits each stand at one offset: the loop that takes what comes next, and how it is committed."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from engine.connectors.contract.connector import Source, SourceReport, Spark, no_spark
from engine.connectors.contract.intake import Intake, commit_intake, commit_polled
from engine.connectors.contract.offsets import SourceOffset, build_offset_row, ensure_offsets, find_offset
from engine.connectors.contract.same_table import require_polled_table
from engine.errors import EpochExpired, SourceError
from engine.hummock import Hummock, Put, SstInfo, TableVersion, Version
from engine.hummock.epoch import format_epoch
from engine.hummock.manifests.preconditions import (
    Precondition,
    require,
    require_same_tables,
    require_unaltered,
)
from engine.hummock.transact import commit_once
from engine.hummock.writes.batch import Operation
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.dead_letters import DEAD_LETTER, DeadLetter, ensure_dead_letters
from engine.meta.status.source_notes import OFFSETS
from engine.sql.catalog import Relation

FOR_GOOD = (1 << 63) - 1
Step = TypeVar("Step")
Steps = Callable[[str, SourceOffset | None], Iterator[Step]]


@dataclass(frozen=True)
class StepResult:
    """What one commit brings: the offset behind it, the table's rows, as files or as operations, and rows of system tables.

    `aside` counts the rows that were set aside, of which `letters` are some; `note` is what is to be known of the source.
    """

    offset: str
    files: Sequence[SstInfo] = ()
    operations: Sequence[Operation] = ()
    system: Mapping[str, Sequence[Operation]] = field(default_factory=dict)
    rows: int = 0
    late: int = 0
    aside: int = 0
    letters: Sequence[DeadLetter] = ()
    warnings: Sequence[str] = ()
    note: str = ""
    precondition: Precondition | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)


class OffsetSource(Source, Generic[Step]):
    """A source of one table; a subclass says which steps come next, and what one brings.

    `relation` is the table as it is in the version that a step is taken for: it may be altered between two commits.
    """

    def __init__(self, store: Hummock, relation: Relation) -> None:
        self.store, self.relation = store, relation

    def list_splits(self) -> Sequence[str]:
        """Return the names of the splits, in the order in which they are taken."""
        return ("",)

    @abstractmethod
    def plan_steps(self, split: str, after: SourceOffset | None) -> Iterator[Step]:
        """Yield what further commits take of a split, each behind the one before; `after` None begins with the snapshot.

        Each is asked for once the one before it is committed. An end is to come: what is due later is taken by a later poll.
        """

    @abstractmethod
    def ingest_step(
        self, step: Step, after: SourceOffset | None, version: Version, spark: Spark
    ) -> StepResult:
        """Read what a step takes, for the table as it is in a version; asked again where another writer was faster."""

    def skip_step(self, step: Step, after: SourceOffset | None) -> StepResult:
        """Return what a step brings of a source whose changes nobody follows: the offset behind it alone."""
        raise SourceError(f"source {self.relation.name}: its connector does not pass rows on")

    def poll(self, spark: Spark = no_spark) -> SourceReport:
        """Take all that there is, a commit a step."""
        started = time.perf_counter()
        self.store.refresh()
        require_polled_table(self.store.version, self.relation.name, self.relation)
        try:
            report = self.commit_steps(spark, self.plan_steps)
        except SourceError as error:
            self.record_error(str(error))
            raise
        self.record_error("")
        return replace(report, seconds=time.perf_counter() - started)

    def commit_steps(self, spark: Spark, steps: Steps[Step]) -> SourceReport:
        """Commit steps of each split until they end."""
        self.store.refresh()
        ensure_offsets(self.store)
        ensure_dead_letters(self.store)
        table_id = self.find_table(self.store.version).table_id
        report = SourceReport(self.relation.name)
        for split in self.list_splits():
            walk = _SplitPoll(self, split, table_id, steps, spark, report)
            while commit_polled(self.store, self.relation.name, walk.commit_next):
                pass
            report = walk.report
        return report

    def find_offset(self, split: str = "") -> SourceOffset | None:
        """Return where a split stands in the newest version that this process knows."""
        version = self.store.version
        return find_offset(self.store, version, self.find_table(version), split)

    def find_offset_at(self, version: Version, epoch: int, split: str = "") -> SourceOffset | None:
        """Return where a split stood at an epoch of a version; raises SourceError where that is not known any more."""
        try:
            return find_offset(self.store, version, self.find_table(version), split, epoch)
        except EpochExpired as error:
            raise SourceError(
                f"source {self.relation.name}: how far it was taken at epoch {format_epoch(epoch)} is not known any more: "
                "run FLUSH, or read with SET query_policy = latest"
            ) from error

    def find_table(self, version: Version) -> TableVersion:
        """Return the table in a version; raises SourceError once it is dropped."""
        try:
            return version.tables[self.relation.name]
        except KeyError:
            raise self.build_dropped_error() from None

    def build_dropped_error(self) -> SourceError:
        """Return the error of a poll whose table has gone."""
        return SourceError(f"table {self.relation.name} was dropped while its source was polled")

    def require_offset(self, split: str, seen: SourceOffset | None) -> Precondition:
        """Return the precondition that a split stands where it stood: nobody has taken what comes behind it."""
        return require(
            lambda now: find_offset(self.store, now, self.find_table(now), split) == seen,
            f"new rows for {self.relation.name} were read by another process at the same time",
        )

    def record_error(self, error: str) -> None:
        """Keep in the store, for who asks how things stand, why the source does not go on; "" where it does."""
        version = self.store.refresh()
        table = version.tables.get(self.relation.name)
        if table is None:
            return
        for split in self.list_splits():
            self.record_split_error(split, table, error)

    def record_split_error(self, split: str, table: TableVersion, error: str) -> None:
        """Keep with one split why the source does not go on."""
        before = find_offset(self.store, self.store.version, table, split)
        if before is None or before.error == error:
            return
        row, unmoved = (
            build_offset_row(table, split, replace(before, error=error)),
            self.require_offset(split, before),
        )
        commit_once(self.store, lambda: self.store.ingest_batch({OFFSETS: [Put(row)]}, precondition=unmoved))


class _SplitPoll(Generic[Step]):
    """The commits of one poll of one split."""

    def __init__(
        self,
        source: OffsetSource[Step],
        split: str,
        table_id: int,
        steps: Steps[Step],
        spark: Spark,
        report: SourceReport,
    ) -> None:
        self.report = report
        self._source, self._store, self._split, self._table_id = source, source.store, split, table_id
        self._steps, self._spark = steps, spark
        self._ahead: Iterator[Step] | None = None
        self._behind: SourceOffset | None = None

    def commit_next(self) -> bool:
        """Commit what comes next, False if nothing does. Raises Conflict if another poller was faster."""
        source, version = self._source, self._store.version
        table = source.find_table(version)
        if table.table_id != self._table_id:
            raise source.build_dropped_error()
        source.relation = load_catalog(version).catalog.get(table.name)  # which may have been altered
        after = find_offset(self._store, version, table, self._split)
        ahead = self._ahead
        if ahead is None or after != self._behind:
            ahead = self._steps(self._split, after)
        self._ahead = None
        step = next(ahead, None)
        if step is None:
            return False
        unread = table.table.options.passes and not (table.acks or table.pins)
        step_result = (
            source.skip_step(step, after) if unread else source.ingest_step(step, after, version, self._spark)
        )
        self._commit_step(step_result, after, version, table)
        self._ahead = ahead
        return True

    def _commit_step(
        self, result: StepResult, after: SourceOffset | None, version: Version, table: TableVersion
    ) -> None:
        """Commit what a step brings with the offset behind it, under the condition that nobody has advanced in the meantime."""
        then = SourceOffset(result.offset, result.note)
        warnings = list(result.warnings)
        if result.letters:
            warnings.append(
                f"{result.aside} rows were set aside, see {DEAD_LETTER}: {result.letters[0].reason}"
            )
        checks = [
            require_same_tables({table.name: table}),
            self._source.require_offset(self._split, after),
            require_unaltered(table),
        ]
        upto: dict[str, int] = {}
        if table.table.options.passes:
            upto, check = _plan_release(table)
            checks.append(check)
        intake = Intake(
            {**result.system, OFFSETS: [Put(build_offset_row(table, self._split, then))]},
            [*checks, result.precondition],
            result.operations,
            result.files,
            result.letters,
            result.watermarks,
            upto,
        )
        committed = commit_intake(self._store, version, table, intake)
        self._behind = then
        self.report = replace(
            self.report,
            rows=self.report.rows + result.rows,
            dead_rows=self.report.dead_rows + result.aside,
            late_rows=self.report.late_rows + result.late,
            epoch=committed.epoch,
        ).add_warnings(warnings)


def _plan_release(table: TableVersion) -> tuple[dict[str, int], Precondition]:
    """Return how far a source lets go of its changes with a commit: of all, this one too, where nobody follows it.

    What nobody follows is not written at all; who begins to meanwhile must not take that for no change.
    """
    followed = bool(table.acks or table.pins)
    check = require(
        lambda now: followed or not (now.tables[table.name].acks or now.tables[table.name].pins),
        f"a view of {table.name} has begun to follow it at the same time",
    )
    return {table.name: table.committed_epoch if followed else FOR_GOOD}, check
