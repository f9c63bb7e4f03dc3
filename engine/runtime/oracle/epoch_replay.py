"""Committed epochs of views that are computed again: from the same changes, by the plan of that time.

What is computed is held against the files that were committed, by their bytes. It is visible to nobody, and deleted afterwards.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from engine.errors import CorruptObject, EpochExpired, EpochFailed, SqlError
from engine.hummock import Hummock, SstInfo, TableVersion, Version
from engine.hummock.epoch import format_epoch
from engine.hummock.manifests.delta import apply_delta
from engine.hummock.sorted_files.sst import build_file_schema, read_sst
from engine.hummock.version import HASH, Run
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.domain import Domain, list_domains
from engine.meta.domains.quarantine import find_partitioning, read_quarantine
from engine.meta.epochs.barrier import Barrier
from engine.meta.epochs.committed_epochs import CommittedEpoch, iterate_committed_epochs
from engine.runtime.domains.domain_run import DomainRun
from engine.runtime.executor import Executor, FragmentTask, TaskResult
from engine.runtime.oracle.comparison import compare_rows, describe_difference, find_unlike_rows
from engine.runtime.partitions.scope import PartitionScope, PartitionScopes
from engine.runtime.spark.slots import Slots
from engine.sql.catalog import Relation
from engine.sql.expression.nodes import Expr
from engine.sql.plan import Scan

Outcome = Literal["same bytes", "same rows", "other rows"]
MOST_EXAMPLES = 10
MOST_ROWS = 1_000_000
"""Of more rows it is not said which ones differ."""


@dataclass(frozen=True)
class TableReplay:
    """What came of one table of a domain: the changed rows that were committed, and how those that were computed again compare.

    "same rows" stand in other files, which happens where tasks have shared the work in another way.
    """

    table: str
    rows: int
    outcome: Outcome
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class EpochReplay:
    """A committed epoch of a view that was computed again, or the `reason` why it cannot be; `tables` are those of its domain."""

    view: str
    epoch: int
    manifest: int
    tables: tuple[TableReplay, ...] = ()
    reason: str = ""
    seconds: float = 0.0

    @property
    def outcome(self) -> Outcome | None:
        """The worst outcome of its tables, None if it was not computed again."""
        if self.reason:
            return None
        found = {table.outcome for table in self.tables}
        order: tuple[Outcome, ...] = ("other rows", "same rows")
        return next((one for one in order if one in found), "same bytes")

    @property
    def rows(self) -> int:
        """The changed rows that were committed, of all tables of the domain."""
        return sum(table.rows for table in self.tables)


@dataclass(frozen=True)
class _KeepingExecutor:
    """Computes by another executor, and knows the files of all tasks that it has finished."""

    executor: Executor
    paths: set[str] = field(default_factory=set)

    @property
    def parallelism(self) -> int:
        return self.executor.parallelism

    def compute(self, task: FragmentTask) -> TaskResult:
        computed = self.executor.compute(task)
        self.paths.update(sst.path for change in computed.changes for sst in change.ssts)
        return computed

    def load(self, relation: Relation, version: Version, epoch: int) -> tuple[Run, ...]:
        loaded = self.executor.load(relation, version, epoch)
        self.paths.update(sst.path for run in loaded for sst in run)
        return loaded

    def stop(self) -> None:
        self.executor.stop()

    def partitions(self, task: FragmentTask, keys: Sequence[tuple[Scan, Expr]], most: int) -> tuple[str, ...]:
        return self.executor.partitions(task, keys, most)


@dataclass(frozen=True)
class EpochReplayer:
    """Computes committed epochs again over a store."""

    store: Hummock
    executor: Executor
    slots: Slots = field(default_factory=lambda: Slots(1))

    def replay(self, view: str, epoch: int | None = None, last: int = 1) -> list[EpochReplay]:
        """Compute the `last` epochs of a view again, newest first, or the one that is named.

        Raises SqlError for an epoch that no commit has brought the view to, as far as manifests are stored.
        """
        commits = iterate_committed_epochs(self.store, view)
        if epoch is None:
            return [self._replay(view, commit) for commit in itertools.islice(commits, last)]
        oldest = None
        for commit in commits:
            if commit.epoch == epoch:
                return [self._replay(view, commit)]
            oldest = commit.epoch
        known = "none is known" if oldest is None else f"the oldest that is known is {format_epoch(oldest)}"
        raise SqlError(
            f"no commit has brought {view} to epoch {format_epoch(epoch)}: {known}",
            hint=f"the epochs in which a row of it changed are shown by tideline blame {view} KEY",
        )

    def _replay(self, view: str, committed: CommittedEpoch) -> EpochReplay:
        started = time.perf_counter()
        found = EpochReplay(view, committed.epoch, committed.commit.number)
        try:
            tables = self._compute(committed)
        except EpochExpired as error:
            return replace(found, reason=str(error))
        return replace(found, tables=tables, seconds=time.perf_counter() - started)

    def _compute(self, committed: CommittedEpoch) -> tuple[TableReplay, ...]:
        """Compute a commit's tables again; raises EpochExpired, with the reason, where they cannot be."""
        base = committed.find_base(self.store)
        if base is None:
            raise EpochExpired("the manifests that lead to it are not stored any more")
        barrier = committed.find_barrier(base)
        stored = load_catalog(base)
        domain = None if committed.domain is None else list_domains(stored).get(committed.domain)
        if barrier is None or domain is None:
            raise EpochExpired(
                "no run has computed it as one epoch: a step of a first build, a new query that took over, or a statement "
                "has written it"
            )
        if barrier.mutation == "recompute":
            raise EpochExpired("partitions were computed again in it, and which ones is not recorded")
        self._require_files(domain, base, barrier)
        after = apply_delta(base, committed.commit)
        executor = _KeepingExecutor(self.executor)
        run = DomainRun(self.store, executor, self.slots, domain, stored)
        try:
            computed = run.compute(base, barrier, _find_scopes(run, base, after))
            writes = computed.checkpoint.commit(domain.writer, 0, {}).writes
            return tuple(
                self._compare(
                    after.tables[name],
                    committed.commit.writes.get(name, ()),
                    writes.get(name, ()),
                )
                for name in domain.tables
                if name in after.tables
            )
        except EpochFailed as failure:
            text = f"computing it fails now: {failure}"
            return (
                TableReplay(committed.table, _count_rows(committed, committed.table), "other rows", (text,)),
            )
        finally:
            self.store.objects.delete(executor.paths)

    def _require_files(self, domain: Domain, base: Version, barrier: Barrier) -> None:
        """Raise EpochExpired if a file that an epoch reads was deleted since."""
        names = [name for name in (*domain.tables, *domain.inputs) if name in base.tables]
        newest = self.store.version
        kept = {path for table in newest.tables.values() for path in table.list_objects()}
        gone = {
            sst.path
            for name in names
            for sst in _list_read_files(base.tables[name], barrier)
            if sst.path not in kept and self.store.objects.head(sst.path) is None
        }
        if gone:
            raise EpochExpired(
                f"{len(gone)} files that it was computed from were deleted since, when compactions had replaced them: history "
                f"is kept for {self.store.options['retention_seconds']:g} s"
            )

    def _compare(
        self, table: TableVersion, committed: Sequence[SstInfo], computed: Sequence[SstInfo]
    ) -> TableReplay:
        """Hold the files that were computed of a table against those that were committed."""
        rows = sum(sst.rows for sst in committed)
        found = TableReplay(table.name, rows, "same bytes")
        if _identify(committed) == _identify(computed):
            return found
        if max(rows, sum(sst.rows for sst in computed)) > MOST_ROWS:
            return replace(found, outcome="other rows", examples=(f"files of {rows:,} rows differ",))
        try:
            ours = self._read_rows(table, committed)
        except CorruptObject as error:
            return replace(found, outcome="other rows", examples=(f"its file cannot be read: {error}",))
        theirs = self._read_rows(table, computed)
        left, right = find_unlike_rows(ours, theirs)
        if not left.num_rows and not right.num_rows:
            return replace(found, outcome="same rows")
        key, names = table.primary_key, {name: name for name in ours.column_names}
        texts = [describe_difference(one, key, names) for one in compare_rows(left, right, key)]
        if not texts:
            texts = [f"floating numbers of {max(left.num_rows, right.num_rows):,} rows have other digits"]
        return replace(found, outcome="other rows", examples=tuple(texts[:MOST_EXAMPLES]))

    def _read_rows(self, table: TableVersion, ssts: Sequence[SstInfo]) -> pa.Table:
        """Return the rows of some files of a table, with the operation of each."""
        schema = build_file_schema(table.table)
        names = [name for name in schema.names if name != HASH]
        parts = [read_sst(self.store.objects, sst, names).select(names) for sst in ssts]
        return pa.concat_tables([pa.schema([schema.field(name) for name in names]).empty_table(), *parts])


