"""One epoch of one domain: its fragments run one after the other over what is staged so far, then everything is one commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import StoredCatalog
from engine.meta.checkpoint import Checkpoint
from engine.meta.domain import Domain
from engine.meta.frontier import frontiers, pending
from engine.meta.recovery import recovered
from engine.operators.context import SMALL_CHANGE_ROWS
from engine.runtime.epoch_run import FragmentEpoch, rows_in, run_fragment
from engine.runtime.slots import Slots
from engine.sql.fragments import Fragment


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
    spark: Callable[[], SparkSession],
    slots: Slots,
    domain: Domain,
    version: Version,
    reach: int,
    generation: int,
) -> DomainEpoch:
    """Bring all tables of a domain to `reach` in one commit; raises Fenced if another writer has taken over."""
    _pin_inputs(store, domain, version, reach, generation)
    done = DomainEpoch()
    checkpoint = Checkpoint(version)
    for owner, fragment in domain.fragments:
        dependencies = domain.dependencies[fragment.table]
        if not pending(checkpoint.version, fragment.table, dependencies, reach):
            continue
        with slots.taken(alone=_is_large(checkpoint.version, fragment, reach)):
            epoch, part = run_fragment(store, checkpoint.version, spark(), fragment, dependencies, reach)
        checkpoint.add(part)
        done.fragments.setdefault(owner, []).append(epoch)
    started = time.perf_counter()
    store.commit(checkpoint.commit(domain.writer, generation, recovered(version, domain.name)))
    done.commit_seconds = time.perf_counter() - started
    return done


def _is_large(version: Version, fragment: Fragment, reach: int) -> bool:
    own = version.tables.get(fragment.table)
    previous = own.committed_epoch if own is not None else None
    return previous is None or rows_in(version, fragment, previous, reach) > SMALL_CHANGE_ROWS


def _pin_inputs(store: Hummock, domain: Domain, version: Version, reach: int, generation: int) -> None:
    """Hold the history of what a first build reads: it may take long, and must find it there when it is done."""
    acks: dict[str, dict[str, int | None]] = {}
    for _, fragment in domain.fragments:
        if fragment.table not in version.tables:
            for name in domain.dependencies[fragment.table]:
                if name in version.tables:
                    acks.setdefault(name, {})[fragment.table] = reach
    if acks:
        store.commit(Commit(acks=acks, writer=domain.writer, generation=generation))
