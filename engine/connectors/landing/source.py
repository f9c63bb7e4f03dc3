"""The landing-folder source: every file that appears in a folder becomes rows of a table, exactly once.

Files are to be written under another name (`.part`, `.tmp`, `_…`, `.…`) and then renamed. Whatever a file holds, it stops no
other.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException

from engine.connectors.contract.connector import (
    PendingSplit,
    Source,
    SourceReport,
    Spark,
    no_spark,
    source_options,
)
from engine.connectors.contract.same_table import require_polled_table
from engine.connectors.formats.file_format import BadLine, FileOptions
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.bucket import LandingBucket
from engine.connectors.landing.commits import LandingCommits, LandingPart
from engine.connectors.landing.file_reader import FileBatch, FileNotReady, read_landing_file
from engine.connectors.landing.folder import LandingFolder
from engine.connectors.landing.folder_watch import Watch, get_watch
from engine.connectors.landing.options import (
    build_file_options,
    build_row_options,
    parse_landing_place,
    validate_options,
)
from engine.connectors.landing.pending import PendingFile
from engine.connectors.landing.rows import LandingTarget, RowOptions
from engine.connectors.landing.sequences import find_sequence
from engine.connectors.landing.tables import CHANGED_FILE_LINE, ensure_landing_tables
from engine.connectors.landing.tasks import (
    FileReadPlan,
    FileRun,
    TaskLoad,
    plan_runs,
    read_by_tasks,
    write_load,
)
from engine.errors import InvalidRow, SourceError, SqlError, StorageError
from engine.hummock import Hummock, TableVersion
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.runtime.spark.errors import simplify_message
from engine.sql.catalog import ROW_ID, Relation, RelationColumn
from engine.sql.statements.ddl.defaults import compute_local_default, explain_not_fed
from engine.sql.typing.json_documents import is_document

ROWS_PER_COMMIT = 1_000_000
FILES_PER_COMMIT = 10_000


@dataclass
class _UncommittedParts:
    """Parts of files that wait for their commit."""

    parts: list[LandingPart] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    ended: bool = False
    """The place does not answer, and later rows of a key win: what lies behind waits for the next poll."""

    def add(self, part: LandingPart) -> None:
        """Add what comes next of a file."""
        landed, bad = part.batch.landed, part.batch.bad
        self.parts.append(part)
        self.rows += 0 if landed is None else landed.rows.num_rows
        size = sum(len(each.raw) + len(each.reason) for each in bad)
        size += 0 if landed is None else landed.rows.nbytes
        track_bytes(size)
        self.size += size

    def is_full(self, limits: ReadLimits) -> bool:
        """Tell whether they are to be committed before more is read."""
        return (
            self.rows >= ROWS_PER_COMMIT or self.size >= limits.memory or len(self.parts) >= FILES_PER_COMMIT
        )

    def drop(self, file: PendingFile) -> None:
        """Forget a file."""
        self.parts = [part for part in self.parts if part.file is not file]


@dataclass(frozen=True)
class LandingOptions:
    """How a folder's files are read, and what the table asks of their rows.

    `files` says how texts are read, `rows` what they tell; `required` are columns that may not be null besides those of the key,
    `defaults` those with a DEFAULT, `limited` those with a length; `limits` None are those of the environment.
    `relation` is the table in the catalog, which tells its watermark.
    """

    files: FileOptions = field(default_factory=FileOptions)
    rows: RowOptions = field(default_factory=RowOptions)
    required: Sequence[str] = ()
    append_only: bool = False
    defaults: Sequence[RelationColumn] = ()
    limited: Sequence[RelationColumn] = ()
    limits: ReadLimits | None = None
    relation: Relation | None = None


class LandingSource(Source):
    """One folder, or the objects below one prefix of a bucket, that feed one table."""

    def __init__(
        self,
        store: Hummock,
        table: str,
        place: str | Path | LandingFolder | LandingBucket,
        options: LandingOptions = LandingOptions(),
    ) -> None:
        self.store = store
        self._place = LandingFolder(Path(place)) if isinstance(place, str | Path) else place
        self.limits = options.limits or ReadLimits.from_environment()
        self._options, self._rows = options.files, options.rows
        known = store.table(table)
        self.table = known.name
        self._required = tuple(options.required)
        self._append_only = options.append_only
        self._refuses_known_keys = options.append_only and list(known.primary_key) != [ROW_ID]
        self._defaults = tuple(options.defaults)
        self._limited = {column.storage_name: column for column in options.limited}
        self._relation = options.relation

    @classmethod
    def of_relation(cls, store: Hummock, relation: Relation) -> LandingSource:
        """Return the source of a table `WITH (connector = 'landing', …)`; raises SourceError for a wrong option."""
        options = source_options(relation)
        wrong = validate_options(options)
        if wrong is not None:
            raise SourceError(f"table {relation.name}: {wrong.message}: {wrong.hint}")
        reason = explain_not_fed(relation)
        if reason is not None:
            raise SourceError(f"table {relation.name}: {reason}")
        required = [column.storage_name for column in relation.columns if not column.nullable]
        return cls(
            store,
            relation.name,
            parse_landing_place(options["path"]),
            LandingOptions(
                build_file_options(options, [column.name for column in relation.visible_columns]),
                build_row_options(options),
                required=required,
                append_only=relation.append_only,
                defaults=[column for column in relation.columns if column.default is not None],
                limited=[c for c in relation.columns if c.length is not None or is_document(c)],
                relation=relation,
            ),
        )

    def list_pending(self) -> tuple[PendingSplit, ...]:
        """Return the files that a poll would look at, each with what it was when it was found."""
        found = self._get_watch().list_pending(self.store, fresh=False)
        return tuple(PendingSplit(file.path, "{}\0{}".format(*file.stamp)) for file in found)

    def list_files(self) -> tuple[PendingFile, ...]:
        """Return the files that a poll would look at, in the order of their paths; reads no file."""
        return self._get_watch().list_pending(self.store)

    def poll(self, spark: Spark = no_spark, limit: int | None = None) -> SourceReport:
        """Take the files that are pending (at most `limit`), in the order of their paths: a later row of a key wins.

        A malformed row or file goes to the dead letters and stops nothing. Raises SourceError if the folder can't be read.
        """
        started = time.perf_counter()
        self.store.refresh()
        ensure_landing_tables(self.store)
        found = self._get_watch()
        pending = found.list_pending(self.store)
        report = SourceReport(self.table).add_warnings(found.warnings)
        commits = LandingCommits(
            self.store,
            self.table,
            self._append_only,
            self._refuses_known_keys,
            report,
            require_polled_table(self.store.version, self.table, self._relation),
            relation=self._relation,
        )
        gathered = _UncommittedParts()
        for run in self._plan_runs(pending[:limit], spark):
            files = run.files
            if run.by_tasks:
                gathered = self._commit_gathered(gathered, commits)
                files = self._ingest_by_tasks(files, commits, spark)
            for file in files:
                gathered = self._try_ingest(file, gathered, commits)
                if gathered.ended:
                    break
            if gathered.ended:
                break
        self._commit_gathered(gathered, commits)
        return replace(commits.report, seconds=time.perf_counter() - started)

    def _plan_runs(self, pending: Sequence[PendingFile], spark: Spark) -> Iterable[FileRun]:
        """Return what tasks read and what this process reads: rows of a watermark's table, and of one that takes a key once, are
        looked at one after the other, and those of a table with a sequence are held against it.
        """
        ordered = self._relation is None or self._relation.watermark is not None or self._refuses_known_keys
        ordered = ordered or self._build_target().sequence is not None
        return (FileRun(pending, by_tasks=False),) if spark is no_spark or ordered else plan_runs(pending)

    def _commit_gathered(self, gathered: _UncommittedParts, commits: LandingCommits) -> _UncommittedParts:
        """Commit what waits."""
        if gathered.parts:
            commits.commit(gathered.parts)
        return _UncommittedParts()

    def _try_ingest(
        self, file: PendingFile, gathered: _UncommittedParts, commits: LandingCommits
    ) -> _UncommittedParts:
        """Read a file, or leave it to the next poll; returns what waits."""
        commits.begin(file)
        try:
            return self._ingest_file(file, gathered, commits)
        except FileNotReady as late:
            gathered.drop(file)
            gathered.ended = late.silent
            self._get_watch().recheck(file.place_path)
            if late.reason:
                commits.report = commits.report.add_warnings([f"{file.path}: {late.reason}"])
        return gathered

    def _ingest_by_tasks(
        self, files: Sequence[PendingFile], commits: LandingCommits, spark: Spark
    ) -> tuple[PendingFile, ...]:
        """Commit files that tasks read; returns those that this process is to read."""
        relation = self._relation
        assert relation is not None
        for file in files:
            commits.begin(file)
        watched, options = self._get_watch(), self._build_file_options()
        try:
            session = spark()
            reading = FileReadPlan(watched.place, options, self.limits, self._build_target())
            load = read_by_tasks(self.store, session, reading, files)
            self._recheck_files(load)
            commits.commit_load(load, lambda table: write_load(load, self.store, session, relation, table))
        except (SqlError, InvalidRow, PySparkException) as error:
            warning = f"tasks could not read the files, so this process does: {simplify_message(str(error))}"
            commits.report = commits.report.add_warnings([warning])
            return tuple(files)
        for number, why in load.late.items():
            watched.recheck(files[number].place_path)
            if why:
                commits.report = commits.report.add_warnings([f"{files[number].path}: {why}"])
        return tuple(files[number] for number in sorted(load.left))

    def _recheck_files(self, load: TaskLoad) -> None:
        """Leave to the next poll what is not any more what it was when it was found, and to this process what only it can see."""
        for number in load.parts:
            if number in load.left:
                continue
            try:
                self._check_unchanged(load.files[number])
            except FileNotReady as late:
                if late.silent:
                    load.leave(number)
                else:
                    load.late[number] = late.reason or load.late.get(number, "")
            else:
                if load.late.get(number) == "":
                    load.leave(number)

    def _ingest_file(
        self, file: PendingFile, gathered: _UncommittedParts, commits: LandingCommits
    ) -> _UncommittedParts:
        """Read a file and commit whenever enough has gathered; returns what waits. Raises NotNow."""
        for part in self._read_parts(file):
            if part.batch.last and not part.changed:
                self._check_unchanged(file)
            gathered.add(part)
            if not gathered.is_full(self.limits):
                continue
            if not part.batch.last:
                self._check_unchanged(file)
            full, gathered.parts = gathered.parts, []
            if file.path in commits.commit(full):
                return _UncommittedParts()  # another poller reads it on
            gathered = _UncommittedParts()
        return gathered

    def _read_parts(self, file: PendingFile) -> Iterator[LandingPart]:
        """Yield what is to be committed of a file, the last part at the end."""
        record = file.record
        if file.has_changed:
            bad = () if _is_reported(file) else (BadLine(CHANGED_FILE_LINE, _describe_change(file), ""),)
            yield LandingPart(file, FileBatch(None, bad, 0, last=True), changed=True)
            return
        if file.fault is not None:
            yield LandingPart(file, FileBatch(None, (BadLine(0, file.fault, ""),), 0, last=True))
            return
        position = 0 if record is None else record.position or 0
        options = self._build_file_options()
        place = self._get_watch().place
        for batch in read_landing_file(place, file, options, self.limits, self._build_target, position):
            yield LandingPart(file, batch)

    def _check_unchanged(self, file: PendingFile) -> None:
        """Raise NotNow if a file is not any more what it was when it was found."""
        try:
            now = self._get_watch().place.look_at(file.place_path)
        except StorageError as error:
            raise FileNotReady.from_storage_error(error) from error
        if now is None or now.stamp != file.stamp:
            raise FileNotReady

    def _get_watch(self) -> Watch:
        return get_watch(self.store, self.table, self._find_table().table_id, self._place, self._options)

    def _find_table(self) -> TableVersion:
        try:
            return self.store.version.tables[self.table]
        except KeyError:
            raise SourceError(f"table {self.table} was dropped while its folder was polled") from None

    def _build_file_options(self) -> FileOptions:
        target = self._build_target()
        return replace(self._options, columns=target.columns_to_read, documents=target.documents)

    def _build_target(self) -> LandingTarget:
        table = self._find_table()
        required = frozenset((*table.primary_key, *self._required))
        now = datetime.datetime.now(datetime.UTC)
        defaults = {
            column.storage_name: pa.scalar(
                compute_local_default(column, now), table.schema.field(column.storage_name).type
            )
            for column in self._defaults
        }
        key, append_only = tuple(table.primary_key), self._append_only
        columns = () if self._relation is None else self._relation.columns
        visible_names = {column.storage_name: column.name for column in columns}
        sequence = find_sequence(self._relation, self.store.version)
        limited, rows = self._limited, self._rows
        return LandingTarget(
            self.table,
            table.schema,
            key,
            required,
            append_only,
            defaults,
            limited,
            visible_names,
            rows,
            sequence,
        )


def _is_reported(file: PendingFile) -> bool:
    """Tell whether a file was found changed before, and has the same size since then: it may only be touched now and then."""
    record = file.record
    assert record is not None
    was_reported = record.position is None and (record.size, record.mtime_ns) != (
        record.seen_size,
        record.seen_mtime_ns,
    )
    return was_reported and record.seen_size == file.size


def _describe_change(file: PendingFile) -> str:
    assert file.record is not None
    sizes = f"({file.record.seen_size} bytes then, {file.size} now)"
    if file.record.position is not None:
        return (
            f"the file was changed while it was taken {sizes}: its first {file.record.position} records stand, the rest is not "
            "taken: land it under a new name"
        )
    if file.record.seen_size == file.size:
        sizes = f"({file.size} bytes then and now, but another {'tag' if file.etag else 'time'})"
    return f"the file was changed after it was taken {sizes} and is not taken again: land the change under a new name"
