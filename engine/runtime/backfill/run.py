"""Snapshot backfill of one domain: each step reads a range of hashes of an input at the pinned epoch; progress is committed.

The view has no live edge to its inputs meanwhile: it reads their snapshot at one epoch, and afterwards their change log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from engine.errors import CheckFailed, RowFailed
from engine.hummock import Commit, Hummock, Version
from engine.hummock.epoch import Clock
from engine.hummock.manifests.preconditions import Precondition, require, require_all
from engine.hummock.reads.merge import HASHES, HIGHEST, LOWEST
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    build_table,
    has_same_plans,
    load_catalog,
    require_same_plans,
)
from engine.meta.domains.creation import (
    CONSUMING_SNAPSHOT,
    CREATED,
    Creation,
    drop_creations,
    encode_creation,
    list_creations,
)
from engine.meta.domains.domain import Domain, find_rate_limit, is_in_background
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import read_control
from engine.meta.domains.placement import place_table
from engine.meta.domains.quarantine import (
    add_failures,
    encode_quarantine,
    find_partitioning,
    forget_quarantine,
    read_quarantine,
)
from engine.meta.epochs.barrier import close_barrier, mint_barrier, record_barrier
from engine.meta.epochs.staged_checkpoint import StagedCheckpoint
from engine.meta.epochs.target_epoch import is_aligned
from engine.meta.epochs.time_boundary import is_timed, request_boundaries
from engine.operators.context import SMALL_CHANGE_ROWS
from engine.operators.materialize import NetChange
from engine.runtime.backfill.driving_scans import find_driving_scans
from engine.runtime.backfill.eligibility import BACKFILL_ROWS, count_snapshot_rows
from engine.runtime.backfill.pace import LARGEST_AWAITED_STEP, Pace, compute_rest, limit_step_rows
from engine.runtime.backfill.step import compute_step
from engine.runtime.epoch.mutation_run import apply_mutations
from engine.runtime.epoch.row_checks import check_rows
from engine.runtime.epoch.view_checks import StagedEpoch, check_views
from engine.runtime.executor import Executor, FragmentTask
from engine.runtime.source_rows import hold_sources
from engine.runtime.spark.slots import Slots
from engine.sql.incremental.fragments import Fragment
from engine.sql.plan import Scan

_LABELS_BELOW = 60_000
"""Steps are labelled with the epochs just below the snapshot's own, which the last step gets; nobody can read them."""


@dataclass(frozen=True)
class _Build:
    """What the steps of one backfill share: whose it is, whether it still may be, and how large they may get."""

    domain: Domain
    generation: int
    unchanged: Callable[[Version], None]
    slots: Slots
    pace: Pace
    most_rows: int

    @property
    def commit(self) -> Commit:
        """A commit of the domain by whoever holds its generation, of nothing yet."""
        domain, generation = self.domain, self.generation
        return Commit(writer=domain.writer, generation=generation, precondition=self.unchanged)


@dataclass(frozen=True)
class _StepInput:
    """What one step reads: a piece of a scan, or the whole; `after` is how far the backfill is when it is read."""

    rows: int
    piece: tuple[Scan, tuple[int, int]] | None
    old: int | None
    last: bool
    after: Creation


