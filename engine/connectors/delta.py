"""The Delta source: a Delta table's snapshot, then its change data feed, become rows of a table, each version once.

`CREATE TABLE t (id BIGINT PRIMARY KEY, …) WITH (connector = 'delta', path = 'folder')`. Rows and the version that they bring the
table to stand in one commit, which is refused if another poller has gone on meanwhile.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.contract import SourceReport, Spark, Waiting, no_spark, source_options
from engine.connectors.delta_files import PackFiles, plain_splits
from engine.connectors.delta_log import DeltaLog, delta_place
from engine.connectors.delta_offsets import Standing, standing_of, text_of
from engine.connectors.delta_passing import has_key, passed_difference, passed_feed
from engine.connectors.delta_read import changes_of, reading, rows_here, snapshot_of, taken_columns
from engine.connectors.delta_steps import HistoryGone, Position, Step, has_next, next_step, snapshot_step
from engine.connectors.delta_types import delta_columns, renamed_columns
from engine.connectors.delta_values import TakenColumn
from engine.connectors.offset_source import OffsetSource, Steps, Taken
from engine.connectors.offsets import Offset
from engine.errors import SourceError
from engine.hummock import Hummock, Version
from engine.hummock.driver_traffic import held
from engine.hummock.version import Run
from engine.meta.dead_letters import DeadLetter
from engine.meta.source_notes import OFFSETS
from engine.operators.context import partitions_for
from engine.runtime.source_rows import plain_options, plain_reader
from engine.runtime.spark.session import parallelism
from engine.runtime.writes.change_tasks import COMES, Changed, WriteChanges
from engine.runtime.writes.conflicts import unchanged
from engine.runtime.writes.key_order import PACKED, InKeyOrder, in_key_order, in_packed_order, packs
from engine.runtime.writes.spilled import PLACE
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
NO_FEED = (
    "the Delta table has no change data feed: each new version is compared with the whole table; "
    "ALTER TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true) makes it cost what changes"
)


@dataclass
class _Seen:
    """What the last look at a log has found: for which version of the offsets, when, and the size and time of the entry."""

    offsets: int
    standing: Standing | None
    error: str
    looked: float = float("-inf")
    pending: str | None = None
    entry: tuple[int, float] | None = None


_SEEN: weakref.WeakKeyDictionary[Hummock, dict[tuple[int, str], _Seen]] = weakref.WeakKeyDictionary()


class DeltaSource(OffsetSource[Step]):
    """One Delta table that feeds one table."""

    def __init__(self, store: Hummock, relation: Relation) -> None:
        super().__init__(store, relation)
        path = source_options(relation).get("path")
        if not path:
            raise SourceError(f"table {relation.name}: the delta source needs a path: write path = 'folder'")
        self.place = delta_place(path)
        self.log = DeltaLog(self.place)

    def pending(self) -> tuple[Waiting, ...]:
        """Return whether a version has come; costs a look at two names."""
        try:
            found = self._seen_now().pending
        except SourceError as error:
            found = str(error)  # the poll tells it
        return () if found is None else (Waiting("", found),)

    def _seen_now(self) -> _Seen:
        table = self.table(self.store.version)
        records = self.store.version.tables.get(OFFSETS)
        at = 0 if records is None else records.committed_epoch
        known = _SEEN.setdefault(self.store, {})
        seen = known.get((table.table_id, self.place.spark))
        if seen is None or seen.offsets != at:
            offset = self.offset()
            seen = _Seen(at, standing_of(offset), "" if offset is None else offset.error)
            known[(table.table_id, self.place.spark)] = seen
        now = time.monotonic()
        if not self.place.is_remote or now - seen.looked >= LOOK_SECONDS:
            seen.looked, seen.pending = now, self._look(seen)
        return seen

    def _look(self, seen: _Seen) -> str | None:
        if seen.standing is None:
            return "snapshot"
        at = seen.standing.at
        if has_next(self.log, at):
            return f"after {at.version}"
        found = self.log.look(at.version)
        entry = None if found is None else (found.size, found.modified)
        if entry is None or entry != seen.entry:
            if self.log.digest(at.version) != at.digest:
                return f"not {at.version}"
            seen.entry = entry
        return None

    def poll(self, spark: Spark = no_spark) -> SourceReport:
        """Take all versions that have come. Raises SourceError, HistoryGone where only RESYNC helps."""
        if not self.pending():
            if self._seen_now().error:
                self.note_error("")
            return SourceReport(self.relation.name)
        return super().poll(spark)

    def resync(self, spark: Spark) -> SourceReport:
        """Write the difference between the table and the newest snapshot, and go on from there."""
        return self.taken_up(spark, lambda split, after: iter((snapshot_step(self.log, "snapshot"),)))

    def taken_up(self, spark: Spark, steps: Steps[Step]) -> SourceReport:
        """Commit what steps bring; where versions do not follow, a source has no rows to compare with."""
        try:
            return super().taken_up(spark, steps)
        except HistoryGone as gone:
            raise gone.of_source() if self.relation.passes else gone from gone

    def passed_by(self, step: Step, after: Offset | None) -> Taken:
        """Return the version behind a step that nobody follows."""
        seen, metadata = standing_of(after), step.then.metadata
        columns = taken_columns(self.relation, metadata, self.place)
        warnings, told = self._lacking(step, seen, columns.values())
        return Taken(
            text_of(Standing(step.then, told)), warnings=warnings, note="" if metadata.has_feed else NO_FEED
        )

    def rows_at(self, version: Version, epoch: int, session: SparkSession) -> pa.Table | DataFrame:
        """Return the Delta table as it was at the version that was taken last at an epoch."""
        standing = standing_of(self.offset_at(version, epoch))
        if standing is None:
            return self.table(version).schema.empty_table()
        at = standing.at
        columns = taken_columns(self.relation, at.metadata, self.place)
        rows = snapshot_of(session, self.relation, at.version, self.place, columns)
        if self.place.is_confined:
            self.place.check(rows.inputFiles())
        return rows.where(has_key(self.relation))

    def runs_at(self, version: Version, epoch: int, spark: Spark) -> tuple[Run, ...]:
        """Write the same rows, by tasks of Spark."""
        standing = standing_of(self.offset_at(version, epoch))
        if standing is None:
            return ()
        at = standing.at
        step = Step("snapshot", at.version, at.version, 0, at)
        try:
            done = self._passed(spark, step, None, version)
        except HistoryGone as gone:
            raise gone.of_source() from gone
        return (tuple(done.ssts),)

    def _passed(self, spark: Spark, step: Step, before: Position | None, version: Version) -> Changed:
        """Write the files of a step's changes, the old rows beside the new ones."""
        relation, place, store = self.relation, self.place, self.store
        body = WriteChanges(store.url, plain_options(store), relation, self.table(version).table)
        columns = taken_columns(relation, step.then.metadata, place)
        with reading(spark, relation.name, place) as session:
            if step.kind == "feed":
                rows = passed_feed(session, relation, step, place, columns)
                few = self._few(rows) if step.size <= SMALL_BYTES else None
                if few is not None:
                    return body.of_rows(few, plain_reader(store))
                ordered = in_key_order(relation, rows, step.size // ROW_BYTES, session)
                return body.of_frame(ordered, plain_reader(store))
            of = {} if before is None else taken_columns(relation, before.metadata, place)
            first = None if before is None else before.version
            whole = snapshot_of(session, relation, step.last, place, columns)
            if place.is_confined:
                place.check(whole.inputFiles())
            rows = passed_difference(session, relation, (first, step.last), place, (of, columns))
            return body.of_frame(in_key_order(relation, rows, whole.count(), session), plain_reader(store))

    def steps(self, split: str, after: Offset | None) -> Iterator[Step]:
        """Yield the steps up to the newest version."""
        standing = standing_of(after)
        step = (
            snapshot_step(self.log, "snapshot")
            if standing is None
            else next_step(self.log, self.relation.name, standing.at)
        )
        while step is not None:
            yield step
            step = next_step(self.log, self.relation.name, step.then)

    def taken(self, step: Step, after: Offset | None, version: Version, spark: Spark) -> Taken:
        """Write the files of a step, and say what is to be known of it."""
        seen, metadata = standing_of(after), step.then.metadata
        columns = taken_columns(self.relation, metadata, self.place)
        step = self._following(step, seen, columns.values())
        warnings, told = self._lacking(step, seen, columns.values())
        note = "" if metadata.has_feed else NO_FEED
        if note and (after is None or after.note != note):
            warnings.append(note)
        if step.kind == "nothing":
            done = Changed()
        elif self.relation.passes:
            done = self._passed(spark, step, None if seen is None else seen.at, version)
        else:
            done = self._written(spark, step, version, columns)
        if done.twice and step.kind == "feed":
            warnings.append(
                f"versions {step.first} to {step.last} hold {done.twice} rows more than they have keys: one of each was taken"
            )
        compares = step.kind in ("snapshot", "difference") and not self.relation.passes
        return Taken(
            text_of(Standing(step.then, told)),
            files=done.ssts,
            rows=done.puts + done.deletes,
            aside=done.aside,
            letters=_letters(step, done),
            warnings=warnings,
            note=note,
            precondition=unchanged(self.table(version)) if compares else None,
        )

    def _following(self, step: Step, seen: Standing | None, columns: Collection[TakenColumn]) -> Step:
        """Return a step as it is to be taken; raises HistoryGone if a name is another column's by now, which no feed tells."""
        if seen is None or step.kind not in ("feed", "nothing"):
            return step
        metadata = step.then.metadata
        taken = {column.name: column.type for column in columns}
        others = renamed_columns(seen.at.metadata.schema_string, metadata.schema_string, taken)
        name = next(iter(others), None)
        if name is None:
            return step
        if step.kind == "nothing" and not metadata.has_feed:
            return replace(step, kind="difference")
        raise HistoryGone(
            self.relation.name,
            f"column {name} of the Delta table at {self.place.shown} is not the one that was taken: columns were renamed, or it "
            "was dropped and added again",
        )

    def _written(
        self, spark: Spark, step: Step, version: Version, columns: Mapping[str, TakenColumn]
    ) -> Changed:
        """Write the files of a step's rows."""
        table, relation, store = self.table(version), self.relation, self.store
        compares = step.kind != "feed"
        at = table.narrowed(table.committed_epoch, table.committed_epoch)
        body = WriteChanges(
            store.url,
            dict(store.options),
            relation,
            table.table,
            compares=compares,
            new=compares and not table.live_ssts,
        )
        with reading(spark, relation.name, self.place) as session:
            if not compares:
                rows = changes_of(session, relation, step, self.place, columns)
                few = self._few(rows) if step.size <= SMALL_BYTES else None
                if few is not None:
                    return body.of_rows(few, store.reader)
                return body.of_frame(
                    in_key_order(relation, rows, step.size // ROW_BYTES, session), store.reader
                )
            rows = snapshot_of(session, relation, step.last, self.place, columns)
            files, count = rows.inputFiles(), rows.count()
            self.place.check(files)
            if body.new:
                ordered = self._new_rows(rows, files, count, step, columns)
            else:
                rows = rows.selectExpr("*", f"CAST({COMES} AS BIGINT) AS {PLACE}")
                rows = rows.unionByName(rows_here(session, store, relation, at), allowMissingColumns=True)
                ordered = in_key_order(relation, rows, count + at.row_count, session)
            return body.of_frame(ordered, store.reader)

    def _new_rows(
        self,
        rows: DataFrame,
        files: Sequence[str],
        count: int,
        step: Step,
        columns: Mapping[str, TakenColumn],
    ) -> InKeyOrder:
        """Return the rows of a version, which none stand beside, in the order of the table's files."""
        relation, session = self.relation, rows.sparkSession
        splits, names = None, {name: column.name for name, column in columns.items()}
        if packs(relation, count):
            splits = plain_splits(relation, step.then.metadata, names, files, count)
        if splits is None:
            return in_key_order(relation, rows, count, session, placed=False)
        parts = min(len(splits), partitions_for(count, parallelism(session)))
        body = partial(PackFiles, splits, relation, names, parts)
        numbers = session.range(0, parts, 1, parts)
        return in_packed_order(
            relation, count, session, lambda packed: numbers.mapInArrow(body(packed), PACKED), placed=False
        )

    def _few(self, rows: DataFrame) -> pa.Table | None:
        """Return rows if they are few, else None."""
        found = held(rows.limit(SMALL_ROWS + 1).toArrow())
        return found if found.num_rows <= SMALL_ROWS else None

    def _lacking(
        self, step: Step, seen: Standing | None, columns: Collection[TakenColumn]
    ) -> tuple[list[str], tuple[str, ...]]:
        """Return what to say of what the table lacks or has narrower, each once, and of which it is said by now."""
        there = {column.name: column for column in delta_columns(step.then.metadata.schema_string)}
        taken = {column.name for column in columns}
        name, passes = self.relation.name, self.relation.passes
        anew = "a source that is created anew" if passes else "a table that is made anew"
        said: dict[str, str] = {}
        for column in (one for one in there if one not in taken):
            adds = f"ALTER TABLE {name} ADD COLUMN {column} {(there[column].type or '…').upper()} takes it from there on"
            said[column] = f"the Delta table has a new column {column}, which {name} lacks: " + (
                f"{anew} has it" if passes else adds
            )
        for field in (field for column in columns for field in column.left):
            said[field] = f"the Delta table has a new field {field}, which {name} lacks: {anew} has it"
        for one in (one for column in columns for one in column.wider):
            path, _, kind = one.rpartition(" ")
            unfit = (
                "the first value that does not fit stops it"
                if passes
                else "rows whose value does not fit are set aside"
            )
            said[one] = (
                f"{path} of the Delta table is {kind} by now, and narrower in {name}: {unfit}; {anew} has its type"
            )
        if seen is None:  # what the user has left out
            return [], tuple(said)
        return [text for what, text in said.items() if what not in seen.told], tuple(said)


def _letters(step: Step, done: Changed) -> list[DeadLetter]:
    """Return rows that were set aside, numbered within their version."""
    lines: dict[str, int] = {}
    found = []
    for letter in done.letters:
        file = f"version {letter.place // 2}" if step.kind == "feed" else "snapshot"
        lines[file] = lines.get(file, 0) + 1
        found.append(DeadLetter(file, lines[file], letter.reason, letter.raw))
    return found
