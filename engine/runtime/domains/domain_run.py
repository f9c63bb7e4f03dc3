"""One epoch of one domain: its fragments run one after the other over what is staged so far, then everything is one commit."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine import tracing
from engine.errors import RowFailed
from engine.hummock import Commit, Hummock, Version, without_new_keys
from engine.hummock.manifests.preconditions import require_all
from engine.meta.catalog.replaced_queries import clear_replaced
from engine.meta.catalog.stored_catalog import StoredCatalog, build_table, load_catalog, require_same_plans
from engine.meta.catalog.successions import require_shown, show_columns
from engine.meta.domains.creation import encode_creation, list_creations
from engine.meta.domains.domain import Domain
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import read_control
from engine.meta.domains.placement import place_table
from engine.meta.epochs.barrier import BARRIERS, Barrier, require_open_barrier
from engine.meta.epochs.frontier import find_expiry_epoch, needs_run
from engine.meta.epochs.staged_checkpoint import StagedCheckpoint
from engine.meta.epochs.target_epoch import check_stops
from engine.meta.epochs.time_boundary import (
    count_crossing_rows,
    forget_boundaries,
    is_timed,
    record_boundaries,
)
from engine.operators.dynamic_filter import count_passed_rows, list_dynamic_filters
from engine.runtime.domains.moving_bounds import find_expired_watermarks
from engine.runtime.epoch.assumption_checks import check_append_only, check_change, list_required_columns
from engine.runtime.epoch.epoch_run import FragmentEpoch, build_task, record_fragment
from engine.runtime.epoch.row_checks import check_rows
from engine.runtime.epoch.view_checks import StagedEpoch, check_views
from engine.runtime.executor import Executor, FragmentTask, TaskResult
from engine.runtime.partitions.scope import ALL_PARTITIONS, NO_SCOPES, PartitionScopes
from engine.runtime.source_rows import hold_sources, list_sources, merge_held
from engine.runtime.spark.slots import Slots


@dataclass
class DomainEpoch:
    """What a domain's run did: the epochs of its fragments by their owner, and the seconds that the commit took."""

    fragments: dict[str, list[FragmentEpoch]] = field(default_factory=dict)
    commit_seconds: float = 0.0
    barrier: Barrier | None = None


@dataclass(frozen=True)
class ComputedEpoch:
    """An epoch of a domain whose files are written, and which no commit has made visible yet."""

    checkpoint: StagedCheckpoint
    done: DomainEpoch
    barrier: Barrier


