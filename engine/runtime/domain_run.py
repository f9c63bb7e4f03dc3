"""One epoch of one domain: its fragments run one after the other over what is staged so far, then everything is one commit."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

from engine.hummock import Commit, Hummock, Version
from engine.meta.barrier import PREFIX, Barrier
from engine.meta.catalog_store import StoredCatalog, load, planned, table_of
from engine.meta.checkpoint import Checkpoint
from engine.meta.creation import creations, entry
from engine.meta.domain import Domain
from engine.meta.frontier import frontiers, lapsed_at, pending
from engine.meta.mutation import control_of
from engine.meta.placement import placed
from engine.meta.recovery import recovered
from engine.runtime.epoch_run import FragmentEpoch, run_fragment, task_of
from engine.runtime.executor import Executor
from engine.runtime.row_checks import check_rows
from engine.runtime.slots import Slots


@dataclass
class DomainEpoch:
    """What a domain's run did: the epochs of its fragments by their owner, and the seconds that the commit took."""

    fragments: dict[str, list[FragmentEpoch]] = field(default_factory=dict)
    commit_seconds: float = 0.0
    barrier: Barrier | None = None


def reach_of(domain: Domain, version: Version, stored: StoredCatalog) -> int | None:
    """Return the epoch to which a domain could be brought: the least frontier of what it reads from outside.

    None while one of those tables was never computed.
    """
    known = frontiers(version, stored.upstream_order(domain.inputs), stored.inputs)
    fronts = [known[name].frontier for name in domain.inputs]
    if any(front is None for front in fronts):
        return None
    return min((front for front in fronts if front is not None), default=version.epoch)


def is_pending(domain: Domain, version: Version, reach: int) -> bool:
    """Tell whether bringing a domain to `reach` needs a run."""
    return any(pending(version, f.table, domain.dependencies[f.table], reach) for _, f in domain.fragments)


def run_domain(
    store: Hummock,
    executor: Executor,
    slots: Slots,
    domain: Domain,
    stored: StoredCatalog,
    version: Version,
    barrier: Barrier,
    generation: int,
) -> DomainEpoch:
    """Bring all tables of a domain to the end of its open barrier in one commit.

    Raises Fenced if another writer has taken over, Conflict if a view of it was dropped.
    """
    reach, control, options = barrier.curr, control_of(version, domain.name), load(version)
    _pin_inputs(store, domain, stored, version, reach, generation)
    done = DomainEpoch(barrier=barrier)
    checkpoint = Checkpoint(version)
    for owner, fragment in domain.fragments:
        dependencies = domain.dependencies[fragment.table]
        if not pending(checkpoint.version, fragment.table, dependencies, reach):
            continue
        made = placed(table_of(fragment), owner, options, control)
        with slots.taken(alone=task_of(checkpoint.version, fragment, dependencies, reach).is_large):
            epoch, part = run_fragment(executor, checkpoint.version, fragment, dependencies, reach, made)
        if fragment.table == owner:
            check_rows(store, version, table_of(fragment), part.writes[fragment.table])
        checkpoint.add(part)
        done.fragments.setdefault(owner, []).append(epoch)
    started = time.perf_counter()
    commit = checkpoint.commit(domain.writer, generation, _closing(domain, version, store.version, done))
    store.commit(dataclasses.replace(commit, precondition=planned(stored, domain.members)))
    done.commit_seconds = time.perf_counter() - started
    return done


def _closing(domain: Domain, version: Version, newest: Version, done: DomainEpoch) -> dict[str, str | None]:
    """Return what a checkpoint changes beside the tables: its barrier is closed, failures are forgotten, rows are counted."""
    assert done.barrier is not None
    catalog = recovered(version, domain.name) | {PREFIX + domain.name: None}
    creation = creations(version).get(domain.name)
    if creation is not None:
        rows = sum(epoch.rows_in for epochs in done.fragments.values() for epoch in epochs)
        changed = max((newest.tables[name].last_change for name in domain.inputs), default=0)
        catalog |= entry(domain.name, creation.consuming(rows, done.barrier.curr, changed))
    return catalog


def _pin_inputs(
    store: Hummock, domain: Domain, stored: StoredCatalog, version: Version, reach: int, generation: int
) -> None:
    """Hold the history of what a computation of the whole reads: it may take long, and must find it there when it is done."""
    acks: dict[str, dict[str, int | None]] = {}
    for _, fragment in domain.fragments:
        dependencies = domain.dependencies[fragment.table]
        own = version.tables.get(fragment.table)
        known = tuple(name for name in dependencies if name in version.tables)
        if own is None or lapsed_at(version, own.committed_epoch, known) is not None:
            for name in domain.dependencies[fragment.table]:
                if name in version.tables:
                    acks.setdefault(name, {})[fragment.table] = reach
    if acks:
        precondition = planned(stored, domain.members)
        store.commit(
            Commit(acks=acks, writer=domain.writer, generation=generation, precondition=precondition)
        )