class BackfillRun:
    """Brings new domains to the epoch of their snapshot, step by step; any process can go on where another one stopped."""

    def __init__(
        self,
        store: Hummock,
        executor: Executor,
        least_rows: int = BACKFILL_ROWS,
        clock: Clock | None = None,
        largest_step: int = LARGEST_AWAITED_STEP,
    ) -> None:
        self.store, self.executor, self.least_rows = store, executor, least_rows
        self.clock = clock or store.clock
        self.largest_step = largest_step
        self._paces: dict[str, Pace] = {}

    def get_pace(self, domain: str, awaited: bool = False) -> Pace:
        """Return the step size of a domain's backfill as this process has learned it; `awaited` if somebody waits for its end."""
        return self._paces.setdefault(domain, Pace.for_waiting_user() if awaited else Pace())

    def run(
        self,
        domain: Domain,
        stored: StoredCatalog,
        reach: int,
        generation: int,
        slots: Slots,
        stop: Callable[[], bool],
    ) -> Creation | None:
        """Do steps until the snapshot is read, `stop` says so, or the rate limit is 0; None if the domain was dropped meanwhile.

        One that fails on a row of its snapshot which is mended by `reach` begins anew there. Raises Fenced if another process has
        taken over.
        """
        unchanged = require_same_plans(stored, domain.members)
        creation = list_creations(self.store.version).get(domain.name)
        if creation is None or creation.state != CONSUMING_SNAPSHOT:
            creation = self._begin(domain, stored, reach, generation)
        background = is_in_background(domain, stored)
        pace = self.get_pace(domain.name, awaited=not background)
        most_rows = min(limit_step_rows(creation.total) if background else pace.largest, self.largest_step)
        build = _Build(domain, generation, unchanged, slots, pace, most_rows)
        if creation.state == CONSUMING_SNAPSHOT and not set(creation.tables) <= set(domain.tables):
            creation = self._restart(build, stored, self.store.version, reach)  # it is of an earlier plan
        while creation.state == CONSUMING_SNAPSHOT and not stop():
            version = self.store.refresh()
            if not has_same_plans(version, stored, domain.members):
                return None
            control = apply_mutations(self.store, domain, stored, generation, self.clock)
            limit = find_rate_limit(domain, load_catalog(self.store.version), control)
            if limit == 0 or control.paused:
                break
            started = self.clock.monotonic()
            before = creation.rows
            try:
                creation = self._run_step(build, creation, version, limit)
            except RowFailed:
                if not self._can_restart(build, creation, version, reach, limit):
                    raise
                creation = self._restart(build, stored, version, reach)
                continue
            except CheckFailed:  # of the whole, so what is to be mended is built again as a whole
                if not _has_changed(domain, creation, version, reach):
                    raise
                creation = self._restart(build, stored, version, reach)
                continue
            rest = compute_rest(creation.rows - before, self.clock.monotonic() - started, limit)
            while rest > 0 and not stop():
                self.clock.sleep(min(rest, 0.05))
                rest -= 0.05
        return creation

    def _begin(self, domain: Domain, stored: StoredCatalog, reach: int, generation: int) -> Creation:
        """Pin what is read, create the tables, and write down where to begin.

        Raises Conflict if what is read has no content at `reach` any more: partitions of it are being computed again.
        """
        hold_sources(self.store, self.executor, stored, domain, domain.inputs, reach)
        version = self.store.version
        tables = tuple(fragment.table for _, fragment in domain.fragments)
        sizes = {name: version.tables[name].row_count for name in domain.inputs}
        total = count_snapshot_rows(domain, version) or 0
        options, control = load_catalog(version), read_control(version, domain.name)
        creation = Creation(reach, tables, self.clock(), total, sizes)
        barrier = mint_barrier(version, domain, reach, self.clock())
        acks: dict[str, dict[str, int | None]] = {}
        for table, dependencies in domain.dependencies.items():
            for name in dependencies:
                if name in version.tables:
                    acks.setdefault(name, {})[table] = reach
        self.store.commit(
            Commit(
                create=tuple(
                    place_table(build_table(f), owner, options, control) for owner, f in domain.fragments
                ),
                acks=acks,
                catalog=encode_creation(domain.name, creation) | record_barrier(domain.name, barrier),
                writer=domain.writer,
                generation=generation,
                precondition=_require_readable(domain, stored, reach),
            )
        )
        return creation

    def _run_step(self, build: _Build, creation: Creation, version: Version, limit: int | None) -> Creation:
        """Compute and commit the next piece of a backfill, of `limit` rows a second at most; return how far it is then."""
        domain = build.domain
        started = self.clock.monotonic()
        owner, part, task = _plan_next_task(build, creation, version, limit)
        fragment, stored = task.fragment, load_catalog(version)

        def check(made: Sequence[NetChange]) -> None:
            self._check(owner, version, task, made)

        quarantined = read_quarantine(version, owner)
        with build.slots.hold(alone=task.is_large, building=True):
            how = find_partitioning(stored, owner)
            changes, poison = compute_step(self.executor, task, how, quarantined, check)
        notes: dict[str, str | None] = {}
        if poison.failures:
            errors = {key: str(one) for key, one in poison.failures.items()}
            quarantined = add_failures(
                quarantined, errors, None, creation.epoch, self.clock(), poison.suspects
            )
            notes = encode_quarantine(owner, quarantined)
        label = creation.epoch if part.last else creation.epoch - _LABELS_BELOW + creation.step
        after = _advance_creation(creation, part, self.clock())
        writes = {fragment.table: tuple(sst for change in changes for sst in change.ssts)}
        if after.state != CONSUMING_SNAPSHOT:
            notes |= self._check_built(
                domain, stored, version, Commit(writes=writes, epochs={fragment.table: label})
            )
            notes |= close_barrier(version, domain.name)
            notes |= request_boundaries([f.table for _, f in domain.fragments if is_timed(f)], creation.epoch)
        reads = domain.dependencies[fragment.table] if part.last else ()
        self.store.commit(
            replace(
                build.commit,
                writes=writes,
                epochs={fragment.table: label},
                acks={name: {fragment.table: creation.epoch} for name in reads},
                catalog=encode_creation(domain.name, after) | notes | forget_failure(version, domain.name),
            )
        )
        build.pace.adjust(part.rows, self.clock.monotonic() - started)
        return after

    def _check_built(
        self, domain: Domain, stored: StoredCatalog, version: Version, last: Commit
    ) -> dict[str, str | None]:
        """Return how checks come out over what a backfill has built, its last step included; raises CheckFailed."""
        built = StagedCheckpoint(version)
        built.add(last)
        epoch = list_creations(version)[domain.name].epoch
        behind = {view: read_quarantine(version, view).keys() for view in domain.members}
        staged = StagedEpoch(version, built.version, set(domain.tables), epoch, behind)
        return check_views(self.store.reader, stored, domain.members, staged, self.executor)

    def _check(self, owner: str, version: Version, task: FragmentTask, made: Sequence[NetChange]) -> None:
        """Raise RowFailed for rows that a view must not have; a state table of its plan may have any."""
        if task.fragment.table == owner:
            ssts = [sst for one in made for sst in one.ssts]
            check_rows(self.store, version, task.table, ssts, task.new)

    def _can_restart(
        self, build: _Build, creation: Creation, version: Version, reach: int, limit: int | None
    ) -> bool:
        """Tell whether a step that fails on its snapshot does not fail on the inputs at `reach`; nothing is committed."""
        if not _has_changed(build.domain, creation, version, reach):
            return False
        owner, _, task = _plan_next_task(build, creation, version, limit)
        if not set(creation.tables).isdisjoint(task.fragment.inputs):
            return True  # what it reads was built over the snapshot as well
        task = replace(task, new=reach, old=None if task.old is None else reach)
        try:
            with build.slots.hold(alone=task.is_large, building=True):
                self._check(owner, version, task, self.executor.compute(task).changes)
        except RowFailed:
            return False
        return True

    def _restart(self, build: _Build, stored: StoredCatalog, version: Version, reach: int) -> Creation:
        """Let go of what a backfill has built, and begin at `reach`."""
        domain = build.domain
        built = list_creations(version)[domain.name].tables
        changed, _ = drop_creations(version, built)
        for view in domain.members:
            changed |= forget_quarantine(version, view)
        gone = tuple(name for name in built if name in version.tables)
        self.store.commit(
            replace(build.commit, drop=gone, catalog=changed | close_barrier(version, domain.name))
        )
        return self._begin(domain, stored, reach, build.generation)


