"""Rows of landing files, their records and their dead letters made one commit, which stands only if no other poller was faster.

A large file is taken in several commits. Each says in the file's record how many of its records are taken, so that whoever goes
on, after a crash or as another process, begins exactly behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from engine.connectors.file_formats import BadLine, shown
from engine.connectors.landing_files import ReadBatch
from engine.connectors.landing_rows import ROW_ID, LandedRows, newest_rows
from engine.connectors.landing_tables import (
    FILES,
    TakenFile,
    record_of,
    rows_of,
    taken_files,
)
from engine.connectors.landing_watch import PendingFile
from engine.errors import Conflict, InvalidRow, SourceError, WriteStopped
from engine.hummock import Delete, Hummock, Put, TableVersion, Version
from engine.hummock.batch import Operation
from engine.hummock.preconditions import Precondition
from engine.meta.dead_letters import DEAD_LETTER, DEAD_LETTER_SCHEMA
from engine.runtime.rows import with_row_ids
from engine.runtime.writes.watermarks import Arrivals
from engine.sql.catalog import Relation

RACE_ATTEMPTS = 50
MOST_WARNINGS = 1_000


@dataclass(frozen=True)
class LandingReport:
    """What one poll of one source did; `epoch` is that of its last commit, None if there was nothing to commit."""

    table: str
    files: int = 0
    rows: int = 0
    dead_rows: int = 0
    late_rows: int = 0
    seconds: float = 0.0
    epoch: int | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None

    def warned(self, warnings: Iterable[str]) -> LandingReport:
        """Return the report with further warnings, each once."""
        return replace(self, warnings=tuple(dict.fromkeys([*self.warnings, *warnings]))[:MOST_WARNINGS])


@dataclass(frozen=True)
class Part:
    """Some rows of a file that are to be committed; `changed` tells of a file that is not read again."""

    file: PendingFile
    batch: ReadBatch
    changed: bool = False


@dataclass
class LandingCommits:
    """The commits of one poll of one table."""

    store: Hummock
    table: str
    append_only: bool
    refuses_known_keys: bool
    report: LandingReport
    same: Precondition
    """That the table is the one for which rows are read."""
    records: dict[str, TakenFile | None] = field(default_factory=dict)
    """The record that each file is expected to have in the store."""
    relation: Relation | None = None
    """The table in the catalog, which tells its watermark."""

    def begin(self, file: PendingFile) -> None:
        """Expect the record that the file was found with."""
        self.records[file.path] = file.taken

    def commit(self, parts: Sequence[Part]) -> set[str]:
        """Commit parts of files; returns the paths of those that another poller has taken first, of which nothing was.

        All that an attempt asks it asks of one version: other threads bring the store's own on at any moment.
        """
        lost: set[str] = set()
        stopped = 0
        for _ in range(RACE_ATTEMPTS):
            version = self.store.version
            self.same(version)
            lost |= self._lost(version, parts)
            parts = [part for part in parts if part.file.path not in lost]
            if not parts:
                return lost
            try:
                if self.refuses_known_keys:
                    self._ingest(version, self._without_known_keys(version, parts))
                else:
                    self._ingest(version, parts)
                return lost
            except Conflict:
                self.store.refresh()
            except WriteStopped as stop:
                if (stopped := stopped + 1) > 2:
                    raise
                self.store.compact_l0(stop.table)
            except InvalidRow as error:
                return lost | self._one_by_one(parts, error)
        raise SourceError(f"table {self.table}: other writers were faster {RACE_ATTEMPTS} times: poll again")

    def _lost(self, version: Version, parts: Sequence[Part]) -> set[str]:
        paths = list(dict.fromkeys(part.file.path for part in parts))
        stored = taken_files(self.store, version, self.table, version.tables[self.table].table_id, paths)
        return {path for path in paths if stored.get(path) != self.records[path]}

    def _one_by_one(self, parts: Sequence[Part], error: InvalidRow) -> set[str]:
        """Commit each file for itself; the one whose rows the store refuses is set aside."""
        paths = list(dict.fromkeys(part.file.path for part in parts))
        if len(paths) == 1:
            told = BadLine(0, f"its rows can't be stored: {error}", "")
            return self.commit([Part(parts[0].file, ReadBatch(None, (told,), 0, last=True))])
        lost: set[str] = set()
        for path in paths:
            lost |= self.commit([part for part in parts if part.file.path == path])
        return lost

    def _ingest(self, version: Version, parts: Sequence[Part]) -> None:
        table = version.tables[self.table]
        landed = [part.batch.landed for part in parts if part.batch.landed is not None]
        by_file: dict[str, list[Part]] = {}
        for part in parts:
            by_file.setdefault(part.file.path, []).append(part)
        records = {path: self._record(of, table.table_id) for path, of in by_file.items()}
        dead = [(part.file.path, bad) for part in parts for bad in part.batch.bad]
        arrivals = Arrivals(self.store, version, self.relation)
        operations = self._operations(landed, table, arrivals)
        writes: dict[str, Sequence[Operation]] = {FILES: [Put(rows_of(list(records.values())))]}
        writes |= arrivals.writes()
        if dead:
            writes[DEAD_LETTER] = [*writes.get(DEAD_LETTER, ()), Put(_dead_letters(self.table, dead))]
        if operations:
            writes[self.table] = operations
        unchanged = arrivals.unmoved(self._still_ours(list(by_file), version))
        epoch = self.store.ingest_batch(writes, precondition=unchanged, watermarks=arrivals.watermarks())
        self.records |= records
        self.report = replace(
            self.report,
            files=self.report.files + sum(1 for part in parts if part.batch.last and not part.changed),
            rows=self.report.rows + sum(each.rows.num_rows for each in landed),
            dead_rows=self.report.dead_rows + len(dead),
            late_rows=self.report.late_rows + arrivals.late,
            epoch=epoch,
        ).warned(_warnings(parts))

    def _operations(
        self, landed: Sequence[LandedRows], table: TableVersion, arrivals: Arrivals
    ) -> list[Put | Delete]:
        if not landed:
            return []
        rows = pa.concat_tables([each.rows for each in landed])
        deletes = np.concatenate([each.deletes for each in landed])
        rows = with_row_ids(self.store, rows)
        puts, keys = newest_rows(rows, deletes, tuple(table.primary_key))
        puts = arrivals.take(puts)
        operations: list[Put | Delete] = []
        if puts.num_rows:
            new_keys = self.refuses_known_keys or ROW_ID in table.primary_key
            operations.append(Put(puts, new_keys=new_keys))
        if keys.num_rows:
            operations.append(Delete(keys))
        return operations

    def _record(self, parts: Sequence[Part], table_id: int) -> TakenFile:
        """Return the record that a file has once these parts of it are committed."""
        file, last = parts[0].file, parts[-1].batch
        before = self.records[file.path]
        dead = sum(len(part.batch.bad) for part in parts)
        if parts[-1].changed and before is not None:
            # What was taken stays told; of a half-taken file the rest is not taken any more.
            return replace(before, seen_size=file.size, seen_mtime_ns=file.mtime_ns, position=None)
        rows = sum(part.batch.landed.rows.num_rows for part in parts if part.batch.landed is not None)
        if before is not None:
            rows, dead = rows + before.rows, dead + before.dead_rows
        size, time_ns = file.size, file.mtime_ns
        position = None if last.last else last.taken
        return TakenFile(self.table, file.path, table_id, size, time_ns, size, time_ns, rows, dead, position)

    def _still_ours(self, paths: list[str], before: Version) -> Callable[[Version], None]:
        """The commit stands only if none of the files was recorded, and an APPEND ONLY table not written, since then."""
        table, seen = before.tables[self.table], before.tables[FILES].committed_epoch
        keys = pa.table({"source": [self.table] * len(paths), "path": paths})
        expected = {path: self.records[path] for path in paths}

        def check(version: Version) -> None:
            self.same(version)
            if self.append_only and version.tables[self.table].committed_epoch != table.committed_epoch:
                raise Conflict(f"{self.table} was written by another process at the same time")
            records = version.tables[FILES]
            if records.committed_epoch == seen:
                return
            _, found = self.store.reader.lookup(records, keys, records.committed_epoch)
            for row in found.to_pylist():
                if row["table_id"] == table.table_id and record_of(row) != expected[row["path"]]:
                    raise Conflict(f"{row['path']} was taken by another process at the same time")

        return check

    def _without_known_keys(self, version: Version, parts: Sequence[Part]) -> list[Part]:
        """Set aside rows of an APPEND ONLY table whose key exists already, or came earlier in these parts."""
        table = version.tables[self.table]
        key = list(table.primary_key)
        landed = [part.batch.landed for part in parts if part.batch.landed is not None]
        if not landed:
            return list(parts)
        keys = pa.concat_tables([each.rows.select(key) for each in landed])
        numbered = keys.append_column("_row", pa.array(np.arange(keys.num_rows)))
        first = numbered.group_by(key).aggregate([("_row", "min")]).column("_row_min").to_numpy()
        again = np.ones(keys.num_rows, dtype=bool)
        again[first] = False
        index, _ = self.store.reader.lookup(table, keys, table.committed_epoch, columns=key, null_safe=True)
        again[index] = True
        settled, start = [], 0
        for part in parts:
            rows = 0 if part.batch.landed is None else part.batch.landed.rows.num_rows
            settled.append(_set_aside(part, self.table, again[start : start + rows]))
            start += rows
        return settled


def _set_aside(part: Part, table: str, again: np.ndarray) -> Part:
    landed = part.batch.landed
    if landed is None or not again.any():
        return part
    assert landed.place is not None, "rows of an APPEND ONLY table keep their places"
    reason = f"table {table} is APPEND ONLY and holds a row of this key already"
    bad = []
    for index in landed.lines[again].tolist():
        line, raw = landed.place(index)
        bad.append(BadLine(line, reason, raw))
    kept = replace(
        landed,
        rows=landed.rows.filter(pa.array(~again)),
        deletes=landed.deletes[~again],
        lines=landed.lines[~again],
    )
    return replace(part, batch=replace(part.batch, landed=kept, bad=(*part.batch.bad, *bad)))


def _warnings(parts: Sequence[Part]) -> list[str]:
    found = []
    for part in parts:
        if part.batch.landed is not None and part.batch.landed.unknown:
            names = ", ".join(part.batch.landed.unknown)
            found.append(f"{part.file.path}: columns that the table lacks were left out: {names}")
        found += [f"{part.file.path}: {bad.reason}" for bad in part.batch.bad if bad.line <= 0]
    return found


def _dead_letters(source: str, dead: list[tuple[str, BadLine]]) -> pa.Table:
    return pa.table(
        [
            pa.array([source] * len(dead), pa.string()),
            pa.array([path for path, _ in dead], pa.string()),
            pa.array([bad.line for _, bad in dead], pa.int64()),
            pa.array([shown(bad.reason) for _, bad in dead], pa.string()),
            pa.array([shown(bad.raw) for _, bad in dead], pa.string()),
        ],
        schema=DEAD_LETTER_SCHEMA,
    )
