"""What a store holds at one moment, as immutable values: tables, runs of sorted files, change log, catalog."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec
import pyarrow as pa
import xxhash

from engine.errors import EpochExpired, RowsNotKept
from engine.hummock.catalog_entries import CatalogEntries
from engine.hummock.epoch import format_epoch

HASH, OP = "_hash", "_op"
ROW_EPOCH = "_epoch"
"""In compacted files of a table with a time to live: when a row was written, in ms of epoch time."""
PUT, DELETE = 0, 1
MOST_QUIET = 64


class TableOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a table does by itself: hide rows `ttl_seconds` after they were written, hide those below the watermark of
    `watermark_column`, and keep its history for `retention_seconds` instead of the store's. `dropped` columns may stand in
    its files yet, so their names stay taken. Large files end at the bounds of `vnode_groups` ranges of vnodes.
    One that `passes` keeps changes for who follows them, and rows only while somebody has them loaded (`passing.py`).
    Without `fingerprint` no fingerprint of its rows is kept, and none of its files.
    """

    ttl_seconds: float | None = None
    retention_seconds: float | None = None
    watermark_column: str | None = None
    dropped: tuple[str, ...] = ()
    vnode_groups: int | None = None
    passes: bool = False
    fingerprint: bool = True

    @property
    def hides_rows(self) -> bool:
        """Whether rows hide by themselves, so that a table's content changes without a write."""
        return self.ttl_seconds is not None or self.watermark_column is not None


DEFAULT = b"tideline.default"
"""The metadata of a column that old rows have another value in than null."""


@dataclass(frozen=True)
class Table:
    """A keyed table: rows are ordered by the hash of `distribution_key` and then by `primary_key`.

    An empty distribution key orders the table by the primary key as a whole.
    """

    name: str
    schema: pa.Schema
    primary_key: tuple[str, ...]
    distribution_key: tuple[str, ...] = ()
    options: TableOptions = field(default_factory=TableOptions)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns that are not of the primary key."""
        return tuple(name for name in self.schema.names if name not in self.primary_key)

    @property
    def has_fingerprint(self) -> bool:
        """Whether a fingerprint of the rows can be kept: none of rows that hide by themselves, or are not kept."""
        options = self.options
        return options.fingerprint and not options.hides_rows and not options.passes

    @cached_property
    def form(self) -> bytes:
        """What tells apart the columns that fingerprints were computed over: stored names, and which have a default."""
        parts = (f"{field.name}\0{DEFAULT in (field.metadata or {})}\0" for field in self.schema)
        return xxhash.xxh32_digest("".join(sorted(parts)).encode())


class SstInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sorted file: `length` bytes from `offset` of object `path`; `size` is its rows' bytes in memory.

    Of compacted files of tables that hide rows: `oldest` is the lowest row epoch in ms, `spread` the lowest and the highest
    value in the watermark's column. With `new_keys` none of its keys stood in the table when it was committed: its change
    needs no old rows. `sections` of a file of several row groups: of each group and of the footer, in their order, where it
    ends and the checksum of its bytes, so that a part can be read and trusted.
    """

    path: str
    offset: int
    length: int
    rows: int
    min_hash: int
    max_hash: int
    tombstones: int
    checksum: int
    size: int
    oldest: int | None = None
    spread: tuple[int, int] | None = None
    new_keys: bool = False
    sections: tuple[tuple[int, int], ...] = ()
    fingerprint: bytes | None = None
    """The form of the columns, and the fingerprint of the rows that are put."""
    replaced: bytes | None = None
    """The fingerprint of the rows that it replaces or deletes, where the writer knew them under the commit's precondition."""

    @property
    def has_tombstones(self) -> bool:
        """Whether a row of the file is a deletion."""
        return self.tombstones > 0

    @property
    def sst_id(self) -> str:
        """The file's name in the cache; unique in the store."""
        return build_sst_id(self.path, self.offset)


@lru_cache(maxsize=16_384)
def build_sst_id(path: str, offset: int) -> str:
    """Return the name in the cache of the sorted file at `offset` of an object."""
    return f"{path.rpartition('/')[2].partition('.')[0]}-{offset}"


Run = tuple[SstInfo, ...]
"""Sorted files of equal age; each key stands in one of them at most."""


def with_new_keys(table: Table, ssts: Iterable[SstInfo]) -> Run:
    """Return files of which the writer knows that all keys are new; a table that hides rows may hold them yet."""
    return (
        tuple(ssts)
        if table.options.hides_rows
        else tuple(msgspec.structs.replace(sst, new_keys=True) for sst in ssts)
    )


