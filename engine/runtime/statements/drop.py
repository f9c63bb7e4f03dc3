"""DROP: a relation leaves the catalog, and with it the state that nothing else needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import Precondition, require_all
from engine.meta.catalog.replaced_queries import clear_replaced
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.catalog.successions import (
    end_successions,
    explain_release,
    list_successions,
)
from engine.meta.domains.creation import drop_creations, require_same_builds
from engine.meta.domains.domain import find_domain_name, format_holder
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import CONTROLS, drop_members
from engine.meta.domains.quarantine import forget_quarantine
from engine.meta.epochs.time_boundary import forget_boundaries
from engine.meta.status.check_results import forget_check_results
from engine.meta.status.sampled_rows import forget_samples
from engine.meta.status.sinks import KIND as SINK
from engine.meta.status.sinks import (
    Holds,
    encode_sink_state,
    find_sink_source,
    is_delta_copy,
    list_sinks,
    release_holds,
)
from engine.meta.status.subscriptions import KIND as SUBSCRIPTION
from engine.meta.status.subscriptions import SUBSCRIPTIONS, release_subscription
from engine.runtime.relations import list_readers, locate_name, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.sql.catalog import COMPANIONS, Relation, sequences_name, watermark_name
from engine.sql.incremental.access_paths import index_name
from engine.sql.statements.ddl.sink_statements import sink_view_name
from engine.sql.statements.options.delta_options import COPY_OPTIONS
from engine.sql.statements.options.option_text import strip_options
from engine.sql.statements.statement_types import DeleteFrom, Drop, Several, Statement


def execute_drop(statement: Drop, context: StatementContext) -> None:
    """Run DROP."""
    drop_relation(context.store, statement)


def drop_relation(store: Hummock, statement: Drop) -> bool:
    """Drop a relation, with CASCADE also what reads it; state tables and indexes that nobody uses go with it."""
    return drop_relations(store, (statement,))


def drop_relations(store: Hummock, statements: Sequence[Drop]) -> bool:
    """Drop several relations in one commit, as one statement names them: what reads them may be among them.

    Returns whether one of them was there.
    """
    version = store.refresh()
    stored = load_catalog(version)
    dropped = {statement.name for statement in statements}
    found = [_resolve_dropped(stored, statement, dropped) for statement in statements]
    named = {relation.name for relation in found if relation is not None}
    if not named:
        return False
    with_readers = named | {reader for name in named for reader in list_readers(stored, name)}
    store.commit(build_removal(version, stored, with_readers))
    return True


def _resolve_dropped(stored: StoredCatalog, statement: Drop, dropped: set[str]) -> Relation | None:
    """Return the relation to drop, None if it may be missing and is; raises SqlError if it cannot be dropped so.

    Readers that are dropped `beside` it do not stand in the way.
    """
    if statement.name not in stored.catalog.relations and statement.if_exists:
        return None
    line, column = locate_name(statement.name, statement.sql)
    if statement.name not in stored.catalog.relations:
        hint = stored.catalog.suggest_names(statement.name)
        message = f"there is no {statement.kind} {statement.name}"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    relation = stored.catalog.get(statement.name)
    if statement.name.startswith("_"):
        hint = explain_release([statement.name], "it goes with what it belongs to")
        message = f"{statement.name} is the system's own, and nobody drops it by itself"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    if relation.kind != statement.kind:
        message = f"{relation.name} is a {relation.kind}, not a {statement.kind}"
        hint = f"write DROP {relation.kind.upper()} {relation.name}"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    dependents = [name for name in list_readers(stored, relation.name) if name not in dropped]
    if dependents and not statement.cascade:
        listed = ", ".join(f"{stored.catalog.get(name).kind} {name}" for name in dependents)
        message = f"{relation.name} is read by {', '.join(dependents)}: {listed}"
        cascade = f"write DROP {relation.kind.upper()} {relation.name} CASCADE"
        hint = f"{explain_release(dependents, 'drop those first')}, or {cascade}"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    return relation


def drop_unused(store: Hummock) -> None:
    """Drop the system's indexes that no view uses."""
    version = store.refresh()
    stored = load_catalog(version)
    unused = _find_unused_indexes(stored, set())
    if unused:
        store.commit(build_removal(version, stored, unused))


def drop_own_view(store: Hummock, sink: str) -> None:
    """Drop the view that a sink AS SELECT was to have for itself, unless the sink was made."""
    version = store.refresh()
    stored = load_catalog(version)
    if sink_view_name(sink) in stored.catalog.relations and sink not in stored.catalog.relations:
        store.commit(build_removal(version, stored, {sink_view_name(sink)}))


def build_removal(version: Version, stored: StoredCatalog, named: set[str]) -> Commit:
    """Return the commit that takes away relations, and what only these use."""
    pending = list_successions(version)
    successors = {one.successor for view, one in pending.items() if view in named}
    gone = _collect_dropped(stored, named | successors)
    planned = gone & set(stored.plans)
    fragments = {f.table for name in planned for f in stored.plans[name].fragments}
    acks, pins = _release_holds(version, stored, gone, fragments)
    touched = {find_domain_name(stored, name) for name in planned}  # what fails in them fails again
    changed, unfinished = drop_creations(version, gone | fragments)
    changed |= (
        forget_boundaries(version, fragments)
        | forget_check_results(version, gone)
        | forget_samples(version, gone)
    )
    changed |= clear_replaced(version, gone) | end_successions(version, gone)
    dropped = {*gone, *fragments, *unfinished} & set(version.tables)
    for name in gone:
        changed |= forget_quarantine(version, name)
        if stored.catalog.get(name).kind == SINK:
            changed |= encode_sink_state(name, None)
        if stored.catalog.get(name).kind == SUBSCRIPTION:
            changed |= SUBSCRIPTIONS.remove(name)
    left = {find_sink_source(sink) for sink in map(stored.catalog.get, gone) if is_delta_copy(sink)} - gone
    left |= {pending[view].successor for view in left & pending.keys()}
    for name in touched:
        stay = sorted(
            (o for o in stored.plans if o not in gone and find_domain_name(stored, o) == name),
            key=lambda owner: (not _is_controlled(stored, owner), owner),
        )
        changed |= forget_failure(version, name) | drop_members(version, name, gone, stay)
    return Commit(
        drop=tuple(sorted(dropped)),
        acks={upstream: consumers for upstream, consumers in acks.items() if upstream not in dropped},
        pins={upstream: consumers for upstream, consumers in pins.items() if upstream not in dropped},
        catalog=encode_entries(dict.fromkeys(gone) | _remove_copies(stored, left), dict.fromkeys(planned))
        | changed,
        precondition=require_all(_require_unchanged(version), require_same_builds(version, touched)),
    )


