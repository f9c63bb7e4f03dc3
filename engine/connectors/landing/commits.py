"""Rows of landing files, their records and their dead letters made one commit, which stands only if no other poller was faster.

A large file is taken in several commits. Each says in the file's record how many of its records are taken, so that whoever goes
on, after a crash or as another process, begins exactly behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import Column as Values
from engine.arrow import to_positions
from engine.connectors.contract.connector import SourceReport
from engine.connectors.contract.intake import Intake, commit_intake, commit_polled
from engine.connectors.contract.signed_rows import explain_known_key, find_known_keys, select_newest_rows
from engine.connectors.formats.file_format import BadLine, format_raw
from engine.connectors.landing.file_reader import FileBatch
from engine.connectors.landing.pending import PendingFile
from engine.connectors.landing.rows import LandedRows
from engine.connectors.landing.sequences import find_sequence_table, select_newest
from engine.connectors.landing.tables import (
    FILES,
    FileRecord,
    build_record_rows,
    find_file_records,
    parse_record,
)
from engine.connectors.landing.tasks import TaskLoad
from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Put, SstInfo, TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require_all, require_none, require_unchanged
from engine.hummock.writes.batch import Operation
from engine.meta.status.dead_letters import DeadLetter
from engine.runtime.rows import assign_row_ids
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import ROW_ID, Relation


@dataclass(frozen=True)
class LandingPart:
    """Some rows of a file that are to be committed; `changed` tells of a file that is not read again."""

    file: PendingFile
    batch: FileBatch
    changed: bool = False


@dataclass
class LandingCommits:
    """The commits of one poll of one table."""

    store: Hummock
    table: str
    append_only: bool
    refuses_known_keys: bool
    report: SourceReport
    same: Precondition
    """That the table is the one for which rows are read."""
    records: dict[str, FileRecord | None] = field(default_factory=dict)
    """The record that each file is expected to have in the store."""
    relation: Relation | None = None
    """The table in the catalog, which tells its watermark."""

    def begin(self, file: PendingFile) -> None:
        """Expect the record that the file was found with."""
        self.records[file.path] = file.record

    def commit(self, parts: Sequence[LandingPart]) -> set[str]:
        """Commit parts of files; returns the paths of those that another poller has taken first, of which nothing was.

        All that an attempt asks it asks of one version: other threads bring the store's own on at any moment. Rows that the
        store refuses end the attempts, and each file is committed for itself: an attempt that began again behind some of them
        would take their rows again.
        """
        lost: set[str] = set()
        waiting = parts

        def attempt() -> InvalidRow | None:
            nonlocal lost, waiting
            version = self.store.version
            self.same(version)
            lost |= self._find_lost(version, list(dict.fromkeys(part.file.path for part in waiting)))
            waiting = [part for part in waiting if part.file.path not in lost]
            if not waiting:
                return None
            try:
                if self.refuses_known_keys:
                    self._ingest(version, self._reject_known_keys(version, waiting))
                else:
                    self._ingest(version, waiting)
            except InvalidRow as error:
                return error
            return None

        refused = commit_polled(self.store, self.table, attempt)
        return lost if refused is None else lost | self._commit_each(waiting, refused)

    def commit_load(
        self, load: TaskLoad, write: Callable[[TableVersion], tuple[Sequence[SstInfo], bool]]
    ) -> None:
        """Commit files that tasks have read, whose rows are written by `write` for a table as it is; those that another poller
        has taken first are left.
        """

        def attempt() -> None:
            version = self.store.version
            self.same(version)
            lost = self._find_lost(version, [load.files[number].path for number in load.committable])
            load.lost.update(number for number in load.committable if load.files[number].path in lost)
            if load.committable:
                self._commit_load(version, load, write)

        commit_polled(self.store, self.table, attempt)

    def _commit_load(
        self,
        version: Version,
        load: TaskLoad,
        write: Callable[[TableVersion], tuple[Sequence[SstInfo], bool]],
    ) -> None:
        table, records, dead, warnings = version.tables[self.table], {}, list[DeadLetter](), list[str]()
        ssts, of_empty = write(table)
        for number in load.committable:
            file, bad = load.files[number], load.list_bad_lines(number)
            stamps = (file.size, file.mtime_ns, file.size, file.mtime_ns)
            counts = (load.count_rows(number), len(bad), None, file.etag or None)
            records[file.path] = FileRecord(self.table, file.path, table.table_id, *stamps, *counts)
            dead += [DeadLetter(file.path, one.line, one.reason, one.raw) for one in bad]
            warnings += _build_file_warnings(file, load.list_unknown_columns(number), bad)
        intake = Intake(
            {FILES: [Put(build_record_rows(list(records.values())))]},
            [self._require_ours(list(records), version), require_unchanged(table) if of_empty else None],
            files=ssts,
            letters=dead,
        )
        committed = commit_intake(self.store, version, table, intake)
        self.records |= records
        self.report = replace(
            self.report,
            files=self.report.files + len(records),
            rows=self.report.rows + sum(record.rows for record in records.values()),
            dead_rows=self.report.dead_rows + len(dead),
            epoch=committed.epoch,
        ).add_warnings(warnings)

    def _find_lost(self, version: Version, paths: Sequence[str]) -> set[str]:
        stored = find_file_records(
            self.store, version, self.table, version.tables[self.table].table_id, paths
        )
        return {path for path in paths if stored.get(path) != self.records[path]}

    def _commit_each(self, parts: Sequence[LandingPart], error: InvalidRow) -> set[str]:
        """Commit each file for itself; the one whose rows the store refuses is set aside."""
        paths = list(dict.fromkeys(part.file.path for part in parts))
        if len(paths) == 1:
            bad_line = BadLine(0, f"its rows can't be stored: {error}", "")
            return self.commit([LandingPart(parts[0].file, FileBatch(None, (bad_line,), 0, last=True))])
        lost: set[str] = set()
        for path in paths:
            lost |= self.commit([part for part in parts if part.file.path == path])
        return lost

    def _ingest(self, version: Version, parts: Sequence[LandingPart]) -> None:
        table = version.tables[self.table]
        landed = [part.batch.landed for part in parts if part.batch.landed is not None]
        by_file: dict[str, list[LandingPart]] = {}
        for part in parts:
            by_file.setdefault(part.file.path, []).append(part)
        records = {path: self._build_record(of, table.table_id) for path, of in by_file.items()}
        dead = [
            DeadLetter(part.file.path, bad.line, format_raw(bad.reason), format_raw(bad.raw))
            for part in parts
            for bad in part.batch.bad
        ]
        arrivals = ArrivingRows(self.store, version, self.relation)
        ours = self._require_ours(list(by_file), version)
        system: dict[str, Sequence[Operation]] = {FILES: [Put(build_record_rows(list(records.values())))]}
        sequences = None
        if self.relation is not None and any(each.sequences is not None for each in landed):
            sequences = find_sequence_table(self.relation, version)
        operations, of_sequences = self._build_operations(landed, table, arrivals, sequences)
        if sequences is not None:
            ours = require_all(ours, require_unchanged(sequences))
            if of_sequences is not None:
                system[sequences.name] = [of_sequences]
        intake = Intake(
            system | arrivals.build_writes(),
            [arrivals.require_unmoved(ours)],
            operations,
            letters=dead,
            watermarks=arrivals.get_ttl_watermarks(),
        )
        committed = commit_intake(self.store, version, table, intake)
        self.records |= records
        self.report = replace(
            self.report,
            files=self.report.files + sum(1 for part in parts if part.batch.last and not part.changed),
            rows=self.report.rows + sum(each.rows.num_rows for each in landed),
            dead_rows=self.report.dead_rows + len(dead),
            late_rows=self.report.late_rows + arrivals.late,
            epoch=committed.epoch,
        ).add_warnings(_build_warnings(parts))

    def _build_operations(
        self,
        landed: Sequence[LandedRows],
        table: TableVersion,
        arrivals: ArrivingRows,
        sequences: TableVersion | None,
    ) -> tuple[list[Put | Delete], Put | None]:
        """Return what rows write to the table, and to that of its sequences."""
        if not landed:
            return [], None
        rows = pa.concat_tables([each.rows for each in landed])
        deletes, of_sequences = np.concatenate([each.deletes for each in landed]), None
        if sequences is not None:
            order = _concatenated([each.sequences for each in landed if each.sequences is not None])
            found = select_newest(self.store.reader, sequences, rows, order)
            rows, deletes = rows.take(to_positions(found.places)), deletes[found.places]
            of_sequences = found.operation if len(found.places) else None
        rows = assign_row_ids(self.store, rows)
        puts, keys = select_newest_rows(rows, deletes, tuple(table.primary_key))
        puts = arrivals.filter_late(puts)
        operations: list[Put | Delete] = []
        if puts.num_rows:
            new_keys = self.refuses_known_keys or ROW_ID in table.primary_key
            operations.append(Put(puts, new_keys=new_keys))
        if keys.num_rows:
            operations.append(Delete(keys))
        return operations, of_sequences

    def _build_record(self, parts: Sequence[LandingPart], table_id: int) -> FileRecord:
        """Return the record that a file has once these parts of it are committed."""
        file, last = parts[0].file, parts[-1].batch
        before = self.records[file.path]
        dead = sum(len(part.batch.bad) for part in parts)
        size, time_ns, etag = file.size, file.mtime_ns, file.etag or None
        if parts[-1].changed and before is not None:
            # What was taken stays told; of a half-taken file the rest is not taken any more.
            return replace(before, seen_size=size, seen_mtime_ns=time_ns, seen_etag=etag, position=None)
        rows = sum(part.batch.landed.rows.num_rows for part in parts if part.batch.landed is not None)
        if before is not None:
            rows, dead = rows + before.rows, dead + before.dead_rows
        position = None if last.last else last.position
        stamps = (size, time_ns, size, time_ns)
        return FileRecord(self.table, file.path, table_id, *stamps, rows, dead, position, etag)

    def _require_ours(self, paths: list[str], before: Version) -> Precondition:
        """The commit stands only if none of the files was recorded, and an APPEND ONLY table not written, since then."""
        table, base_epoch = before.tables[self.table], before.tables[FILES].committed_epoch
        keys = pa.table({"source": [self.table] * len(paths), "path": paths})
        expected = {path: self.records[path] for path in paths}

        def find_taken(version: Version) -> str | None:
            records = version.tables[FILES]
            if records.committed_epoch == base_epoch:
                return None
            _, found = self.store.reader.lookup(records, keys, records.committed_epoch)
            for row in found.to_pylist():
                if row["table_id"] == table.table_id and parse_record(row) != expected[row["path"]]:
                    return f"{row['path']} were read by another process at the same time"
            return None

        message = f"{self.table} was written by another process at the same time"
        unwritten = require_unchanged(table, message) if self.append_only else None
        return require_all(self.same, unwritten, require_none(find_taken))

    def _reject_known_keys(self, version: Version, parts: Sequence[LandingPart]) -> list[LandingPart]:
        """Set aside rows of an APPEND ONLY table whose key exists already, or came earlier in these parts."""
        table = version.tables[self.table]
        key = list(table.primary_key)
        landed = [part.batch.landed for part in parts if part.batch.landed is not None]
        if not landed:
            return list(parts)
        keys = pa.concat_tables([each.rows.select(key) for each in landed])
        again = find_known_keys(self.store.reader, table, keys)
        settled, start = [], 0
        for part in parts:
            rows = 0 if part.batch.landed is None else part.batch.landed.rows.num_rows
            settled.append(_set_aside(part, self.table, again[start : start + rows]))
            start += rows
        return settled


def _set_aside(part: LandingPart, table: str, again: np.ndarray) -> LandingPart:
    landed = part.batch.landed
    if landed is None or not again.any():
        return part
    assert landed.locate_row is not None, "rows of an APPEND ONLY table keep their places"
    reason = explain_known_key(table)
    bad = []
    for index in landed.lines[again].tolist():
        line, raw = landed.locate_row(index)
        bad.append(BadLine(line, reason, raw))
    remaining = replace(
        landed,
        rows=landed.rows.filter(pa.array(~again)),
        deletes=landed.deletes[~again],
        lines=landed.lines[~again],
    )
    return replace(part, batch=replace(part.batch, landed=remaining, bad=(*part.batch.bad, *bad)))


def _concatenated(parts: Sequence[Values]) -> pa.ChunkedArray[Any]:
    chunks = [
        chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])
    ]
    return pa.chunked_array(chunks, parts[0].type)


def _build_warnings(parts: Sequence[LandingPart]) -> list[str]:
    found = []
    for part in parts:
        unknown = () if part.batch.landed is None else part.batch.landed.unknown
        found += _build_file_warnings(part.file, unknown, part.batch.bad)
    return found


def _build_file_warnings(file: PendingFile, unknown: Sequence[str], bad: Sequence[BadLine]) -> list[str]:
    names = ", ".join(unknown)
    found = [f"{file.path}: columns that the table lacks were left out: {names}"] if names else []
    return found + [f"{file.path}: {one.reason}" for one in bad if one.line <= 0]
