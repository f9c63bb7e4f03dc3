"""The landing-folder source: every file that appears in a folder becomes rows of a table, exactly once.

A file's rows, its record and its dead letters stand in one commit, and the commit is refused if another poller has
recorded the file meanwhile. Files are to be written under another name (`.part`, `.tmp`, `_…`, `.…`) and then renamed.
"""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.connectors.file_formats import (
    FORMATS,
    BadLine,
    FileOptions,
    MalformedFile,
    read_file,
)
from engine.connectors.landing_folder import listed, project_path
from engine.connectors.landing_rows import ROW_ID, LandedRows, Target, land, newest_rows
from engine.connectors.landing_tables import (
    CHANGED_FILE_LINE,
    DEAD_LETTER,
    DEAD_LETTER_SCHEMA,
    FILES,
    TakenFile,
    ensure_tables,
    rows_of,
    source_options,
    taken_files,
)
from engine.errors import Conflict, SourceError
from engine.hummock import Delete, Hummock, Put, TableVersion, Version
from engine.sql.catalog import Catalog, Column, Relation
from engine.sql.defaults import local_default, why_not_fed

CONNECTOR = "landing"
OPTIONS = ("connector", "path", "format", "null", "delimiter")
ROWS_PER_COMMIT = 1_000_000
RACE_ATTEMPTS = 50


@dataclass(frozen=True)
class PendingFile:
    """A file to be taken, or one that was changed after it was taken."""

    path: str
    size: int
    mtime_ns: int
    taken: TakenFile | None = None


@dataclass(frozen=True)
class LandingReport:
    """What one poll of one source did; `epoch` is that of its last commit, None if there was nothing to commit."""

    table: str
    files: int = 0
    rows: int = 0
    dead_rows: int = 0
    seconds: float = 0.0
    epoch: int | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class _ReadFile:
    file: PendingFile
    landed: LandedRows | None
    bad: tuple[BadLine, ...]


