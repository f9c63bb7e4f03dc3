"""The Delta source: a Delta table's snapshot, then its change data feed, become rows of a table, each version once.

`CREATE TABLE t (id BIGINT PRIMARY KEY, …) WITH (connector = 'delta', path = 'folder')`. Rows and the version that they bring the
table to stand in one commit, which is refused if another poller has advanced in the meantime.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.contract.connector import PendingSplit, SourceReport, Spark, no_spark, source_options
from engine.connectors.contract.offset_source import OffsetSource, StepResult, Steps
from engine.connectors.contract.offsets import SourceOffset
from engine.connectors.delta.feed_files import read_feed_files
from engine.connectors.delta.file_rows import (
    ChangedRows,
    FilesNotFollowed,
    FileVersions,
    read_changed_rows,
)
from engine.connectors.delta.files import PackFiles, plan_splits
from engine.connectors.delta.frames import (
    has_row_ids,
    match_delta_columns,
    open_read_session,
    read_feed_changes,
    read_snapshot,
    read_table_rows,
)
from engine.connectors.delta.log import DeltaLog, parse_delta_place
from engine.connectors.delta.notices import describe_missing
from engine.connectors.delta.offsets import DeltaOffset, decode_offset, encode_offset
from engine.connectors.delta.pass_through import (
    compare_files,
    compare_versions,
    fold_feed,
    render_key_condition,
)
from engine.connectors.delta.steps import (
    DeltaPosition,
    DeltaStep,
    HistoryGone,
    Means,
    has_next,
    plan_next_step,
    plan_snapshot,
)
from engine.connectors.delta.types import find_renamed_columns
from engine.connectors.delta.values import MatchedColumn
from engine.connectors.delta.ways import NO_ROW_IDS, describe_way, list_means
from engine.errors import SourceError
from engine.hummock import Hummock, Reader, Version
from engine.hummock.manifests.preconditions import require_unchanged
from engine.hummock.monitoring.driver_traffic import track_rows
from engine.hummock.version import Run
from engine.meta.status.dead_letters import DeadLetter
from engine.meta.status.source_notes import OFFSETS
from engine.operators.context import count_partitions
from engine.runtime.source_rows import build_direct_options, open_direct_reader
from engine.runtime.spark.session import EngineSpark
from engine.runtime.writes.change_tasks import COMES, ChangeResult, WriteChanges
from engine.runtime.writes.key_order import PACKED, KeyOrderedRows, needs_packing, sort_by_key, sort_packed
from engine.runtime.writes.spill import PLACE
from engine.sql.catalog import Relation

CONNECTOR = "delta"
OPTIONS: Mapping[str, str] = {
    "connector": "'delta': rows follow a Delta table",
    "path": "the Delta table's folder, or s3://bucket/prefix; a relative folder starts at TIDELINE_HOME",
}
"""The options of a Delta source and what they mean; `docs/reference.md` is made of this."""
SMALL_BYTES = 4 << 20
SMALL_ROWS = 10_000
"""Changes of so few bytes and rows are written by this process; Spark's tasks cost more."""
ROW_BYTES = 32
"""About what a row of a change takes in a file, at the least: only how many tasks write follows from it."""
LOOK_SECONDS = 1.0
"""How often a look at a remote log is made, at most: each is a request."""


@dataclass
class _LastLook:
    """What the last look at a log has found: for which version of the offsets, when, and the size and time of the entry."""

    offsets: int
    offset: DeltaOffset | None
    error: str
    looked: float = float("-inf")
    pending: str | None = None
    entry: tuple[int, float] | None = None


_LAST_LOOKS: weakref.WeakKeyDictionary[Hummock, dict[tuple[int, str], _LastLook]] = (
    weakref.WeakKeyDictionary()
)