def _require_readable(domain: Domain, stored: StoredCatalog, epoch: int) -> Precondition:
    """Return the precondition that a domain is planned as it was and all that it reads has content at `epoch`."""
    message = f"what domain {domain.name} reads is being computed again"
    return require_all(
        require_same_plans(stored, domain.members),
        require(lambda version: is_aligned(domain, version, stored, epoch), message),
    )


def _has_changed(domain: Domain, creation: Creation, version: Version, reach: int) -> bool:
    """Tell whether what a backfill reads has changed since its snapshot, up to `reach`."""
    changes = (version.tables[name].find_first_change(creation.epoch) for name in domain.inputs)
    return any(change is not None and change <= reach for change in changes)


def _plan_next_task(
    build: _Build, creation: Creation, version: Version, limit: int | None
) -> tuple[str, _StepInput, FragmentTask]:
    """Return whose table the next step of a backfill brings on, what it reads, and what it computes."""
    name = creation.tables[creation.fragment]
    owner, fragment = next((o, f) for o, f in build.domain.fragments if f.table == name)
    part = _plan_next_input(fragment, creation, version, build, limit)
    table = version.tables[name].table
    task = FragmentTask(fragment, table, version.tables, part.old, creation.epoch, part.rows)
    return owner, part, replace(task, piece=part.piece)


def _plan_next_input(
    fragment: Fragment, creation: Creation, version: Version, build: _Build, limit: int | None
) -> _StepInput:
    """Return what the next step of a fragment reads, by the pace that was learned."""
    scans = find_driving_scans(fragment, lambda name: creation.sizes.get(name, 0))
    if scans is None:
        rows = sum(version.tables[name].row_count for name in fragment.inputs)
        return _StepInput(rows, None, None, True, creation)
    scan = scans[creation.driver]
    total = version.tables[scan.table].row_count
    most = SMALL_CHANGE_ROWS if build.slots.busy else max(SMALL_CHANGE_ROWS, build.pace.rows)
    step_rows = build.pace.choose_next_rows(total, min(most, build.most_rows), limit)
    high = creation.position + build.pace.compute_span(step_rows, total, HIGHEST - creation.position + 1) - 1
    rows = (
        total * (high - creation.position + 1) + HASHES // 2
    ) // HASHES  # rounded: else a step of one row is none
    ended = high == HIGHEST
    last = ended and creation.driver == len(scans) - 1
    after = msgspec.structs.replace(
        creation,
        position=LOWEST if ended else high + 1,
        driver=creation.driver + 1 if ended else creation.driver,
        rows=creation.rows + (0 if scan.table in creation.tables else rows),
    )
    if len(scans) == 1 and creation.step == 0 and last and rows > SMALL_CHANGE_ROWS:
        return _StepInput(rows, None, None, last, after)  # one step for all: there is nothing to add it to
    return _StepInput(rows, (scan, (creation.position, high)), creation.epoch, last, after)


def _advance_creation(creation: Creation, part: _StepInput, now: float) -> Creation:
    """Return how far a backfill is after a step; after the last one of a fragment the next fragment begins."""
    after = msgspec.structs.replace(part.after, step=creation.step + 1, updated=now)
    if not part.last:
        return after
    done = creation.fragment + 1 == len(creation.tables)
    return msgspec.structs.replace(
        after,
        fragment=creation.fragment + 1,
        driver=0,
        position=LOWEST,
        step=0,
        state=CREATED if done else CONSUMING_SNAPSHOT,
    )