def without_new_keys(ssts: Iterable[SstInfo]) -> Run:
    """Return files of which nobody says any more which rows they replace, or that all keys are new."""
    return tuple(
        msgspec.structs.replace(sst, new_keys=False, replaced=None)
        if sst.new_keys or sst.replaced is not None
        else sst
        for sst in ssts
    )


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An L0 sub-level: the net new rows and deletions that one commit brought, labelled with its epoch."""

    epoch: int
    ssts: Run

    @property
    def rows(self) -> int:
        """The changed keys."""
        return sum(sst.rows for sst in self.ssts)


@dataclass(frozen=True, slots=True)
class Generation:
    """Compacted runs, newest first, that hold everything up to epoch `upto`; older epochs are read through
    older ones.
    """

    upto: int
    runs: tuple[Run, ...]


class Fingerprint(NamedTuple):
    """The fingerprint of a table's rows at an epoch: as a number, over columns of a form."""

    epoch: int
    value: int
    form: bytes

    @staticmethod
    def of_none(table: Table) -> Fingerprint | None:
        """Return the fingerprint of a table that was just created, None if it keeps none."""
        return Fingerprint(0, 0, table.form) if table.has_fingerprint else None


@dataclass(frozen=True)
class TableVersion:
    """One table in one version; enough by itself for a reader in any process.

    `log` ascends by epoch, `generations` ascend by `upto`; the first generation's `upto` is the oldest
    readable epoch.
    """

    table: Table
    table_id: int
    committed_epoch: int = 0
    log: tuple[LogEntry, ...] = ()
    generations: tuple[Generation, ...] = (Generation(0, ()),)
    acks: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, int] = field(default_factory=dict)
    watermarks: tuple[tuple[int, int], ...] = ()
    """(epoch, value), both ascending: what the watermark was from each epoch on."""
    quiet: tuple[int, ...] = ()
    """Labels, ascending, of the newest commits that brought the table on and changed nothing; at most MOST_QUIET."""
    fingerprint: Fingerprint | None = None
    """That of the rows at an epoch, which is behind `committed_epoch` where it is not known what a later commit replaced."""

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.name

    @property
    def schema(self) -> pa.Schema:
        """The columns that users see."""
        return self.table.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return self.table.primary_key

    @property
    def distribution_key(self) -> tuple[str, ...]:
        """The columns whose hash orders the table; may be empty."""
        return self.table.distribution_key

    @property
    def safe_epoch(self) -> int:
        """The oldest readable epoch, and the oldest from which the change log is whole."""
        return self.generations[0].upto

    @property
    def last_change(self) -> int:
        """The label of the newest sub-level or watermark there ever was; nothing is written at any epoch from there on."""
        newest = self.log[-1].epoch if self.log else self.generations[-1].upto
        return max(newest, self.watermarks[-1][0]) if self.watermarks else newest

    def find_label_upto(self, epoch: int) -> int | None:
        """Return the newest label at or below `epoch` that a commit gave the table, as far as labels are known, or None."""
        if epoch >= self.committed_epoch:
            return self.committed_epoch or None
        position = bisect.bisect_right(self.log, epoch, key=lambda entry: entry.epoch)
        quiet = bisect.bisect_right(self.quiet, epoch)
        found = [self.log[position - 1].epoch if position else 0, self.quiet[quiet - 1] if quiet else 0]
        newest = max(*found, self.safe_epoch if self.safe_epoch <= epoch else 0)
        return newest or None

    def find_label_above(self, epoch: int) -> int | None:
        """Return the first label above `epoch` that a commit gave the table, as far as labels are known, or None."""
        ends = (e for e in (self.safe_epoch, self.committed_epoch) if e > epoch)
        return min([*self._list_commits_above(epoch), *ends], default=None)

    def find_commit_above(self, epoch: int) -> int:
        """Return the first label above `epoch` of a commit that is known, that of the newest commit if there is no other.

        Unlike `find_label_above` it does not take the oldest readable epoch for one.
        """
        return min(self._list_commits_above(epoch), default=self.committed_epoch)

    def _list_commits_above(self, epoch: int) -> list[int]:
        """Return the first labels above `epoch` of a commit that changed rows, and of one that did not, where known."""
        position = bisect.bisect_right(self.log, epoch, key=lambda entry: entry.epoch)
        quiet = bisect.bisect_right(self.quiet, epoch)
        return [*(entry.epoch for entry in self.log[position : position + 1]), *self.quiet[quiet : quiet + 1]]

    def watermark_at(self, epoch: int) -> int | None:
        """Return the watermark that holds at an epoch, or None."""
        at = bisect.bisect_right(self.watermarks, epoch, key=lambda moved: moved[0])
        return self.watermarks[at - 1][1] if at else None

    def clamp_truncation(self, retained_from: int) -> int:
        """Return from which epoch on history stays: not beyond any consumer's acknowledged epoch, nor any pin."""
        return min([retained_from, *self.acks.values(), *self.pins.values()])

    @property
    def l0(self) -> tuple[LogEntry, ...]:
        """The sub-levels that no compaction has taken in."""
        return self._slice_log(self.generations[-1].upto, self.committed_epoch)

    @property
    def l0_count(self) -> int:
        """How many sub-levels a read of the newest epoch has to look at, beside the compacted runs."""
        return len(self.l0)

    @property
    def live_ssts(self) -> tuple[SstInfo, ...]:
        """The files that a read of the newest epoch may touch."""
        return tuple(sst for run in self.live_runs for sst in run)

    @property
    def live_runs(self) -> tuple[Run, ...]:
        """The runs of the newest epoch, newest first; of a table that passes perhaps its newest changes alone."""
        return self._list_runs(self.generations[-1], self.committed_epoch)

    @property
    def row_count(self) -> int:
        """An upper bound of the rows: the puts in live files, exact once they are compacted to one run.

        A deletion is not counted against them, since the key that it names need not stand in the table.
        """
        return sum(sst.rows - sst.tombstones for sst in self.live_ssts)

    @property
    def size_bytes(self) -> int:
        """Bytes of the live files in the object store."""
        return sum(sst.length for sst in self.live_ssts)

    @property
    def file_count(self) -> int:
        """How many live files there are."""
        return len(self.live_ssts)

    def list_changes(self, after: int, upto: int) -> tuple[LogEntry, ...]:
        """Return the log entries with an epoch in (after, upto]; raises EpochExpired if the log no longer
        reaches back.
        """
        if upto <= after:
            return ()
        if after < self.safe_epoch:
            raise EpochExpired(
                f"table {self.name}: the change log begins at epoch {format_epoch(self.safe_epoch)}, changes "
                f"after {format_epoch(after)} were asked for; read the whole table and continue from there"
            )
        return self._slice_log(after, upto)

    def find_first_change(self, after: int) -> int | None:
        """Return the epoch of the first change above `after`, or None.

        Where the log no longer reaches back it is the safe epoch, the last change that was cut off.
        """
        if after < self.safe_epoch:
            return self.safe_epoch
        if not self.log or self.log[-1].epoch <= after:
            return None
        return self.log[bisect.bisect_right(self.log, after, key=lambda entry: entry.epoch)].epoch

    def find_last_change_upto(self, epoch: int) -> int | None:
        """Return the epoch of the newest change at or below `epoch` that the log still tells of, or None."""
        entry = self.find_last_entry_upto(epoch)
        return None if entry is None else entry.epoch

    def find_last_entry_upto(self, epoch: int) -> LogEntry | None:
        """Return the log's newest entry at or below `epoch`, or None if it no longer has any."""
        at = bisect.bisect_right(self.log, epoch, key=lambda entry: entry.epoch)
        return self.log[at - 1] if at else None

    def count_changed_rows(self, after: int, upto: int) -> int:
        """Return an upper bound of the keys that changed in (after, upto]."""
        return sum(entry.rows for entry in self.list_changes(after, upto))

    def as_of(self, epoch: int) -> tuple[Run, ...]:
        """Return the runs that make up the table at `epoch`, newest first; raises EpochExpired, or RowsNotKept."""
        self._check_retained(epoch)
        if not self.has_rows_at(epoch):
            raise RowsNotKept(f"the rows of {self.name} are not kept: read it by SQL, or a view over it")
        return self._list_runs(self._find_generation(epoch), epoch)

    def has_rows_at(self, epoch: int) -> bool:
        """Tell whether the table's rows at a readable epoch are in the store."""
        return not self.table.options.passes or bool(self._find_generation(epoch).runs)

    def _check_retained(self, epoch: int) -> None:
        if epoch < self.safe_epoch:
            raise EpochExpired(
                f"table {self.name} cannot be read at epoch {format_epoch(epoch)}: the oldest readable epoch is "
                f"{format_epoch(self.safe_epoch)}"
            )

    def _find_generation(self, epoch: int) -> Generation:
        at = bisect.bisect_right(self.generations, epoch, key=lambda generation: generation.upto)
        return self.generations[at - 1]

    def _list_runs(self, generation: Generation, epoch: int) -> tuple[Run, ...]:
        entries = reversed(self._slice_log(generation.upto, epoch))
        return tuple(entry.ssts for entry in entries) + generation.runs

    def narrow(self, after: int, upto: int) -> TableVersion:
        """Return this version with just what reads at `after` and `upto` and the changes between them need, and the one before.

        For sending to other processes: a long history is some 100 kB. Raises EpochExpired.
        """
        self._check_retained(after)
        at = [bisect.bisect_right(self.generations, e, key=lambda g: g.upto) - 1 for e in (after, upto)]
        generations = tuple(self.generations[i] for i in sorted(set(at)))
        first, before = generations[0].upto, self.find_last_entry_upto(after)
        log = self._slice_log(first if before is None else min(first, before.epoch - 1), upto)
        return replace(self, log=log, generations=generations, acks={}, pins={}, quiet=())

    def list_objects(self) -> set[str]:
        """Return the paths of all objects that the table needs, for any readable epoch."""
        return {sst.path for sst in self.iterate_ssts()}

    def iterate_ssts(self) -> Iterator[SstInfo]:
        """Yield the files that the table needs for any readable epoch; one may come several times."""
        for entry in self.log:
            yield from entry.ssts
        for generation in self.generations:
            for run in generation.runs:
                yield from run

    def _slice_log(self, after: int, upto: int) -> tuple[LogEntry, ...]:
        first = bisect.bisect_right(self.log, after, key=lambda entry: entry.epoch)
        last = bisect.bisect_right(self.log, upto, key=lambda entry: entry.epoch)
        return self.log[first:last]