class LandingSource:
    """One folder that feeds one table; `required` are columns that may not be null besides those of the key."""

    def __init__(
        self,
        store: Hummock,
        table: str,
        folder: str | Path,
        format: str | None = None,
        *,
        null: str | None = None,
        delimiter: str = ",",
        required: Sequence[str] = (),
        append_only: bool = False,
        defaults: Sequence[Column] = (),
        limited: Sequence[Column] = (),
    ) -> None:
        if format is not None and format not in FORMATS:
            raise SourceError(f'table {table}: format "{format}" is unknown: use {", ".join(FORMATS)}')
        if len(delimiter) != 1:
            raise SourceError(f'table {table}: the delimiter "{delimiter}" is not one character')
        self.store = store
        self.folder = Path(folder)
        self.options = FileOptions(format, ("",) if not null else ("", null), delimiter)
        known = store.table(table)
        self.table = known.name
        self._required = tuple(required)
        self._append_only = append_only
        self._refuses_known_keys = append_only and list(known.primary_key) != [ROW_ID]
        self._defaults = tuple(defaults)
        self._limited = {column.source: column for column in limited}
        self._taken: tuple[object, dict[str, TakenFile]] | None = None

    @classmethod
    def of_relation(cls, store: Hummock, relation: Relation) -> LandingSource:
        """Return the source of a table `WITH (connector = 'landing', …)`; raises SourceError for a wrong option."""
        options = source_options(relation.options)
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise SourceError(
                f"table {relation.name}: option {unknown[0]} is unknown: use {', '.join(OPTIONS)}"
            )
        if not options.get("path"):
            raise SourceError(f"table {relation.name}: the landing source needs path = 'folder'")
        reason = why_not_fed(relation)
        if reason is not None:
            raise SourceError(f"table {relation.name}: {reason}")
        required = [column.name for column in relation.columns if not column.nullable]
        return cls(
            store,
            relation.name,
            project_path(options["path"]),
            options.get("format"),
            null=options.get("null"),
            delimiter=options.get("delimiter", ","),
            required=required,
            append_only=relation.append_only,
            defaults=[column for column in relation.columns if column.default is not None],
            limited=[column for column in relation.columns if column.length is not None],
        )

    def pending(self) -> tuple[PendingFile, ...]:
        """Return the files that a poll would look at, in the order of their paths; reads no file."""
        taken = self._taken_files()
        found = []
        for path, size, mtime_ns in listed(self.table, self.folder, self.options):
            record = taken.get(path)
            if record is None:
                found.append(PendingFile(path, size, mtime_ns))
            elif (size, mtime_ns) != (record.seen_size, record.seen_mtime_ns):
                found.append(PendingFile(path, size, mtime_ns, record))
        return tuple(found)

    def poll(self, limit: int | None = None) -> LandingReport:
        """Take the files that are pending (at most `limit`), in the order of their paths: a later row of a key wins.

        A malformed row or file goes to the dead letters and stops nothing. Raises SourceError if the folder can't be read.
        """
        started = time.perf_counter()
        self.store.refresh()
        ensure_tables(self.store)
        report = LandingReport(self.table)
        group: list[_ReadFile] = []
        rows = 0
        for file in self.pending()[:limit]:
            read = self._read(file)
            if read is None:
                continue  # gone, or still being written: the next poll looks again
            group.append(read)
            rows += 0 if read.landed is None else read.landed.rows.num_rows
            if rows >= ROWS_PER_COMMIT:
                report, group, rows = self._commit(group, report), [], 0
        if group:
            report = self._commit(group, report)
        return replace(report, seconds=time.perf_counter() - started)

    def _taken_files(self) -> dict[str, TakenFile]:
        """Return the records of this source, read again only when the table of records has changed."""
        table = self.store.version.tables.get(FILES)
        table_id = self._version().table_id
        seen = (None if table is None else table.committed_epoch, table_id)
        if self._taken is None or self._taken[0] != seen:
            self._taken = (seen, taken_files(self.store, self.table, table_id))
        return self._taken[1]

    def _version(self) -> TableVersion:
        try:
            return self.store.version.tables[self.table]
        except KeyError:
            raise SourceError(f"table {self.table} was dropped while its folder was polled") from None

    def _read(self, file: PendingFile) -> _ReadFile | None:
        """Read and type one file; None if it vanished or changed while it was read."""
        if file.taken is not None:
            told = (
                f"the file was changed after it was taken ({file.taken.seen_size} bytes then, {file.size} now) and is "
                "not taken again: land the change under a new name"
            )
            return _ReadFile(file, None, (BadLine(CHANGED_FILE_LINE, told, ""),))
        path = self.folder / file.path
        try:
            landed = land(read_file(path, self.options), self._target())
            after = path.stat()
        except FileNotFoundError:
            return None
        except MalformedFile as error:
            return _ReadFile(file, None, (BadLine(0, str(error), ""),))
        except OSError as error:
            return _ReadFile(file, None, (BadLine(0, f"the file can't be read: {error.strerror}", ""),))
        if (after.st_size, after.st_mtime_ns) != (file.size, file.mtime_ns):
            return None
        return _ReadFile(file, landed, landed.bad)

    def _target(self) -> Target:
        table = self._version()
        required = frozenset((*table.primary_key, *self._required))
        now = datetime.datetime.now(datetime.UTC)
        defaults = {
            column.source: pa.scalar(local_default(column, now), table.schema.field(column.source).type)
            for column in self._defaults
        }
        key, append_only = tuple(table.primary_key), self._append_only
        return Target(self.table, table.schema, key, required, append_only, defaults, self._limited)

    def _commit(self, group: list[_ReadFile], report: LandingReport) -> LandingReport:
        """Commit a group of files, leaving out those that another poller has recorded first."""
        for _ in range(RACE_ATTEMPTS):
            taken = self._taken_files()
            group = [read for read in group if taken.get(read.file.path) == read.file.taken]
            if not group:
                return report
            settled = self._without_known_keys(group) if self._refuses_known_keys else group
            try:
                return self._ingest(settled, report)
            except Conflict:
                self.store.refresh()
        raise SourceError(f"table {self.table}: other writers were faster {RACE_ATTEMPTS} times: poll again")

    def _ingest(self, group: list[_ReadFile], report: LandingReport) -> LandingReport:
        table = self._version()
        landed = [read.landed for read in group if read.landed is not None]
        operations: list[Put | Delete] = []
        if landed:
            rows = pa.concat_tables([each.rows for each in landed])
            deletes = np.concatenate([each.deletes for each in landed])
            puts, keys = newest_rows(rows, deletes, tuple(table.primary_key))
            if puts.num_rows:
                operations.append(Put(puts, new_keys=self._refuses_known_keys))
            if keys.num_rows:
                operations.append(Delete(keys))
        dead = [(read.file.path, bad) for read in group for bad in read.bad]
        writes = {FILES: [Put(rows_of([self._record(read, table.table_id) for read in group]))]}
        if dead:
            writes[DEAD_LETTER] = [Put(_dead_letters(self.table, dead))]
        if operations:
            writes[self.table] = operations
        epoch = self.store.ingest_batch(writes, precondition=self._still_ours(group, table))
        warnings = [
            f"{read.file.path}: {text}" for read in group if read.landed for text in read.landed.warnings
        ]
        warnings += [f"{path}: {bad.reason}" for path, bad in dead if bad.line <= 0]
        return replace(
            report,
            files=report.files + sum(1 for read in group if read.file.taken is None),
            rows=report.rows + sum(each.rows.num_rows for each in landed),
            dead_rows=report.dead_rows + len(dead),
            epoch=epoch,
            warnings=(*report.warnings, *warnings),
        )

    def _record(self, read: _ReadFile, table_id: int) -> TakenFile:
        file = read.file
        if file.taken is not None:
            return replace(file.taken, seen_size=file.size, seen_mtime_ns=file.mtime_ns)
        rows = 0 if read.landed is None else read.landed.rows.num_rows
        return TakenFile(
            self.table,
            file.path,
            table_id,
            file.size,
            file.mtime_ns,
            file.size,
            file.mtime_ns,
            rows,
            len(read.bad),
        )

    def _still_ours(self, group: list[_ReadFile], table: TableVersion) -> Callable[[Version], None]:
        """The commit stands only if none of the files was recorded, and an APPEND ONLY table not written, meanwhile."""
        seen = self.store.version.tables[FILES].committed_epoch
        keys = pa.table({"source": [self.table] * len(group), "path": [read.file.path for read in group]})
        expected = {read.file.path: read.file.taken for read in group}

        def check(version: Version) -> None:
            now = version.tables.get(self.table)
            if now is None or now.table_id != table.table_id:
                raise SourceError(f"table {self.table} was dropped while its folder was polled")
            if self._append_only and now.committed_epoch != table.committed_epoch:
                raise Conflict(f"{self.table} was written by another process at the same time")
            records = version.tables[FILES]
            if records.committed_epoch == seen:
                return
            _, found = self.store.reader.lookup(records, keys, records.committed_epoch)
            for row in found.to_pylist():
                if row["table_id"] == table.table_id and TakenFile(**row) != expected[row["path"]]:
                    raise Conflict(f"{row['path']} was taken by another process at the same time")

        return check

    def _without_known_keys(self, group: list[_ReadFile]) -> list[_ReadFile]:
        """Set aside rows of an APPEND ONLY table whose key exists already, or came earlier in these files."""
        table = self._version()
        key = list(table.primary_key)
        settled = []
        before: pa.Table | None = None
        for read in group:
            if read.landed is None:
                settled.append(read)
                continue
            landed = read.landed
            keys = landed.rows.select(key)
            index, _ = self.store.reader.lookup(table, keys, table.committed_epoch, columns=key)
            again = np.zeros(len(keys), dtype=bool)
            again[index] = True
            stacked = keys if before is None else pa.concat_tables([before, keys])
            numbered = stacked.append_column("_row", pa.array(np.arange(stacked.num_rows)))
            first = numbered.group_by(key).aggregate([("_row", "min")]).column("_row_min").to_numpy()
            fresh = np.zeros(stacked.num_rows, dtype=bool)
            fresh[first] = True
            again |= ~fresh[stacked.num_rows - len(keys) :]
            before = stacked
            settled.append(_set_aside(read, self.table, again, self.folder, self.options, self._target()))
        return settled


