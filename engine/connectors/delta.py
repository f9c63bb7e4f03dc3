"""The Delta source: a Delta table's snapshot, then its change data feed, become rows of a table, each version once.

`CREATE TABLE t (id BIGINT PRIMARY KEY, …) WITH (connector = 'delta', path = 'folder')`. Rows and the version that they bring the
table to stand in one commit, which is refused if another poller has gone on meanwhile.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.delta_log import DeltaLog, delta_place
from engine.connectors.delta_offsets import Offset, ensure_offsets, offset_of, row_of
from engine.connectors.delta_read import changes_of, reading, rows_here, snapshot_of, taken_columns
from engine.connectors.delta_steps import HistoryGone, Step, has_next, next_step, snapshot_step
from engine.connectors.delta_types import delta_columns
from engine.connectors.fed_tables import fed_by, polled
from engine.connectors.landing import LandingReport
from engine.connectors.landing_tables import source_options
from engine.errors import Conflict, SourceError, StorageError, WriteStopped
from engine.hummock import Commit, Hummock, Put, SstInfo, TableVersion, Version
from engine.hummock.batch import Operation, gather
from engine.hummock.preconditions import same_tables, unaltered
from engine.meta.catalog_store import load
from engine.meta.dead_letters import DEAD_LETTER, DEAD_LETTER_SCHEMA, ensure_dead_letters
from engine.meta.source_notes import DELTA_OFFSETS
from engine.runtime.writes.change_tasks import COMES, Changed, WriteChanges
from engine.runtime.writes.conflicts import unchanged
from engine.runtime.writes.spilled import PLACE
from engine.runtime.writes.write_tasks import in_key_order
from engine.sql.catalog import Catalog, Relation

CONNECTOR = "delta"
OPTIONS: Mapping[str, str] = {
    "connector": "'delta': rows follow a Delta table",
    "path": "the Delta table's folder, or s3://bucket/prefix; a relative folder starts at TIDELINE_HOME",
}
"""The options of a Delta source and what they mean; `docs/reference.md` is made of this."""
RACE_ATTEMPTS = 50
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
Spark = Callable[[], SparkSession]


@dataclass
class _Seen:
    """What the last look at a log has found: for which version of the offsets, when, and the size and time of the entry."""

    offsets: int
    offset: Offset | None
    looked: float = float("-inf")
    pending: str | None = None
    entry: tuple[int, float] | None = None


_SEEN: weakref.WeakKeyDictionary[Hummock, dict[tuple[int, str], _Seen]] = weakref.WeakKeyDictionary()


class DeltaSource:
    """One Delta table that feeds one table."""

    def __init__(self, store: Hummock, relation: Relation) -> None:
        self.store, self.relation = store, relation
        path = source_options(relation.options).get("path")
        if not path:
            raise SourceError(f"table {relation.name}: the delta source needs a path: write path = 'folder'")
        self.place = delta_place(path)
        self.log = DeltaLog(self.place)

    def pending(self) -> str | None:
        """Return a text that lasts until what is pending is taken, None if nothing is; costs a look at two names."""
        table = self._table(self.store.version)
        records = self.store.version.tables.get(DELTA_OFFSETS)
        at = 0 if records is None else records.committed_epoch
        known = _SEEN.setdefault(self.store, {})
        seen = known.get((table.table_id, self.place.spark))
        if seen is None or seen.offsets != at:
            seen = _Seen(at, offset_of(self.store, self.store.version, table))
            known[(table.table_id, self.place.spark)] = seen
        now = time.monotonic()
        if self.place.is_remote and now - seen.looked < LOOK_SECONDS:
            return seen.pending
        seen.looked, seen.pending = now, self._look(seen)
        return seen.pending

    def _look(self, seen: _Seen) -> str | None:
        if seen.offset is None:
            return "snapshot"
        at = seen.offset.at
        if has_next(self.log, at):
            return f"after {at.version}"
        found = self.log.look(at.version)
        entry = None if found is None else (found.size, found.modified)
        if entry is None or entry != seen.entry:
            if self.log.digest(at.version) != at.digest:
                return f"not {at.version}"
            seen.entry = entry
        return None

    def poll(self, spark: Spark) -> LandingReport:
        """Take all versions that have come. Raises SourceError, HistoryGone where only RESYNC helps."""
        started = time.perf_counter()
        report = LandingReport(self.relation.name)
        if self.pending() is None:
            return report
        try:
            report = self._take(spark, report, self._next)
        except SourceError as error:
            self._note_error(str(error))
            raise
        return replace(report, seconds=time.perf_counter() - started)

    def resync(self, spark: Spark) -> LandingReport:
        """Write the difference between the table and the newest snapshot, and go on from there."""
        ends: list[Step] = []

        def once(offset: Offset | None) -> Step | None:
            if ends and offset is not None and offset.at == ends[-1].then:
                return None
            ends.append(snapshot_step(self.log, "snapshot"))
            return ends[-1]

        return self._take(spark, LandingReport(self.relation.name), once)

    def _next(self, offset: Offset | None) -> Step | None:
        if offset is None:
            return snapshot_step(self.log, "snapshot")
        return next_step(self.log, self.relation.name, offset.at)

    def _take(
        self, spark: Spark, report: LandingReport, choose: Callable[[Offset | None], Step | None]
    ) -> LandingReport:
        self.store.refresh()
        ensure_offsets(self.store)
        ensure_dead_letters(self.store)
        losses = stopped = 0
        table_id = self._table(self.store.version).table_id
        while losses < RACE_ATTEMPTS:
            version = self.store.version
            if self._table(version).table_id != table_id:
                raise self._dropped()
            offset = offset_of(self.store, version, self._table(version))
            self.relation = load(version).catalog.get(self.relation.name)  # which may have been altered
            step = choose(offset)
            if step is None:
                return report
            try:
                report = self._commit(spark, version, offset, step, report)
            except Conflict:
                losses += 1
                self.store.refresh()
            except WriteStopped as stop:
                if (stopped := stopped + 1) > 2:
                    raise
                self.store.compact_l0(stop.table)
        raise SourceError(
            f"table {self.relation.name}: other writers were faster {RACE_ATTEMPTS} times: poll again"
        )

    def _commit(
        self, spark: Spark, version: Version, seen: Offset | None, step: Step, report: LandingReport
    ) -> LandingReport:
        """Commit a step's rows with the offset behind them, under the condition that nobody has gone on meanwhile."""
        table = self._table(version)
        columns = taken_columns(self.relation, step.then.metadata, self.place)
        warnings, told = self._lacking(step, seen, set(columns.values()))
        note = "" if step.then.metadata.has_feed else NO_FEED
        if note and (seen is None or seen.note != note):
            warnings.append(note)
        done = Changed() if step.kind == "nothing" else self._written(spark, step, version, columns)
        if done.twice and step.kind == "feed":
            warnings.append(
                f"versions {step.first} to {step.last} hold {done.twice} rows more than they have keys: one of each was taken"
            )
        more: dict[str, Sequence[Operation]] = {
            DELTA_OFFSETS: [Put(row_of(table, Offset(step.then, told, note)))]
        }
        if done.letters:
            more[DEAD_LETTER] = [Put(self._dead_letters(step, done))]
            warnings.append(f"{done.aside} rows were set aside, see {DEAD_LETTER}: {done.letters[0].reason}")
        writes: dict[str, Sequence[SstInfo]] = {table.name: done.ssts} if done.ssts else {}
        writes |= gather(self.store.reader, {name: version.tables[name].table for name in more}, more)

        def check(now: Version) -> None:
            if offset_of(self.store, now, self._table(now)) != seen:
                raise Conflict(f"versions for {table.name} were taken by another process at the same time")
            unaltered(table)(now)
            if step.kind in ("snapshot", "difference"):
                unchanged(table)(now)

        committed = self.store.commit(
            Commit(writes=writes, precondition=same_tables({table.name: table}, check))
        )
        return replace(
            report,
            rows=report.rows + done.puts + done.deletes,
            dead_rows=report.dead_rows + done.aside,
            epoch=committed.epoch,
        ).warned(warnings)

    def _written(self, spark: Spark, step: Step, version: Version, columns: Mapping[str, str]) -> Changed:
        """Write the files of a step's rows."""
        table, relation, store = self._table(version), self.relation, self.store
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
            if self.place.is_confined:
                self.place.check(rows.inputFiles())
            count = rows.count()
            if not body.new:
                rows = rows.selectExpr("*", f"CAST({COMES} AS BIGINT) AS {PLACE}")
                rows = rows.unionByName(rows_here(session, store, relation, at))
            ordered = in_key_order(relation, rows, count + at.row_count, session, placed=not body.new)
            return body.of_frame(ordered, store.reader)

    def _few(self, rows: DataFrame) -> pa.Table | None:
        """Return rows if they are few, else None."""
        found = rows.limit(SMALL_ROWS + 1).toArrow()
        return found if found.num_rows <= SMALL_ROWS else None

    def _lacking(
        self, step: Step, seen: Offset | None, taken: Collection[str]
    ) -> tuple[list[str], tuple[str, ...]]:
        """Return what to say of columns that the table lacks, each once, and of which it is said by now."""
        there = {column.name: column for column in delta_columns(step.then.metadata.schema_string)}
        lacking = [name for name in there if name not in taken]
        if seen is None:  # what the user has left out
            return [], tuple(lacking)
        name = self.relation.name
        warnings = [
            f"the Delta table has a new column {column}, which {name} lacks: "
            f"ALTER TABLE {name} ADD COLUMN {column} {(there[column].type or '…').upper()} takes it from there on"
            for column in lacking
            if column not in seen.told
        ]
        return warnings, tuple(lacking)

    def _dead_letters(self, step: Step, done: Changed) -> pa.Table:
        """Return rows that were set aside as rows of the table of dead letters."""
        name, letters = self.relation.name, done.letters
        files = [f"version {letter.place // 2}" if step.kind == "feed" else "snapshot" for letter in letters]
        lines: dict[str, int] = {}
        numbers = []
        for file in files:
            lines[file] = lines.get(file, 0) + 1
            numbers.append(lines[file])
        return pa.table(
            [
                pa.array([name] * len(letters), pa.string()),
                pa.array(files, pa.string()),
                pa.array(numbers, pa.int64()),
                pa.array([letter.reason for letter in letters], pa.string()),
                pa.array([letter.raw for letter in letters], pa.string()),
            ],
            schema=DEAD_LETTER_SCHEMA,
        )

    def _note_error(self, error: str) -> None:
        """Keep in the store, for who asks how things stand, why the source does not go on."""
        version = self.store.refresh()
        table = version.tables.get(self.relation.name)
        seen = None if table is None else offset_of(self.store, version, table)
        if table is None or seen is None or seen.error == error:
            return

        def check(now: Version) -> None:
            if offset_of(self.store, now, self._table(now)) != seen:
                raise Conflict(f"versions for {self.relation.name} were taken by another process")

        try:
            self.store.ingest_batch(
                {DELTA_OFFSETS: [Put(row_of(table, replace(seen, error=error)))]}, precondition=check
            )
        except Conflict:
            self.store.refresh()

    def _table(self, version: Version) -> TableVersion:
        try:
            return version.tables[self.relation.name]
        except KeyError:
            raise self._dropped() from None

    def _dropped(self) -> SourceError:
        return SourceError(f"table {self.relation.name} was dropped while its Delta table was polled")


def poll_delta(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None, spark: Spark | None
) -> list[LandingReport]:
    """Poll every Delta source of the catalog (or of `tables`); one that fails is told in its report, the others go on."""
    return polled(
        fed_by(CONNECTOR, catalog, tables),
        lambda relation: DeltaSource(store, relation).poll(_given(spark, relation)),
    )


def pending_delta(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the sources (or those of `tables`) with something pending, each with a text that lasts until it is taken."""
    found = []
    for relation in fed_by(CONNECTOR, catalog, tables):
        try:
            waiting = DeltaSource(store, relation).pending()
        except SourceError as error:
            waiting = str(error)  # the poll of an epoch run tells it
        except StorageError:
            continue
        if waiting is not None:
            found.append((relation.name, waiting))
    return tuple(found)


def _given(spark: Spark | None, relation: Relation) -> Spark:
    if spark is not None:
        return spark

    def none() -> SparkSession:
        raise SourceError(
            f"table {relation.name}: a Delta table is read by Spark, and none was given to poll"
        )

    return none


__all__ = [
    "CONNECTOR",
    "OPTIONS",
    "DeltaSource",
    "HistoryGone",
    "pending_delta",
    "poll_delta",
]