class BranchPoint(msgspec.Struct, frozen=True):
    """Where a branch begins: after manifest `number` of its parent, whose epoch is `epoch`."""

    number: int
    epoch: int


def build_place(name: str, number: int) -> str:
    """Return where a branch that begins after manifest `number` has its objects, below its parent's; no other ever has it."""
    return f"branch/{name}/{number:020d}/"


@dataclass(frozen=True)
class Version:
    """Everything that is visible after manifest `number`.

    `horizon_ms` is the collector's promise: no file that was named before it can be committed any more.
    `garbage` holds (epoch, path) of files that left the version lately. `branches`: name -> where it begins.
    """

    number: int = 0
    epoch: int = 0
    tables: Mapping[str, TableVersion] = field(default_factory=dict)
    catalog: CatalogEntries = field(default_factory=CatalogEntries)
    generations: Mapping[str, int] = field(default_factory=dict)
    next_table_id: int = 1
    horizon_ms: int = 0
    garbage: tuple[tuple[int, str], ...] = ()
    branches: Mapping[str, BranchPoint] = field(default_factory=dict)
    origin: int = 0
    """Of a branch the manifest of its parent that it begins after; else 0."""
    closed: bool = False
    """Of a branch: it was dropped, and nothing follows."""

    @property
    def needs_branches(self) -> bool:
        """Whether who knows nothing of branches would lose or misread something."""
        return bool(self.branches or self.origin)

    @property
    def is_branch(self) -> bool:
        """Whether it is of a branch of another store."""
        return self.origin > 0


