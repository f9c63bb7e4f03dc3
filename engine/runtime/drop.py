"""DROP: a relation leaves the catalog, and with it the state that nothing else needs."""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog_store import StoredCatalog, definitions, entries, load
from engine.meta.creation import without
from engine.meta.domain import domain_of
from engine.meta.mutation import PREFIX as CONTROL
from engine.meta.mutation import stopped
from engine.meta.partitions import forgotten
from engine.meta.recovery import recovered
from engine.meta.sinks import KIND as SINK
from engine.meta.sinks import Holds, released, state_entry
from engine.sql.access import index_name
from engine.sql.catalog import Relation
from engine.sql.refusals import line_and_column, words
from engine.sql.statement_types import Drop


def drop(store: Hummock, statement: Drop) -> bool:
    """Drop a relation, with CASCADE also what reads it; state tables and indexes that nobody uses go with it."""
    version = store.refresh()
    stored = load(version)
    relation = _meant(stored, statement)
    if relation is None:
        return False
    store.commit(_removal(version, stored, relation))
    return True


def _meant(stored: StoredCatalog, statement: Drop) -> Relation | None:
    """Return the relation to drop, None if it may be missing and is; raises SqlError if it cannot be dropped so."""
    if statement.name not in stored.catalog.relations and statement.if_exists:
        return None
    line, column = place_of(statement.name, statement.sql)
    if statement.name not in stored.catalog.relations:
        hint = stored.catalog.near(statement.name)
        message = f"there is no {statement.kind} {statement.name}"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    relation = stored.catalog.get(statement.name)
    if relation.kind != statement.kind or statement.name.startswith("_"):
        message = f"{relation.name} is a {relation.kind}, not a {statement.kind}"
        hint = f"write DROP {relation.kind.upper()} {relation.name}"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    dependents = readers(stored, relation.name)
    if dependents and not statement.cascade:
        shown = ", ".join(f"{stored.catalog.get(name).kind} {name}" for name in dependents)
        message = f"{relation.name} is read by {', '.join(dependents)}: {shown}"
        hint = f"drop those first, or write DROP {relation.kind.upper()} {relation.name} CASCADE"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    return relation


def _removal(version: Version, stored: StoredCatalog, relation: Relation) -> Commit:
    """Return the commit that takes away a relation, what reads it, and what only these use."""
    gone = _gone(stored, relation)
    planned = gone & set(stored.plans)
    fragments = {f.table for name in planned for f in stored.plans[name].fragments}
    acks, pins = _let_go(stored, gone, fragments)
    touched = {domain_of(stored, name) for name in planned}  # what fails in them fails again
    changed, unfinished = without(version, gone | fragments)
    dropped = {*gone, *fragments, *unfinished} & set(version.tables)
    for name in gone:
        changed |= forgotten(version, name)
        if stored.catalog.get(name).kind == SINK:
            changed |= state_entry(name, None)
    for name in touched:
        stay = sorted(o for o in stored.plans if o not in gone and domain_of(stored, o) == name)
        changed |= recovered(version, name) | stopped(version, name, gone, stay)
    return Commit(
        drop=tuple(sorted(dropped)),
        acks={upstream: consumers for upstream, consumers in acks.items() if upstream not in dropped},
        pins={upstream: consumers for upstream, consumers in pins.items() if upstream not in dropped},
        catalog=entries(dict.fromkeys(gone), dict.fromkeys(planned)) | changed,
        precondition=_unchanged(version),
    )


def _gone(stored: StoredCatalog, relation: Relation) -> set[str]:
    """Return all that goes with a relation: its readers, its indexes, and the system's own indexes that nobody else uses."""
    indexed = {n for n in stored.catalog.dependents(relation.name) if stored.catalog.get(n).kind == "index"}
    gone = {relation.name, *readers(stored, relation.name), *indexed}
    kept = [plan for name, plan in stored.plans.items() if name not in gone]
    used = {index_name(table, by) for plan in kept for table, by in plan.indexes}
    for name, other in stored.catalog.relations.items():
        if other.kind == "index" and other.sql and name not in gone:
            used.update(other.depends_on)
    own = {n for n, r in stored.catalog.relations.items() if r.kind == "index" and not r.sql}
    return gone | (own - used)


def _let_go(stored: StoredCatalog, gone: set[str], fragments: set[str]) -> tuple[Holds, Holds]:
    """Return the acknowledgements and pins that are taken from the tables that stay."""
    inputs = {upstream for table in fragments for upstream in stored.inputs[table]} - gone - fragments
    acks: dict[str, dict[str, int | None]] = {
        upstream: {table: None for table in fragments if upstream in stored.inputs[table]}
        for upstream in inputs
    }
    pins: dict[str, dict[str, int | None]] = {}
    for sink in (stored.catalog.get(name) for name in gone):
        if sink.kind == SINK:
            for held, holds in zip((acks, pins), released(sink), strict=True):
                for table, consumers in holds.items():
                    if table not in gone | fragments:
                        held.setdefault(table, {}).update(consumers)
    return acks, pins


def readers(stored: StoredCatalog, name: str) -> tuple[str, ...]:
    """Return everything that users made and that is computed from `name`, nearer ones first; indexes are not."""
    found = stored.catalog.dependents(name)
    return tuple(other for other in found if stored.catalog.get(other).kind != "index")


def known(stored: StoredCatalog, kind: str, name: str, sql: str, *, system: bool = False) -> Relation:
    """Return the relation that a statement names; raises SqlError if there is none, or one of another kind.

    With `system` it may be one of the system's own.
    """
    relation = stored.catalog.relations.get(name)
    if relation is None or (name.startswith("_") and not system):
        line, column = place_of(name, sql)
        message = f"there is no {kind or 'table or view'} {name}"
        raise SqlError(message, sql=sql, line=line, column=column, hint=stored.catalog.near(name))
    if kind and relation.kind != kind:
        hint = f"write {relation.kind.upper()} {name}"
        line, column = place_of(name, sql)
        message = f"{name} is a {relation.kind}, not a {kind}"
        raise SqlError(message, sql=sql, line=line, column=column, hint=hint)
    return relation


def place_of(name: str, sql: str) -> tuple[int, int]:
    """Return line and column of the first place in a statement where a name stands."""
    found = [match.start() for match in re.finditer(rf"\b{re.escape(name)}\b", words(sql), re.IGNORECASE)]
    return line_and_column(sql, found[0]) if found else (1, 1)


def _unchanged(seen: Version) -> Callable[[Version], None]:
    """Return the precondition that nobody changed the catalog, or asked a domain for a mutation, since `seen`."""
    catalog = catalog_unchanged(seen)
    controls = {key: text for key, text in seen.catalog.items() if key.startswith(CONTROL)}

    def check(version: Version) -> None:
        catalog(version)
        if {key: text for key, text in version.catalog.items() if key.startswith(CONTROL)} != controls:
            raise Conflict("a domain was asked for a mutation at the same time; try again")

    return check


def catalog_unchanged(seen: Version) -> Callable[[Version], None]:
    """Return the precondition that nobody changed the catalog since `seen`."""

    def check(version: Version) -> None:
        if definitions(version) != definitions(seen):
            raise Conflict("the catalog was changed by another process at the same time; try again")

    return check