def _set_aside(
    read: _ReadFile, table: str, again: np.ndarray, folder: Path, options: FileOptions, target: Target
) -> _ReadFile:
    landed = read.landed
    if landed is None or not again.any():
        return read
    file = read_file(folder / read.file.path, options)
    reason = f"table {table} is APPEND ONLY and holds a row of this key already"
    bad = []
    for index in landed.lines[again].tolist():
        line, raw = file.place(index)
        bad.append(BadLine(line, reason, raw))
    kept = replace(
        landed,
        rows=landed.rows.filter(pa.array(~again)),
        deletes=landed.deletes[~again],
        lines=landed.lines[~again],
    )
    return _ReadFile(read.file, kept, (*read.bad, *bad))


def _dead_letters(source: str, dead: list[tuple[str, BadLine]]) -> pa.Table:
    return pa.table(
        [
            [source] * len(dead),
            [path for path, _ in dead],
            [bad.line for _, bad in dead],
            [bad.reason for _, bad in dead],
            [bad.raw for _, bad in dead],
        ],
        schema=DEAD_LETTER_SCHEMA,
    )


def landing_relations(catalog: Catalog) -> tuple[Relation, ...]:
    """Return the tables of the catalog that a landing folder feeds."""
    return tuple(
        relation
        for relation in catalog.relations.values()
        if relation.kind == "table" and source_options(relation.options).get("connector") == CONNECTOR
    )


def poll_all(catalog: Catalog, store: Hummock, tables: Sequence[str] | None = None) -> list[LandingReport]:
    """Poll every landing source of the catalog (or of `tables`); one that fails is told in its report, the others go on."""
    reports = []
    for relation in landing_relations(catalog):
        if tables is None or relation.name in tables:
            try:
                reports.append(LandingSource.of_relation(store, relation).poll())
            except SourceError as error:
                reports.append(LandingReport(relation.name, error=str(error)))
    return reports


def pending_digest(catalog: Catalog, store: Hummock) -> tuple[int, str]:
    """Return how many files are pending in all folders, and a digest of them; a folder that can't be read has none."""
    digest = hashlib.sha256()
    count = 0
    for relation in landing_relations(catalog):
        try:
            files = LandingSource.of_relation(store, relation).pending()
        except SourceError:
            continue
        for file in files:
            count += 1
            digest.update(f"{relation.name}\0{file.path}\0{file.size}\0{file.mtime_ns}\n".encode())
    return count, digest.hexdigest()[:16] if count else ""