@dataclass(frozen=True)
class Compaction:
    """A compaction's result: `runs` (newest first) replace everything of the table up to `upto`.

    It holds only while the table's newest generation is still `base`, the one that the inputs were taken
    from.
    """

    table_id: int
    base: Generation
    upto: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Commit:
    """What one manifest is to add; all parts become visible together or not at all.

    `writes` gives each table one new sub-level, `epochs` its label (else the manifest's epoch); a table with
    a label and no writes only moves its committed epoch. `acks` and `pins`: table, by its name after the commit -> name ->
    epoch, None removes. `truncate`: table -> epoch below which history may go; never beyond acks and pins. `precondition`
    sees the version each attempt is based on. `alter`: table -> what it becomes: another name, columns added at the end or
    taken away; files stay as they are. `watermarks`: table -> its watermark, as a number, from the commit's
    label on. `branches`: name -> True begins a branch after this manifest, False drops it. `close` ends a branch's own chain.
    `fingerprints`: table -> that of its rows at an epoch, as they were read; one at a later epoch that is known stays.
    """

    writes: Mapping[str, Sequence[SstInfo]] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    create: Sequence[Table] = ()
    drop: Sequence[str] = ()
    catalog: Mapping[str, str | None] = field(default_factory=dict)
    acks: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    pins: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    compactions: Mapping[str, Compaction] = field(default_factory=dict)
    truncate: Mapping[str, int] = field(default_factory=dict)
    alter: Mapping[str, Table] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    branches: Mapping[str, bool] = field(default_factory=dict)
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    close: bool | None = None
    claim: str | None = None
    horizon_ms: int | None = None
    writer: str | None = None
    generation: int | None = None
    precondition: Callable[[Version], None] | None = None