@dataclass(frozen=True)
class DomainRun:
    """Runs epochs of one domain, planned as in `stored`."""

    store: Hummock
    executor: Executor
    slots: Slots
    domain: Domain
    stored: StoredCatalog

    def commit(
        self,
        version: Version,
        computed: ComputedEpoch,
        generation: int,
        scopes: PartitionScopes = NO_SCOPES,
        catalog: Mapping[str, str | None] | None = None,
    ) -> DomainEpoch:
        """Bring all tables of the domain to the end of its open barrier in one commit, the entries `catalog` in it.

        The epoch was `computed` over a version, in the `scopes` of its views, by name. Raises Fenced if another writer has taken
        over, Conflict if a view of it was dropped, CheckFailed if a check stops it.
        """
        with tracing.start_span("commit"):
            return self._commit(version, computed, generation, scopes, catalog)

    def _commit(
        self,
        version: Version,
        computed: ComputedEpoch,
        generation: int,
        scopes: PartitionScopes,
        catalog: Mapping[str, str | None] | None,
    ) -> DomainEpoch:
        checkpoint, done, barrier = computed.checkpoint, computed.done, computed.barrier
        started = time.perf_counter()
        brought = {epoch.table for epochs in done.fragments.values() for epoch in epochs}
        behind = {view: scope.behind for view, scope in scopes.items()}
        staged = StagedEpoch(version, checkpoint.version, brought, barrier.curr, behind)
        judged = check_views(self.store.reader, self.stored, self.domain.members, staged, self.executor)
        closing = (
            _build_closing_entries(self.domain, version, self.store.version, done)
            | dict(catalog or {})
            | judged
        )
        timed = {f.table for _, f in self.domain.fragments if is_timed(f)} & brought
        closing |= forget_boundaries(
            version, brought - timed
        )  # an earlier plan may have had a table of this name
        closing |= clear_replaced(version, brought) | show_columns(version, brought)
        closing |= record_boundaries(self.store.reader, checkpoint.version.tables, timed)
        commit = checkpoint.commit(self.domain.writer, generation, closing)
        gone = find_expired_watermarks(self.store.reader, checkpoint.version, self.domain, barrier.curr)
        commit = dataclasses.replace(
            commit,
            precondition=require_all(
                require_same_plans(self.stored, self.domain.members),
                require_open_barrier(self.domain.name, barrier),
                require_shown(version, brought),
            ),
            watermarks=gone,
            epochs={**commit.epochs, **dict.fromkeys(gone, barrier.curr)},
        )
        self.store.hand_over(commit)
        done.commit_seconds = time.perf_counter() - started
        return done

    def compute(
        self,
        version: Version,
        barrier: Barrier,
        scopes: PartitionScopes = NO_SCOPES,
        *,
        upto: str | None = None,
    ) -> ComputedEpoch:
        """Compute what an epoch of the domain, or of its views as far as `upto`, changes; nothing is committed.

        `scopes` say of views, by name, which of their partitions take part. Raises RowFailed if a row cannot be computed.
        """
        domain, reach = self.domain, barrier.curr
        control, options = read_control(version, domain.name), load_catalog(version)
        done = DomainEpoch(barrier=barrier)
        checkpoint = StagedCheckpoint(version)
        owners = [i for i, (owner, _) in enumerate(domain.fragments) if upto in (None, owner)]
        for owner, whole in domain.fragments[: 1 + max(owners, default=-1)]:
            dependencies = domain.dependencies[whole.table]
            scope = scopes.get(owner, ALL_PARTITIONS)
            if not scope.again and not needs_run(checkpoint.version, whole.table, dependencies, reach):
                continue
            made = place_table(build_table(whole), owner, options, control)
            task = dataclasses.replace(
                build_task(checkpoint.version, scope.restrict_fragment(whole), dependencies, reach, made),
                again=scope.plan_recompute(whole),
                mine=scope.build_predicate(whole.table),
            )
            if not task.whole:
                check_stops(whole, version, self.stored, task.old, task.new)
            task = self._count_crossing_rows(task)
            try:
                attributes = {"db.collection.name": whole.table, "tideline.view": owner}
                with tracing.start_span("fragment", attributes) as span:
                    with self.slots.hold(alone=task.is_large):
                        started = time.perf_counter()
                        computed = self.executor.compute(task)
                    self._record_result(span, task, computed, time.perf_counter() - started)
                epoch, part = record_fragment(checkpoint.version, task, computed, dependencies)
                check_append_only(task, epoch)
                if not scope.leaves_out:
                    check_change(
                        self.store.reader,
                        task,
                        epoch,
                        part.writes[whole.table],
                        list_required_columns(options, whole.table),
                    )
                if whole.table == owner:
                    ssts = part.writes[whole.table]
                    passed = check_rows(self.store, version, build_table(whole), ssts, reach)
                    epoch = dataclasses.replace(epoch, driver_bytes=epoch.driver_bytes + passed)
            except RowFailed as failure:
                failure.view = owner
                raise
            if (
                scope.leaves_out
            ):  # a row that has left such a partition stands in the table yet, under the same key
                writes = {name: without_new_keys(ssts) for name, ssts in part.writes.items()}
                part = dataclasses.replace(part, writes=writes)
            checkpoint.add(part)
            done.fragments.setdefault(owner, []).append(epoch)
        return ComputedEpoch(checkpoint, done, barrier)

    def _record_result(
        self, span: tracing.Span, task: FragmentTask, computed: TaskResult, waited: float
    ) -> None:
        """Count what a fragment has taken, and tell its span."""
        seconds = max(waited, sum(computed.seconds.values()))  # what was computed ahead took its time before
        changed = sum(one.inserted + one.updated + one.deleted for one in computed.changes)
        self.store.counters.count_fragment(task.table.name, seconds, changed)
        if span.is_recording:
            span.set_attributes(_describe_result(task, computed))

    def _count_crossing_rows(self, task: FragmentTask) -> FragmentTask:
        """Count the rows of a task that come and go by the clock, or by a bound, among those that it reads."""
        if task.old is None or task.whole:
            return task
        filters = list_dynamic_filters(task.fragment.plan)
        passed = count_passed_rows(self.store.reader, task.tables, filters, (task.old, task.new))
        if is_timed(task.fragment):
            passed += count_crossing_rows(self.store.reader, task.tables[task.table.name], task.new)
        return dataclasses.replace(task, rows=task.rows + passed)

    def hold_inputs(self, version: Version, reach: int, generation: int) -> Version:
        """Hold the history of what a computation of the whole reads: it may take long, and must find it there when it is done.

        Returns the version with the rows of sources, which are not kept, loaded.
        """
        domain = self.domain
        acks: dict[str, dict[str, int | None]] = {}
        for _, fragment in domain.fragments:
            dependencies = domain.dependencies[fragment.table]
            own = version.tables.get(fragment.table)
            known = tuple(name for name in dependencies if name in version.tables)
            if (
                own is None
                or find_expiry_epoch(version, fragment.table, own.committed_epoch, known) is not None
            ):
                for name in known:
                    acks.setdefault(name, {})[fragment.table] = reach
        if any(
            version.tables[name].acks.get(own) != at for name, of in acks.items() for own, at in of.items()
        ):
            unchanged = require_same_plans(self.stored, domain.members)
            self.store.commit(
                Commit(acks=acks, writer=domain.writer, generation=generation, precondition=unchanged)
            )
        read = [one.name for one in list_sources(self.stored, acks)]
        hold_sources(self.store, self.executor, self.stored, domain, read, reach)
        return merge_held(version, self.store.version, read) if read else version


