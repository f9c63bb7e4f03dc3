"""Mutations on their way: asked for in one commit, taken by who runs the domain in order, each by a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Table, Version
from engine.hummock.epoch import Clock
from engine.hummock.manifests.preconditions import Precondition, require_all, require_unaltered
from engine.hummock.transact import RetryPolicy, commit_once, commit_with_retry
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    load_catalog,
    require_same_catalog,
    require_same_plans,
)
from engine.meta.domains.domain import Domain, find_domain_name
from engine.meta.domains.mutation import (
    Control,
    apply_mutation,
    encode_control,
    enqueue_mutation,
    read_control,
    require_same_queue,
)
from engine.meta.domains.placement import find_misplaced_tables
from engine.meta.epochs.barrier import Mutation

ASK = RetryPolicy(50)


def request_mutation(store: Hummock, view: str, mutation: Mutation, value: int | None, now: float) -> None:
    """Queue a mutation for the domain of a view; durable when it returns, in force from the domain's next barrier on.

    Raises SqlError if there is no such view.
    """

    def attempt() -> None:
        version = store.refresh()
        stored = load_catalog(version)
        relation = stored.catalog.relations.get(view)
        if relation is None:
            raise SqlError(f"there is no materialized view {view}", hint=stored.catalog.suggest_names(view))
        if relation.kind != "materialized view":
            hint = "SHOW MATERIALIZED VIEWS lists those that can be"
            raise SqlError(f"a {relation.kind} cannot be controlled: {view}", hint=hint)
        domain = find_domain_name(stored, view)
        control = enqueue_mutation(read_control(version, domain), mutation, relation, value, now)
        same = _require_same_domain(version, domain)
        store.commit(Commit(catalog=encode_control(domain, control), precondition=same))

    commit_with_retry(store, attempt, ASK)


def _require_same_domain(base: Version, domain: str) -> Precondition:
    return require_all(require_same_queue(base, domain), require_same_catalog(base))


def apply_mutations(
    store: Hummock, domain: Domain, stored: StoredCatalog, generation: int, clock: Clock
) -> Control:
    """Put in force what is queued for a domain, oldest first, and return what is in force then.

    Each mutation leaves the queue in the commit that puts it in force, so it is taken once, whatever crashes. The checkpoint that
    carries it brings no rows: it closes the epoch that the domain has committed. Raises Fenced if another process has taken over,
    Conflict if views of it are not planned as in `stored` any more, and GroundLost.
    """
    while True:
        version = store.version
        require_same_plans(stored, domain.members)(version)
        control = read_control(version, domain.name)
        if not control.asked:
            return control
        committed = [
            version.tables[table].committed_epoch for table in domain.tables if table in version.tables
        ]
        after = apply_mutation(control, max(committed, default=0), clock())
        altered = find_misplaced_tables(version, load_catalog(version), domain, after)
        taken = Commit(
            catalog=encode_control(domain.name, after),
            alter=altered,
            writer=domain.writer,
            generation=generation,
            precondition=_require_unchanged(version, domain.name, altered),
        )
        commit_once(store, partial(store.commit, taken))


def _require_unchanged(base: Version, domain: str, altered: Mapping[str, Table]) -> Precondition:
    tables = require_unaltered(*(base.tables[name] for name in altered))
    return require_all(require_same_queue(base, domain), tables)
