"""Waits: every domain that lacks changes of its inputs, why it does, and until when; none is without reason or end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.hummock import Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.checkpoint_frequency import find_sealed_barriers
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, find_computed_table, list_creations
from engine.meta.domains.domain import Domain, find_domain_name, find_rate_limit, list_domains
from engine.meta.domains.failures import Failure, list_failures
from engine.meta.domains.mutation import read_control
from engine.meta.domains.quarantine import list_quarantined_views, read_quarantine
from engine.meta.domains.refresh_policy import Rest, find_rest, find_schedule
from engine.meta.epochs.barrier import find_open_barrier
from engine.meta.epochs.frontier import Frontier, compute_frontiers, find_expiry_epoch
from engine.meta.epochs.retention import find_release_time
from engine.meta.epochs.target_epoch import find_reach

Kind = Literal["due", "backfill", "barrier", "failed", "paused", "refresh", "upstream", "quarantined", "gate"]


@dataclass(frozen=True)
class DomainWait:
    """One domain that lags: `since` and `until` are seconds since 1970.

    `goes_on` says that the next run does it, even one that nobody asked for by hand, `by_choice` that an option makes it wait.
    Kinds: `due` (nothing hinders the next run), `backfill` (runs go on with it), `barrier` (sealed: its checkpoint
    comes at `until` at the latest, by FLUSH at once), `failed` (it is tried again by the first run after `until`),
    `paused` (until somebody resumes it; at `until` it lets go of the changes that it lacks), `refresh` (it rests by its option
    until `until`; where only its name brings it on it lets go of changes then), `upstream` (what it reads cannot go on),
    `quarantined` (a partition of a view, tried again when its inputs change, at `until` or later), `gate` (the next query of a
    view changes more than it may, until somebody approves or discards it).
    """

    domain: str
    kind: Kind
    reason: str
    since: float | None
    until: float | None
    goes_on: bool = False
    by_choice: bool = False


def list_all_waits(version: Version, stored: StoredCatalog, now: float) -> tuple[DomainWait, ...]:
    """Return the waits of domains, of partitions in quarantine, and of next queries that a gate holds up."""
    return (*list_waits(version, stored, now), *list_quarantine_waits(version), *list_gate_waits(version))


def list_waits(version: Version, stored: StoredCatalog, now: float) -> tuple[DomainWait, ...]:
    """Return the wait of every domain that lags, upstream domains first."""
    known = compute_frontiers(version, stored.order, stored.inputs)
    failing = list_failures(version)
    found: dict[str, DomainWait] = {}
    for name, domain in list_domains(stored).items():
        control = read_control(version, name)
        if control.asked:
            first = control.asked[0]
            reason = f"the next run takes the mutation {first.text}"
            found[name] = DomainWait(name, "due", reason, first.at, None, goes_on=True)
        elif control.paused:
            found[name] = DomainWait(
                name, "paused", control.reason, control.since, _find_release_time(domain, version)
            )
        elif is_lagging(domain, known):
            found[name] = _build_wait(
                _find_lag(domain, known, failing.get(name), found), version, stored, now
            )
    return tuple(found.values())


def is_lagging(domain: Domain, known: Mapping[str, Frontier]) -> bool:
    """Tell whether a domain lacks changes of what it reads, now or once that is computed."""
    return any(known[fragment.table].lagging for _, fragment in domain.fragments)


def find_rest_now(domain: Domain, version: Version, stored: StoredCatalog, now: float) -> Rest | None:
    """Return why a domain that lags is left alone until its time, None if it is not."""
    if all(
        find_schedule(r) is None for m in domain.members if (r := stored.catalog.relations.get(m)) is not None
    ):
        return None
    known = compute_frontiers(version, stored.order, stored.inputs)
    if not is_lagging(domain, known):
        return None
    return find_rest(domain, version, stored, _find_lag(domain, known, None, {}).since, now)


@dataclass(frozen=True)
class _Lag:
    """A domain that lags: since when, how it failed last, and what it waits for of those above that does not go on by itself.

    One that is `pending` can be brought on as far as those above have come.
    """

    domain: Domain
    since: float | None
    failure: Failure | None
    stuck: DomainWait | None
    pending: bool


def _find_lag(
    domain: Domain, known: Mapping[str, Frontier], failure: Failure | None, upstream: Mapping[str, DomainWait]
) -> _Lag:
    oldest = [known[f.table].oldest_change for _, f in domain.fragments]
    since = min((seconds_of(change) for change in oldest if change is not None), default=None)
    upstream_waits = [upstream[name] for name in domain.upstreams if name in upstream]
    stuck = next((wait for wait in upstream_waits if not wait.goes_on), None)
    return _Lag(domain, since, failure, stuck, any(known[f.table].pending for _, f in domain.fragments))


def _build_wait(lag: _Lag, version: Version, stored: StoredCatalog, now: float) -> DomainWait:
    domain, since, failure, stuck = lag.domain, lag.since, lag.failure, lag.stuck
    if (rest := find_rest(domain, version, stored, since, now)) is not None:
        failed = "" if failure is None else f"; the last time it failed: {failure.error}"
        until = _find_release_time(domain, version) if rest.until is None else rest.until
        return DomainWait(domain.name, "refresh", rest.text + failed, since, until, by_choice=True)
    if failure is not None and failure.tries.is_waiting(now):
        return DomainWait(
            domain.name, "failed", describe_failure(failure, now), failure.since, failure.tries.retry_at
        )
    if stuck is not None and not (stuck.by_choice and lag.pending):
        reason = f"waits for {stuck.domain}: {stuck.reason}"
        return DomainWait(domain.name, "upstream", reason, since, stuck.until, by_choice=stuck.by_choice)
    if failure is not None:
        reason = describe_failure(failure, now)
        return DomainWait(domain.name, "failed", reason, failure.since, failure.tries.retry_at, goes_on=True)
    if expired := [table for table in domain.tables if _is_log_missing(domain, table, version)]:
        reason = (
            f"the changes that {', '.join(expired)} lacks were released: the next run computes it as a whole"
        )
        return DomainWait(domain.name, "due", reason, since, None, goes_on=True)
    creation = list_creations(version).get(domain.name)
    if creation is not None and creation.state == CONSUMING_SNAPSHOT:
        paused = find_rate_limit(domain, stored, read_control(version, domain.name)) == 0
        reason = f"{creation.text}; paused by backfill_rate_limit = 0" if paused else creation.text
        kind: Kind = "paused" if paused else "backfill"
        return DomainWait(domain.name, kind, reason, creation.started, None, goes_on=not paused)
    reach = find_reach(domain, version, stored)
    if (waiting := find_sealed_barriers(domain, version, stored, reach, now)) is not None:
        return DomainWait(domain.name, "barrier", waiting.text, waiting.since, waiting.until)
    left = find_open_barrier(version, domain.name)
    if left is not None and now < left.deadline:
        reason = f"a run has opened {left.barrier.text}; if it does not end the next one takes over"
        return DomainWait(domain.name, "due", reason, since, left.deadline, goes_on=True)
    return DomainWait(domain.name, "due", "the next run does it", since, None, goes_on=True)


def _is_log_missing(domain: Domain, table: str, version: Version) -> bool:
    own = find_computed_table(version, table)
    if own is None:
        return False
    return find_expiry_epoch(version, table, own.committed_epoch, domain.dependencies[table]) is not None


def _find_release_time(domain: Domain, version: Version) -> float | None:
    """Return when the first changes that a domain lacks are let go, after which it has to be computed as a whole."""
    found = []
    for table, dependencies in domain.dependencies.items():
        own = find_computed_table(version, table)
        if own is not None:
            inputs = (version.tables[name] for name in dependencies if name in version.tables)
            found += [find_release_time(other, own.committed_epoch) for other in inputs]
    return min((at for at in found if at is not None), default=None)


def list_quarantine_waits(version: Version) -> tuple[DomainWait, ...]:
    """Return the wait of every partition that is in quarantine; their views go on meanwhile."""
    found = []
    for view in list_quarantined_views(version):
        for key, one in read_quarantine(version, view).items():
            reason = f"partition {key} {one.text} (tried again when what it reads changes)"
            found.append(DomainWait(view, "quarantined", reason, one.since, one.tries.retry_at))
    return tuple(found)


def list_gate_waits(version: Version) -> tuple[DomainWait, ...]:
    """Return the wait of every next query that a gate holds up; its view goes on by the present one meanwhile."""
    return tuple(
        DomainWait(
            one.successor, "gate", f"{one.held}; {format_gate_remedy(view)}", None, None, by_choice=True
        )
        for view, one in list_successions(version).items()
        if one.held
    )


def format_gate_remedy(view: str) -> str:
    """Return how a change that a gate holds up goes on."""
    return f"ALTER MATERIALIZED VIEW {view} APPROVE lets it take over, DISCARD drops it"


def group_waits(found: Iterable[DomainWait], stored: StoredCatalog) -> Mapping[str, DomainWait]:
    """Return the wait of each view: its own, of a quarantined partition, or that of its domain, which goes first."""
    waits = list(found)
    own = {wait.domain: wait for wait in waits if wait.kind == "quarantined"}
    domains = {wait.domain: wait for wait in waits if wait.kind != "quarantined"}
    of_domain = {name: domains.get(find_domain_name(stored, name)) for name in stored.plans}
    return own | {name: wait for name, wait in of_domain.items() if wait is not None}


def count_stuck_seconds(wait: DomainWait, version: Version, now: float) -> float:
    """Return for how long a wait has gone on without what should end it; 0 for one that somebody has chosen.

    A view that fails or is in quarantine is stuck since then, a backfill since its last step, a sealed barrier since its end. Of
    one that waits for others those are told; one that is due has its lag.
    """
    since: float | None = None
    if wait.kind in ("failed", "quarantined"):
        since = wait.since
    elif wait.kind == "backfill":
        creation = list_creations(version)[wait.domain]
        since = max(creation.updated, creation.started)
    elif wait.kind == "barrier":
        since = wait.until
    return 0.0 if since is None else max(0.0, now - since)


def describe_failure(failure: Failure, now: float) -> str:
    """Return a failure in words: the error, how often, and when it is tried again."""
    last, again = (
        time.strftime("%H:%M:%S", time.gmtime(at)) for at in (failure.last, failure.tries.retry_at)
    )
    times = f"{failure.tries.text}{' in a row' if failure.attempts > 1 else ''}"
    when = f"after {again} UTC, or by FLUSH at once" if now < failure.tries.retry_at else "by the next run"
    return f"{failure.error} (failed {times}, the last time at {last} UTC; tried again {when})"
