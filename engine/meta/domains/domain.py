"""Domains: which views and indexes commit together, in which order, and what they read from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import SqlError
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.mutation import PARALLELISM, RATE_LIMIT, Control, read_number_option
from engine.sql.incremental.fragments import Fragment

OPTION, BACKGROUND = "domain", "background"


@dataclass(frozen=True)
class Domain:
    """The jobs whose tables become visible in one manifest: by default one view or one shared index.

    `fragments` are in the order in which they run, inputs first, and `members` in that of their first ones; `inputs` are the
    tables outside that they read, `upstreams` the domains that keep those.
    """

    name: str
    members: tuple[str, ...]
    fragments: tuple[tuple[str, Fragment], ...]
    dependencies: Mapping[str, tuple[str, ...]]
    inputs: tuple[str, ...]
    upstreams: tuple[str, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the domain's checkpoints commit."""
        return tuple(fragment.table for _, fragment in self.fragments)

    @property
    def writer(self) -> str:
        """The name under which the domain claims its writer generation."""
        return self.name if self.members == (self.name,) else f"domain/{self.name}"


def list_domains(stored: StoredCatalog) -> dict[str, Domain]:
    """Return every domain by name, each after the domains that it reads; raises SqlError if two read each other."""
    of = {owner: find_domain_name(stored, owner) for owner in stored.plans}
    tables: dict[str, list[str]] = {}
    for table in stored.order:
        if table in stored.owners:
            tables.setdefault(of[stored.owners[table]], []).append(table)
    found = {name: _build_domain(name, inside, stored, of) for name, inside in tables.items()}
    return {name: found[name] for name in _sort_upstreams_first(found)}


def find_domain_name(stored: StoredCatalog, owner: str) -> str:
    """Return the name of the domain of a view or index: the one that its options name, else its own."""
    relation = stored.catalog.relations.get(owner)
    return (relation.options.get(OPTION) if relation is not None else None) or owner


_HOLDS = "rows for "


def format_holder(domain: str) -> str:
    """Return the name of the pins that hold rows of sources for a domain."""
    return _HOLDS + domain


def parse_holder(pin: str) -> str | None:
    """Return the domain that a pin holds rows of sources for, None for any other pin."""
    return pin.removeprefix(_HOLDS) if pin.startswith(_HOLDS) else None


def find_rate_limit(domain: Domain, stored: StoredCatalog, control: Control) -> int | None:
    """Return the least backfill rate limit of a domain's members in rows a second (0 pauses), or None."""
    limits = (_find_effective_option(m, RATE_LIMIT, stored, control.rate_limits) for m in domain.members)
    return min((limit for limit in limits if limit is not None), default=None)


def find_parallelism(owner: str, stored: StoredCatalog, control: Control) -> int | None:
    """Return the number of tasks that a view's larger epochs are cut into, or None where it follows the cores."""
    return _find_effective_option(owner, PARALLELISM, stored, control.parallelism)


def _find_effective_option(
    owner: str, name: str, stored: StoredCatalog, replaced: Mapping[str, int | None]
) -> int | None:
    """Return what a mutation has put in force for a view, else what its option says."""
    if owner in replaced:
        return replaced[owner]
    relation = stored.catalog.relations.get(owner)
    return read_number_option(relation, name) if relation is not None else None


def is_in_background(domain: Domain, stored: StoredCatalog) -> bool:
    """Tell whether a member asks to be created in the background: a run gives it some time and does not wait for its end."""
    relations = stored.catalog.relations
    return any(
        relations[m].options.get(BACKGROUND, "").lower() == "true" for m in domain.members if m in relations
    )


def _build_domain(name: str, tables: Sequence[str], stored: StoredCatalog, of: Mapping[str, str]) -> Domain:
    fragments = tuple((stored.owners[table], stored.fragments[table]) for table in tables)
    owners = tuple(dict.fromkeys(owner for owner, _ in fragments))
    inside = set(tables)
    reads = {f.table: stored.plans[owner].list_dependencies(f) for owner, f in fragments}
    inputs = tuple(dict.fromkeys(t for tables in reads.values() for t in tables if t not in inside))
    upstreams = dict.fromkeys(of[stored.owners[table]] for table in inputs if table in stored.owners)
    return Domain(name, owners, fragments, reads, inputs, tuple(upstreams))


def _sort_upstreams_first(found: Mapping[str, Domain]) -> Sequence[str]:
    done: dict[str, None] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in path:
            ring = [*path[path.index(name) :], name]
            raise SqlError(
                f"domains would wait for each other: {' reads '.join(ring)}",
                hint="put the views between two members of a domain into that domain as well",
            )
        path.append(name)
        for upstream in found[name].upstreams:
            visit(upstream)
        path.pop()
        done[name] = None

    for name in found:
        visit(name)
    return tuple(done)