def _describe_result(task: FragmentTask, computed: TaskResult) -> tracing.Attributes:
    """Return what the span of a fragment tells: its rule, rows by what became of them, where it was computed, and stages."""
    return {
        "tideline.rule": type(task.fragment.rule).__name__,
        "tideline.whole": task.whole or task.old is None,
        "tideline.rows.in": task.rows,
        "tideline.rows.inserted": sum(one.inserted for one in computed.changes),
        "tideline.rows.updated": sum(one.updated for one in computed.changes),
        "tideline.rows.deleted": sum(one.deleted for one in computed.changes),
        "tideline.driver_bytes": sum(one.driver_bytes for one in computed.changes),
        **({} if computed.way is None else {"tideline.place": computed.way.place.value}),
        **{f"tideline.seconds.{stage}": taken for stage, taken in computed.seconds.items()},
    }


def _build_closing_entries(
    domain: Domain, version: Version, newest: Version, done: DomainEpoch
) -> dict[str, str | None]:
    """Return what a checkpoint changes beside the tables: its barrier is closed, failures are forgotten, rows are counted."""
    assert done.barrier is not None
    catalog = forget_failure(version, domain.name) | BARRIERS.remove(domain.name)
    creation = list_creations(version).get(domain.name)
    if creation is not None:
        rows = sum(epoch.rows_in for epochs in done.fragments.values() for epoch in epochs)
        changed = max((newest.tables[name].last_change for name in domain.inputs), default=0)
        catalog |= encode_creation(domain.name, creation.count_consumed(rows, done.barrier.curr, changed))
    return catalog
