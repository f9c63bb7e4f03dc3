"""Epochs of views that are cut into partitions: a poison one is found and put into quarantine, the others go on.

An epoch in which no row fails costs what it costs without partitions. One that fails is halved by partition until those are found
on which it does; then it is run without them. A check that fails names its partitions by the rows that break it. What is left
behind is computed again as a whole, from its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from engine.errors import CheckFailed, Conflict, Fenced, RowFailed
from engine.hummock import Commit, Version
from engine.hummock.epoch import Clock
from engine.meta.catalog.stored_catalog import build_table, require_same_plans
from engine.meta.domains.quarantine import (
    QuarantinedPartition,
    add_failures,
    encode_quarantine,
    find_partitioning,
    list_outside_tables,
    read_quarantine,
    record_attempt,
)
from engine.meta.epochs.barrier import Barrier, close_barrier
from engine.meta.epochs.flush_plan import Recomputation
from engine.meta.epochs.frontier import find_expiry_epoch
from engine.meta.epochs.target_epoch import find_newer_reach, is_pending
from engine.runtime.domains.domain_run import DomainEpoch, DomainRun
from engine.runtime.executor import FragmentTask
from engine.runtime.partitions.poison_search import (
    MOST_CANDIDATES,
    Poison,
    ProbeBudget,
    find_poison,
    name_rows,
)
from engine.runtime.partitions.scope import PartitionScope, PartitionScopes
from engine.sql.incremental.partitions import Partitioning

MOST_RETRIES = 32
"""So often quarantined partitions are computed again in one run, all or some together."""
Mint = Callable[[Version, int], tuple[Barrier, int]]


@dataclass(frozen=True)
class PartitionRun(DomainRun):
    """Runs epochs of one domain, some of whose views are cut into partitions."""

    clock: Clock

    @property
    def partitionings(self) -> dict[str, Partitioning]:
        """The views of the domain that are cut, and how."""
        found = {view: find_partitioning(self.stored, view) for view in self.domain.members}
        return {view: how for view, how in found.items() if how is not None}

    def run(
        self,
        version: Version,
        barrier: Barrier,
        generation: int,
        again: Mapping[str, Collection[str]] | None = None,
    ) -> DomainEpoch:
        """Bring the domain to the end of its barrier; partitions on which a row fails, or a check of it, go into quarantine.

        Those `again`, by view, are computed as a whole, and leave the quarantine; then a failing row is raised instead, and so is
        a check that fails in one of them.
        """
        views = self.partitionings
        scopes: dict[str, PartitionScope] = {}
        quarantined: dict[str, dict[str, QuarantinedPartition]] = {}
        catalog: dict[str, str | None] = {}
        found: dict[str, dict[str, RowFailed]] = {}
        for view, how in views.items():
            requested = frozenset((again or {}).get(view, ()))
            known = dict(read_quarantine(version, view))
            quarantined[view] = {key: one for key, one in known.items() if key not in requested}
            scopes[view] = PartitionScope(how, frozenset(quarantined[view]), requested)
            if len(quarantined[view]) < len(known):
                catalog |= encode_quarantine(view, quarantined[view])
        while True:
            try:
                held = self.hold_inputs(version, barrier.curr, generation)
                computed = self.compute(held, barrier, scopes)
                done = self.commit(held, computed, generation, scopes, catalog)
                self._name_rows(found, generation)
                return done
            except RowFailed as failure:
                failed = failure.view
                if again or failed is None or failed not in views:
                    raise
                poison = self._find_poison(failed, version, barrier, scopes, failure)
                if not poison.failures.keys() - quarantined[failed].keys():
                    raise  # none, or only such as take no part already
                found[failed] = found.get(failed, {}) | poison.failures
                errors = {failed: {key: str(one) for key, one in poison.failures.items()}}
                suspects = poison.suspects
            except CheckFailed as failure:
                errors = {
                    view: {key: text for key, text in texts.items() if key not in scopes[view].again}
                    for view, texts in failure.partitions.items()
                }
                suspects = set()
                if not any(errors.values()):
                    raise
            for view, texts in errors.items():
                table_version = version.tables.get(view)
                committed = table_version.committed_epoch if table_version is not None else None
                quarantined[view] = add_failures(
                    quarantined[view], texts, committed, barrier.curr, self.clock(), suspects
                )
                catalog |= encode_quarantine(view, quarantined[view])
                scopes[view] = replace(scopes[view], behind=frozenset(quarantined[view]))

    def retry(self, version: Version, planned: Recomputation, mint: Mint) -> list[DomainEpoch]:
        """Compute partitions of a view again as a whole, as planned over a version.

        Of those that wait only those are whose inputs have changed. Those on which a row fails stay in, or go into, quarantine.
        """
        view, reach = planned.view, planned.reach
        known = read_quarantine(version, view)
        waiting = known.keys() & set(planned.due) - planned.requested
        candidates = {key for key in waiting if not known[key].suspect}
        if candidates:
            unchanged = candidates - self._find_changed(view, version, candidates, reach)
            if unchanged:
                quarantined = record_attempt(read_quarantine(version, view), unchanged, reach, self.clock())
                self._record_quarantine(view, quarantined, mint(version, reach)[1])
            waiting -= unchanged
        inputs = sorted(waiting, key=lambda key: (known[key].last, key))  # those that waited longest first
        keys = [*sorted(planned.requested), *inputs]
        return self._recompute(view, keys, mint, ProbeBudget(MOST_RETRIES + 2 * len(planned.requested)))

    def _recompute(self, view: str, keys: list[str], mint: Mint, attempts: ProbeBudget) -> list[DomainEpoch]:
        version = self.store.refresh()
        reach = find_newer_reach(self.domain, version, self.stored, view) if keys else None
        if reach is None:
            return []
        if not attempts.consume():
            return []  # they stay due, and the next run begins with them
        barrier, generation = mint(version, reach)
        version = self.store.version
        try:
            return [self.run(version, barrier, generation, {view: keys})]
        except CheckFailed as failed:
            errors = {key: text for key, text in failed.partitions.get(view, {}).items() if key in keys}
            if not errors:
                raise
            committed, before = version.tables[view].committed_epoch, read_quarantine(version, view)
            quarantined = add_failures(before, errors, committed, barrier.curr, self.clock())
            self._record_quarantine(view, quarantined, generation)
            return self._recompute(view, [key for key in keys if key not in errors], mint, attempts)
        except RowFailed as failure:
            if len(keys) > 1:
                middle = len(keys) // 2
                first = self._recompute(view, keys[:middle], mint, attempts)
                return [*first, *self._recompute(view, keys[middle:], mint, attempts)]
            again: RowFailed | None = failure
            if is_pending(self.domain, version, barrier.curr):  # it may be a row of another partition
                alone = PartitionScope(self.partitionings[view], again=frozenset(keys), only=frozenset())
                again = self._try_view(view, version, barrier, {view: alone})
            if again is None:  # it is: that one is left behind first, and those asked for are due yet
                others = [self.run(version, barrier, generation)]
                return [*others, *self._recompute(view, keys, mint, attempts)]
            error, known = str(again), read_quarantine(version, view).get(keys[0])
            if known is not None and known.error.startswith(again.reason):
                error = known.error  # which names the row as well
            committed = version.tables[view].committed_epoch
            before = read_quarantine(version, view)
            quarantined = add_failures(before, {keys[0]: error}, committed, barrier.curr, self.clock())
            self._record_quarantine(view, quarantined, generation)
            return []

    def _find_changed(self, view: str, version: Version, keys: Collection[str], reach: int) -> frozenset[str]:
        """Return those of some quarantined partitions whose inputs have changed since they were tried.

        Each by the changes since its own trial: over a longer time a row that came and went has not changed.
        """
        known, inputs = read_quarantine(version, view), list_outside_tables(self.stored, view)
        changed: set[str] = set()
        for tried in {known[key].tried for key in keys}:
            own = {key for key in keys if known[key].tried == tried}
            if find_expiry_epoch(version, view, tried, inputs) is not None:  # the log that could tell is gone
                changed |= own
                continue
            touched = self._list_touched(view, version, tried, reach)
            changed |= own if len(touched) >= MOST_CANDIDATES else own & set(touched)
        return frozenset(changed)

    def _find_poison(
        self, view: str, version: Version, barrier: Barrier, scopes: PartitionScopes, failure: RowFailed
    ) -> Poison:
        """Return the partitions of a view on which an epoch fails."""
        scope, table_version = scopes[view], version.tables.get(view)
        old = table_version.committed_epoch if table_version is not None else None
        touched = self._list_touched(view, version, old, barrier.curr)

        def fails(keys: Collection[str]) -> RowFailed | None:
            probe = {**scopes, view: PartitionScope(scope.partitioning, only=frozenset(keys))}
            return self._try_view(view, version, barrier, probe)

        return find_poison(view, touched, scope.behind, fails, failure)

    def _list_touched(self, view: str, version: Version, old: int | None, new: int) -> tuple[str, ...]:
        """Return the partitions of the rows that a view reads and that change in (old, new], of a first build all; not more than
        MOST_CANDIDATES.
        """
        how = self.partitionings[view]
        fragments = self.stored.plans[view].fragments
        scans = [pair for f in fragments for pair in how.list_sources(f) if pair[0].table not in how.tables]
        tables = [version.tables[name] for name in {scan.table for scan, _ in scans}]
        whole = (
            old is None or find_expiry_epoch(version, view, old, [table.name for table in tables]) is not None
        )
        rows = sum(table.row_count if whole else table.count_changed_rows(old or 0, new) for table in tables)
        start = None if whole else old
        task = FragmentTask(fragments[-1], build_table(fragments[-1]), version.tables, start, new, rows)
        return self.executor.partitions(task, scans, MOST_CANDIDATES)

    def _try_view(
        self, view: str, version: Version, barrier: Barrier, scopes: PartitionScopes
    ) -> RowFailed | None:
        """Return on what an epoch of a view under `cuts` fails, None if it does not; nothing is committed."""
        try:
            self.compute(version, barrier, scopes, upto=view)
        except RowFailed as failure:
            if failure.view == view:
                return failure.with_traceback(None)
            raise
        return None

    def _name_rows(self, found: Mapping[str, Mapping[str, RowFailed]], generation: int) -> None:
        """Look for the rows on which partitions fail, of some of them, once the others are visible."""
        for view, failures in found.items():
            errors = {key: str(one) for key, one in name_rows(failures).items()}
            with suppress(Fenced, Conflict):  # another process has gone on: it finds out by itself
                quarantined = dict(read_quarantine(self.store.refresh(), view))
                for key in errors.keys() & quarantined.keys():
                    quarantined[key] = msgspec.structs.replace(quarantined[key], error=errors[key])
                if errors:
                    self._record_quarantine(view, quarantined, generation)

    def _record_quarantine(
        self, view: str, quarantined: Mapping[str, QuarantinedPartition], generation: int
    ) -> None:
        """Write down how the quarantine stands after an attempt, whose barrier is closed."""
        self.store.commit(
            Commit(
                catalog=encode_quarantine(view, quarantined)
                | close_barrier(self.store.version, self.domain.name),
                writer=self.domain.writer,
                generation=generation,
                precondition=require_same_plans(self.stored, self.domain.members),
            )
        )