def _identify(ssts: Sequence[SstInfo]) -> Counter[tuple[int, int, int]]:
    """Return what files of equal bytes have in common."""
    return Counter((sst.rows, sst.length, sst.checksum) for sst in ssts)


def _list_read_files(table: TableVersion, barrier: Barrier) -> Iterator[SstInfo]:
    """Yield the files of a table that an epoch may read: its rows before and after, and the changes between."""
    for epoch in {barrier.prev, barrier.curr}:
        if epoch >= table.safe_epoch and table.has_rows_at(epoch):
            yield from itertools.chain.from_iterable(table.as_of(epoch))
    if barrier.prev >= table.safe_epoch:
        yield from itertools.chain.from_iterable(
            entry.ssts for entry in table.list_changes(barrier.prev, barrier.curr)
        )


def _find_scopes(run: DomainRun, base: Version, after: Version) -> PartitionScopes:
    """Return which partitions of the domain's views took part in a commit: all but those in quarantine after it."""
    scopes: Mapping[str, PartitionScope] = {
        view: PartitionScope(how, frozenset(read_quarantine(after, view)))
        for view in run.domain.members
        if (how := find_partitioning(run.stored, view)) is not None
    }
    return scopes


def _count_rows(committed: CommittedEpoch, table: str) -> int:
    return sum(sst.rows for sst in committed.commit.writes.get(table, ()))