def _collect_dropped(stored: StoredCatalog, named: set[str]) -> set[str]:
    """Return all that goes with relations: indexes, checks, own sinks and views, the system's indexes that nobody else uses."""
    beside = (of(name) for name in named for of in (watermark_name, sequences_name))
    gone = named | {name for name in beside if name in stored.catalog.relations}
    gone |= {sink_view_name(name) for name in named if _has_own_view(stored.catalog.get(name))}
    gone |= {
        n
        for one in gone
        for n in stored.catalog.list_dependents(one)
        if stored.catalog.get(n).kind in COMPANIONS
    }
    gone |= {
        sink.name for sink in list_sinks(stored) if is_delta_copy(sink) and find_sink_source(sink) in gone
    }
    return gone | _find_unused_indexes(stored, gone)


def _find_unused_indexes(stored: StoredCatalog, gone: set[str]) -> set[str]:
    """Return the system's indexes that nothing uses but what goes."""
    remaining = [plan for name, plan in stored.plans.items() if name not in gone]
    used = {index_name(table, by) for plan in remaining for table, by in plan.indexes}
    for name, other in stored.catalog.relations.items():
        if other.kind == "index" and other.sql and name not in gone:
            used.update(other.depends_on)
    own = {n for n, r in stored.catalog.relations.items() if r.kind == "index" and not r.sql}
    return own - used


def _is_controlled(stored: StoredCatalog, owner: str) -> bool:
    """Tell whether users can pause and resume it: views, not the indexes that they share."""
    relation = stored.catalog.relations.get(owner)
    return relation is not None and relation.kind == "materialized view"


def _release_holds(
    version: Version, stored: StoredCatalog, gone: set[str], fragments: set[str]
) -> tuple[Holds, Holds]:
    """Return the acknowledgements and pins that are taken from the tables that stay.

    What goes may also hold the log of a view that takes over, whose successor it reads until then.
    """
    inputs = {upstream for table in fragments for upstream in stored.inputs[table]} - gone - fragments
    holders = {name: fragments & table.acks.keys() for name, table in version.tables.items()}
    acks: dict[str, dict[str, int | None]] = {
        name: dict.fromkeys(found)
        for name, found in holders.items()
        if found and name not in gone | fragments
    }
    for upstream in inputs:
        read = (table for table in fragments if upstream in stored.inputs[table])
        acks.setdefault(upstream, {}).update(dict.fromkeys(read))
    pins = _find_source_pins(stored, gone, inputs)
    releases = {SINK: release_holds, SUBSCRIPTION: release_subscription}
    for reader in (stored.catalog.get(name) for name in gone):
        if reader.kind in releases:
            for merged, holds in zip((acks, pins), releases[reader.kind](reader), strict=True):
                for table, consumers in holds.items():
                    if table not in gone | fragments:
                        merged.setdefault(table, {}).update(consumers)
    return acks, pins


def _find_source_pins(
    stored: StoredCatalog, gone: set[str], inputs: set[str]
) -> dict[str, dict[str, int | None]]:
    """Return the pins that held rows of sources for domains of which nothing stays."""
    domains = {find_domain_name(stored, name) for name in gone & set(stored.plans)}
    domains -= {find_domain_name(stored, name) for name in set(stored.plans) - gone}
    read = [
        name
        for name in inputs
        if name in stored.catalog.relations and stored.catalog.get(name).is_pass_through
    ]
    return {name: {format_holder(domain): None for domain in domains} for name in read if domains}


def _remove_copies(stored: StoredCatalog, views: Iterable[str]) -> dict[str, Relation | None]:
    """Return views whose Delta tables are not kept any more, as their statements are without them."""
    found: dict[str, Relation | None] = {}
    for name in views:
        view = stored.catalog.get(name)
        text = strip_options(view.sql, view.dialect, COPY_OPTIONS)
        found[name] = msgspec.structs.replace(view, sql=text)
    return found


def _has_own_view(relation: Relation) -> bool:
    """Tell whether a relation is a sink AS SELECT."""
    return relation.kind == SINK and relation.options.get("query") == "true"


def resolve_parts(stored: StoredCatalog, statement: Several) -> tuple[Statement, ...]:
    """Return the parts of a statement whose relations are all there; raises SqlError before any is touched."""
    for part in statement.parts:
        if isinstance(part, DeleteFrom):
            resolve_relation(stored, "table", part.table, part.sql)
        elif not part.if_exists:
            resolve_relation(stored, part.kind, part.name, part.sql)
    return statement.parts


def _require_unchanged(base: Version) -> Precondition:
    """Return the precondition that nobody changed the catalog, or asked a domain for a mutation, since `seen`."""
    message = "a domain was asked for a mutation at the same time; try again"
    return require_all(require_same_catalog(base), CONTROLS.require_all_same(base, message))
