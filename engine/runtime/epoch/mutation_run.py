"""Mutations on their way: asked for in one commit, taken by who runs the domain in order, each by a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.errors import Conflict, GroundLost, SqlError
from engine.hummock import Commit, Hummock, Table, Version
from engine.hummock.epoch import Clock
from engine.hummock.preconditions import unaltered
from engine.meta.barrier import Mutation
from engine.meta.catalog_store import StoredCatalog, catalog_unchanged, load, planned
from engine.meta.domain import Domain, domain_of
from engine.meta.mutation import Control, asking, control_of, entry, same_queue, taking
from engine.meta.placement import misplaced

ASK_ATTEMPTS = 50


def ask(store: Hummock, view: str, mutation: Mutation, value: int | None, now: float) -> None:
    """Queue a mutation for the domain of a view; durable when it returns, in force from the domain's next barrier on.

    Raises SqlError if there is no such view.
    """
    for attempt in range(ASK_ATTEMPTS):
        version = store.refresh()
        stored = load(version)
        relation = stored.catalog.relations.get(view)
        if relation is None:
            raise SqlError(f"there is no materialized view {view}", hint=stored.catalog.near(view))
        if relation.kind != "materialized view":
            hint = "SHOW MATERIALIZED VIEWS lists those that can be"
            raise SqlError(f"a {relation.kind} cannot be controlled: {view}", hint=hint)
        domain = domain_of(stored, view)
        control = asking(control_of(version, domain), mutation, relation, value, now)
        try:
            store.commit(Commit(catalog=entry(domain, control), precondition=_asked_once(version, domain)))
            return
        except Conflict:
            if attempt == ASK_ATTEMPTS - 1:
                raise


def _asked_once(seen: Version, domain: str) -> Callable[[Version], None]:
    queue, catalog = same_queue(seen, domain), catalog_unchanged(seen)

    def check(version: Version) -> None:
        queue(version)
        catalog(version)

    return check


def take_mutations(
    store: Hummock, domain: Domain, stored: StoredCatalog, generation: int, clock: Clock
) -> Control:
    """Put in force what is queued for a domain, oldest first, and return what is in force then.

    Each mutation leaves the queue in the commit that puts it in force, so it is taken once, whatever crashes. The checkpoint that
    carries it brings no rows: it closes the epoch that the domain has committed. Raises Fenced if another process has taken over,
    Conflict if views of it are not planned as in `stored` any more, and GroundLost.
    """
    while True:
        version = store.version
        planned(stored, domain.members)(version)
        control = control_of(version, domain.name)
        if not control.asked:
            return control
        held = [version.tables[table].committed_epoch for table in domain.tables if table in version.tables]
        after = taking(control, max(held, default=0), clock())
        altered = misplaced(version, load(version), domain, after)
        try:
            store.commit(
                Commit(
                    catalog=entry(domain.name, after),
                    alter=altered,
                    writer=domain.writer,
                    generation=generation,
                    precondition=_unchanged(version, domain.name, altered),
                )
            )
        except GroundLost:  # until the run begins anew each commit meets it
            raise
        except Conflict:
            store.refresh()


def _unchanged(seen: Version, domain: str, altered: Mapping[str, Table]) -> Callable[[Version], None]:
    queue, tables = same_queue(seen, domain), unaltered(*(seen.tables[name] for name in altered))

    def check(version: Version) -> None:
        queue(version)
        tables(version)

    return check
