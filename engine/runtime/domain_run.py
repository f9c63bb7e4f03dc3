"""One epoch of one domain: its fragments run one after the other over what is staged so far, then everything is one commit."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import StoredCatalog, planned, table_of
from engine.meta.checkpoint import Checkpoint
from engine.meta.domain import Domain
from engine.meta.frontier import frontiers, pending
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
    reach: int,
    generation: int,
) -> DomainEpoch:
    """Bring all tables of a domain to `reach` in one commit.

    Raises Fenced if another writer has taken over, Conflict if a view of it was dropped.
    """
    _pin_inputs(store, domain, stored, version, reach, generation)
    done = DomainEpoch()
    checkpoint = Checkpoint(version)
    for owner, fragment in domain.fragments:
        dependencies = domain.dependencies[fragment.table]
        if not pending(checkpoint.version, fragment.table, dependencies, reach):
            continue
        with slots.taken(alone=task_of(checkpoint.version, fragment, reach).is_large):
            epoch, part = run_fragment(executor, checkpoint.version, fragment, dependencies, reach)
        if fragment.table == owner:
            check_rows(store, version, table_of(fragment), part.writes[fragment.table])
        checkpoint.add(part)
        done.fragments.setdefault(owner, []).append(epoch)
    started = time.perf_counter()
    commit = checkpoint.commit(domain.writer, generation, recovered(version, domain.name))
    store.commit(dataclasses.replace(commit, precondition=planned(stored, domain.members)))
    done.commit_seconds = time.perf_counter() - started
    return done


def _pin_inputs(
    store: Hummock, domain: Domain, stored: StoredCatalog, version: Version, reach: int, generation: int
) -> None:
    """Hold the history of what a first build reads: it may take long, and must find it there when it is done."""
    acks: dict[str, dict[str, int | None]] = {}
    for _, fragment in domain.fragments:
        if fragment.table not in version.tables:
            for name in domain.dependencies[fragment.table]:
                if name in version.tables:
                    acks.setdefault(name, {})[fragment.table] = reach
    if acks:
        precondition = planned(stored, domain.members)
        store.commit(
            Commit(acks=acks, writer=domain.writer, generation=generation, precondition=precondition)
        )