class DeltaSource(OffsetSource[DeltaStep]):
    """One Delta table that feeds one table."""

    def __init__(self, store: Hummock, relation: Relation) -> None:
        super().__init__(store, relation)
        self._reached: DeltaPosition | None = None
        path = source_options(relation).get("path")
        if not path:
            raise SourceError(f"table {relation.name}: the delta source needs a path: write path = 'folder'")
        self.place = parse_delta_place(path)
        self.log = DeltaLog(self.place)

    @property
    def _means(self) -> frozenset[Means]:
        return list_means(self.relation)

    def list_pending(self) -> tuple[PendingSplit, ...]:
        """Return whether a version has come; costs a look at two names."""
        try:
            found = self._look_if_due().pending
        except SourceError as error:
            found = str(error)  # the poll tells it
        return () if found is None else (PendingSplit("", found),)

    def _look_if_due(self) -> _LastLook:
        table = self.find_table(self.store.version)
        records = self.store.version.tables.get(OFFSETS)
        at = 0 if records is None else records.committed_epoch
        known = _LAST_LOOKS.setdefault(self.store, {})
        look = known.get((table.table_id, self.place.spark))
        if look is None or look.offsets != at:
            offset = self.find_offset()
            look = _LastLook(at, decode_offset(offset), "" if offset is None else offset.error)
            known[(table.table_id, self.place.spark)] = look
        now = time.monotonic()
        if not self.place.is_remote or now - look.looked >= LOOK_SECONDS:
            look.looked, look.pending = now, self._find_pending(look)
        return look

    def _find_pending(self, look: _LastLook) -> str | None:
        if look.offset is None:
            return "snapshot"
        at = look.offset.at
        if has_next(self.log, at):
            return f"after {at.version}"
        found = self.log.stat_entry(at.version)
        entry = None if found is None else (found.size, found.modified)
        if entry is None or entry != look.entry:
            if self.log.compute_digest(at.version) != at.digest:
                return f"not {at.version}"
            look.entry = entry
        return None

    def poll(self, spark: Spark = no_spark) -> SourceReport:
        """Take all versions that have come. Raises SourceError, HistoryGone where only RESYNC helps."""
        if not self.list_pending():
            if self._look_if_due().error:
                self.record_error("")
            return SourceReport(self.relation.name)
        return super().poll(spark)

    def resync(self, spark: Spark) -> SourceReport:
        """Write the difference between the table and the newest snapshot, and go on from there."""
        return self.commit_steps(spark, lambda split, after: iter((plan_snapshot(self.log, "snapshot"),)))

    def commit_steps(self, spark: Spark, steps: Steps[DeltaStep]) -> SourceReport:
        """Commit what steps bring; where versions do not follow, a source has no rows to compare with."""
        try:
            return super().commit_steps(spark, steps)
        except HistoryGone as gone:
            raise gone.as_source_error() if self.relation.is_pass_through else gone from gone

    def skip_step(self, step: DeltaStep, after: SourceOffset | None) -> StepResult:
        """Return the version behind a step that nobody follows."""
        offset = decode_offset(after)
        step = self._pass_lacking(step, offset)
        metadata = step.then.metadata
        columns = match_delta_columns(self.relation, metadata, self.place)
        warnings, reported = describe_missing(self.relation, step.then.metadata, offset, columns.values())
        self._reached = step.then
        return StepResult(
            encode_offset(DeltaOffset(step.then, reported)),
            warnings=warnings,
            note=describe_way(metadata, has_row_ids(self.relation)),
        )

    def read_rows_at(self, version: Version, epoch: int, session: SparkSession) -> pa.Table | DataFrame:
        """Return the Delta table as it was at the version that was taken last at an epoch."""
        offset = decode_offset(self.find_offset_at(version, epoch))
        if offset is None:
            return self.find_table(version).schema.empty_table()
        at = offset.at
        columns = match_delta_columns(self.relation, at.metadata, self.place)
        rows = read_snapshot(session, self.relation, at.version, self.place, columns)
        if self.place.is_confined:
            self.place.check_files(rows.inputFiles())
        return rows.where(render_key_condition(self.relation))

    def write_runs_at(self, version: Version, epoch: int, spark: Spark) -> tuple[Run, ...]:
        """Write the same rows, by tasks of Spark."""
        offset = decode_offset(self.find_offset_at(version, epoch))
        if offset is None:
            return ()
        at = offset.at
        step = DeltaStep("snapshot", at.version, at.version, 0, at)
        try:
            done = self._write_pass_through(spark, step, None, version)
        except HistoryGone as gone:
            raise gone.as_source_error() from gone
        return (tuple(done.ssts),)

    def _write_pass_through(
        self, spark: Spark, step: DeltaStep, before: DeltaPosition | None, version: Version
    ) -> ChangeResult:
        """Write the files of a step's changes, the old rows beside the new ones."""
        relation, place, store = self.relation, self.place, self.store
        body = WriteChanges(store.url, build_direct_options(store), relation, self.find_table(version).table)
        columns = match_delta_columns(relation, step.then.metadata, place)
        with open_read_session(spark, relation.name, place) as session:
            if step.kind == "feed":
                rows = fold_feed(session, relation, step, place, columns)
                return self._write_changes(body, rows, step, open_direct_reader(store))
            if step.kind == "files" and before is not None:
                found = self._read_files(session, step, before, columns, whole=True)
                rows = compare_files(relation, found.rows, step.last)
                return self._write_changes(body, rows, step, open_direct_reader(store), tracked=found.tracked)
            of = {} if before is None else match_delta_columns(relation, before.metadata, place)
            first = None if before is None else before.version
            whole = read_snapshot(session, relation, step.last, place, columns)
            if place.is_confined:
                place.check_files(whole.inputFiles())
            rows = compare_versions(session, relation, (first, step.last), place, (of, columns))
            return body.write_frame(
                sort_by_key(relation, rows, whole.count(), session), open_direct_reader(store)
            )

    def plan_steps(self, split: str, after: SourceOffset | None) -> Iterator[DeltaStep]:
        """Yield the steps up to the newest version."""
        offset = decode_offset(after)
        step = (
            plan_snapshot(self.log, "snapshot")
            if offset is None
            else plan_next_step(self.log, self.relation.name, offset.at, by=self._means)
        )
        while step is not None:
            self._reached = None
            yield step
            step = plan_next_step(self.log, self.relation.name, self._reached or step.then, by=self._means)

    def ingest_step(
        self, step: DeltaStep, after: SourceOffset | None, version: Version, spark: Spark
    ) -> StepResult:
        """Write the files of a step, and say what is to be known of it."""
        offset, given = decode_offset(after), step
        step = self._pass_lacking(step, offset)
        columns = match_delta_columns(self.relation, step.then.metadata, self.place)
        step = self._adjust_step(step, offset, columns.values())
        warnings: list[str] = []
        if step.kind == "difference" and has_row_ids(self.relation) and not given.keeps_ids:
            warnings.append(
                "the whole table was compared, as its rows may have got other ids while row tracking was off"
            )
        elif given.kind == "files" and step.kind == "difference":
            warnings.append(
                "the whole table was compared, as columns have other names, or were away for a while"
            )
        try:
            done = self._write_step(spark, step, offset, version)
        except (FilesNotFollowed, HistoryGone) as error:
            if step.kind != "files" or offset is None:
                raise
            step = self._plan_comparison(offset)
            done = self._write_step(spark, step, offset, version)
            why = error.why if isinstance(error, HistoryGone) else str(error)
            warnings.append(f"the whole table was compared, as files do not tell what has changed: {why}")
        metadata = step.then.metadata
        columns = match_delta_columns(self.relation, metadata, self.place)
        missing, reported = describe_missing(self.relation, step.then.metadata, offset, columns.values())
        warnings += missing
        note = describe_way(metadata, has_row_ids(self.relation))
        if note and (after is None or after.note != note):
            warnings.append(note)
        self._reached = step.then
        if done.twice and step.kind in ("feed", "files"):
            warnings.append(
                f"versions {step.first} to {step.last} hold {done.twice} rows more than they have keys: one of each was taken"
            )
        compares = step.kind in ("snapshot", "difference") and not self.relation.is_pass_through
        return StepResult(
            encode_offset(DeltaOffset(step.then, reported)),
            files=done.ssts,
            rows=done.puts + done.deletes,
            aside=done.aside,
            letters=_build_letters(step, done),
            warnings=warnings,
            note=note,
            precondition=require_unchanged(self.find_table(version)) if compares else None,
        )

    def _adjust_step(
        self, step: DeltaStep, offset: DeltaOffset | None, columns: Collection[MatchedColumn]
    ) -> DeltaStep:
        """Return a step as it is to be taken; raises HistoryGone if a name is another column's by now, which no feed tells."""
        if offset is None or step.kind not in ("feed", "files", "nothing"):
            return step
        metadata = step.then.metadata
        if has_row_ids(self.relation) and not step.keeps_ids and metadata.tracks_rows:
            return replace(self._plan_comparison(offset), kind="difference")
        types = {column.name: column.type for column in columns}
        others = find_renamed_columns(offset.at.metadata.schema_string, metadata.schema_string, types)
        name = next(iter(others), None)
        if name is None:
            return step
        if step.kind == "files":
            return self._plan_comparison(offset)
        if step.kind == "nothing" and not metadata.has_feed:
            return replace(step, kind="difference")
        raise HistoryGone(
            self.relation.name,
            f"column {name} of the Delta table at {self.place.display_name} is not the one that was taken: "
            f"columns were renamed, or it "
            "was dropped and added again",
        )

    def _pass_lacking(self, step: DeltaStep, offset: DeltaOffset | None) -> DeltaStep:
        """Return a step, or one that goes on to the newest version if a column was away for a while where it ends."""
        reads_feed = "feed" in self._means and step.then.metadata.has_feed
        if offset is None or step.kind not in ("files", "nothing") or reads_feed:
            return step
        try:
            match_delta_columns(self.relation, step.then.metadata, self.place)
        except SourceError:
            return self._plan_comparison(offset)
        return step

    def _plan_comparison(self, offset: DeltaOffset) -> DeltaStep:
        """Return the step that compares whole versions, where files do not tell what has changed."""
        step = plan_next_step(self.log, self.relation.name, offset.at, by=self._means - {"files"})
        if step is None:
            raise SourceError(
                f"table {self.relation.name}: the Delta table was changed meanwhile: poll again"
            )
        return step

    def _write_step(
        self, spark: Spark, step: DeltaStep, offset: DeltaOffset | None, version: Version
    ) -> ChangeResult:
        """Write the files of a step's rows, or of its changes."""
        at = None if offset is None else offset.at
        if step.kind == "nothing":
            return ChangeResult()
        if has_row_ids(self.relation) and not step.then.metadata.tracks_rows:
            raise SourceError(f"table {self.relation.name}: {NO_ROW_IDS}")
        if self.relation.is_pass_through:
            return self._write_pass_through(spark, step, at, version)
        columns = match_delta_columns(self.relation, step.then.metadata, self.place)
        if step.kind == "files" and at is not None:
            return self._write_changed_files(spark, step, at, version)
        return self._write_rows(spark, step, version, columns)

    def _read_files(
        self,
        session: SparkSession,
        step: DeltaStep,
        before: DeltaPosition,
        columns: Mapping[str, MatchedColumn],
        *,
        whole: bool,
    ) -> ChangedRows:
        versions = FileVersions(self.log, self.relation, before, step.then, columns)
        return read_changed_rows(session, versions, step.files, whole=whole)

    def _write_changes(
        self,
        body: WriteChanges,
        rows: DataFrame,
        step: DeltaStep,
        reader: Reader,
        *,
        tracked: bool = False,
    ) -> ChangeResult:
        """Write rows of changes: few in this process, many by tasks; those that are `tracked` may be few in large files."""
        few = self._collect_if_few(rows) if tracked or step.size <= SMALL_BYTES else None
        if few is not None:
            return body.write_rows(few, reader)
        return body.write_frame(
            sort_by_key(self.relation, rows, step.size // ROW_BYTES, rows.sparkSession), reader
        )

    def _write_changed_files(
        self, spark: Spark, step: DeltaStep, before: DeltaPosition, version: Version
    ) -> ChangeResult:
        """Write the files of a step whose rows came and went with files of the Delta table."""
        relation, store = self.relation, self.store
        columns = match_delta_columns(relation, step.then.metadata, self.place)
        with open_read_session(spark, relation.name, self.place) as session:
            found = self._read_files(session, step, before, columns, whole=False)
            body = WriteChanges(
                store.url,
                dict(store.options),
                relation,
                self.find_table(version).table,
                compares=found.compares,
            )
            return self._write_changes(body, found.rows, step, store.reader, tracked=found.tracked)

    def _write_rows(
        self, spark: Spark, step: DeltaStep, version: Version, columns: Mapping[str, MatchedColumn]
    ) -> ChangeResult:
        """Write the files of a step's rows."""
        table, relation, store = self.find_table(version), self.relation, self.store
        compares = step.kind != "feed"
        at = table.narrow(table.committed_epoch, table.committed_epoch)
        body = WriteChanges(
            store.url,
            dict(store.options),
            relation,
            table.table,
            compares=compares,
            new=compares and not table.live_ssts,
        )
        few = None
        if not compares and step.size <= SMALL_BYTES:
            few = read_feed_files(self.log, relation, step, columns, SMALL_ROWS)
        if few is not None:
            return body.write_rows(track_rows(few), store.reader)
        with open_read_session(spark, relation.name, self.place) as session:
            if not compares:
                rows = read_feed_changes(session, relation, step, self.place, columns)
                return self._write_changes(body, rows, step, store.reader)
            rows = read_snapshot(session, relation, step.last, self.place, columns)
            files, count = rows.inputFiles(), rows.count()
            self.place.check_files(files)
            if body.new:
                ordered = self._order_new_rows(rows, files, count, step, columns)
            else:
                rows = rows.selectExpr("*", f"CAST({COMES} AS BIGINT) AS {PLACE}")
                rows = rows.unionByName(
                    read_table_rows(session, store, relation, at), allowMissingColumns=True
                )
                ordered = sort_by_key(relation, rows, count + at.row_count, session)
            return body.write_frame(ordered, store.reader)

    def _order_new_rows(
        self,
        rows: DataFrame,
        files: Sequence[str],
        count: int,
        step: DeltaStep,
        columns: Mapping[str, MatchedColumn],
    ) -> KeyOrderedRows:
        """Return the rows of a version, which none stand beside, in the order of the table's files."""
        relation, session = self.relation, rows.sparkSession
        splits, names = None, {name: column.name for name, column in columns.items()}
        if needs_packing(relation, count):
            splits = plan_splits(relation, step.then.metadata, names, files, count)
        if splits is None:
            return sort_by_key(relation, rows, count, session, placed=False)
        parts = min(len(splits), count_partitions(count, EngineSpark.of(session).count_parallel_tasks()))
        body = partial(PackFiles, splits, relation, names, parts)
        numbers = session.range(0, parts, 1, parts)
        return sort_packed(
            relation, count, session, lambda packed: numbers.mapInArrow(body(packed), PACKED), placed=False
        )

    def _collect_if_few(self, rows: DataFrame) -> pa.Table | None:
        """Return rows if they are few, else None."""
        found = track_rows(rows.limit(SMALL_ROWS + 1).toArrow())
        return found if found.num_rows <= SMALL_ROWS else None


def _build_letters(step: DeltaStep, done: ChangeResult) -> list[DeadLetter]:
    """Return rows that were set aside, numbered within their version."""
    lines: dict[str, int] = {}
    found = []
    for letter in done.letters:
        names = {"feed": f"version {letter.place // 2}", "files": f"version {step.last}"}
        file = names.get(step.kind, "snapshot")
        lines[file] = lines.get(file, 0) + 1
        found.append(DeadLetter(file, lines[file], letter.reason, letter.raw))
    return found
