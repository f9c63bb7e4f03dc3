"""The catalog as it will be once next queries have taken over, over which the next query of another view is planned."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.catalog.successions import Succession, find_succeeded_view, list_successions
from engine.runtime.statements.alter.rename import map_names, rename_tables
from engine.runtime.statements.create.view_change import list_column_reasons
from engine.sql.catalog import Catalog, Relation
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan

Names = dict[str, str]


def list_waiting(version: Version) -> dict[str, Succession]:
    """Return the views that have a next query of theirs which has not begun to take over; one computed anew has none."""
    return {view: one for view, one in list_successions(version).items() if not one.copied and not one.resync}


def look_ahead(version: Version, stored: StoredCatalog, view: str) -> tuple[StoredCatalog, Names]:
    """Return the catalog in which successors have taken the places of all views but one, and their names by view."""
    relations, plans, successors = dict(stored.catalog.relations), dict(stored.plans), Names()
    for other, succession in list_waiting(version).items():
        if other == view:
            continue
        next_one = stored.catalog.get(succession.successor)
        names = map_names(stored, next_one, other)
        own = map_names(stored, stored.catalog.get(other), other)
        for name in {*own, *own.values(), *names}:
            relations.pop(name, None)
            plans.pop(name, None)
        for present, later in names.items():
            if present in stored.catalog.relations:
                relations[later] = rename_relation(stored.catalog.get(present), names)
            if present in stored.plans:
                plans[later] = rename_tables(stored.plans[present], names)
        successors[other] = succession.successor
    shown = {successor: view for view, successor in successors.items()}
    ahead = {name: rename_relation(one, shown) for name, one in relations.items()}
    return StoredCatalog(Catalog(ahead), {n: rename_tables(p, shown) for n, p in plans.items()}), successors


def read_successors(
    relations: Mapping[str, Relation], plans: Mapping[str, IncrementalPlan], successors: Mapping[str, str]
) -> tuple[dict[str, Relation], dict[str, IncrementalPlan]]:
    """Return relations and plans that read successors, and the indexes of these, by the names that they have now."""
    names = dict(successors)
    for plan in plans.values():
        for table, by in plan.indexes:
            if table in successors:
                names[index_name(table, by)] = index_name(successors[table], by)
    return (
        {names.get(name, name): rename_relation(one, names) for name, one in relations.items()},
        {names.get(name, name): rename_tables(one, names) for name, one in plans.items()},
    )


def rename_relation(relation: Relation, names: Mapping[str, str]) -> Relation:
    """Return a relation with other names of itself, of what it reads and of its checks' views; texts stay as they are."""
    return msgspec.structs.replace(
        relation,
        name=names.get(relation.name, relation.name),
        depends_on=tuple(names.get(one, one) for one in relation.depends_on),
        checks=tuple(one.rename_views(names) for one in relation.checks),
    )


def list_views_above(stored: StoredCatalog, successor: str) -> list[str]:
    """Return the views whose next queries are computed from a successor, nearer ones first."""
    found = (find_succeeded_view(name) for name in stored.catalog.list_dependents(successor))
    return list(
        dict.fromkeys(view for view in found if view is not None and view in stored.catalog.relations)
    )


def find_column_obstacles(version: Version, without: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return by view why its next query cannot take over: what stays reads columns that go. `without` are given up before."""
    stored, found = load_catalog(version), {}
    waiting = {view: one for view, one in list_waiting(version).items() if view not in without}
    for view, one in waiting.items():
        before, after = stored.catalog.get(view), stored.catalog.get(one.successor)
        if reasons := tuple(list_column_reasons(stored, before, after, waiting.keys())):
            found[view] = reasons
    return found


def list_given_up(version: Version, view: str) -> list[str]:
    """Return a view and those whose next queries cannot be without its own: they read it, or let go of what it reads no more."""
    stored, waiting, found = load_catalog(version), list_waiting(version), [view]
    while True:
        above = [
            one
            for name in found
            for one in list_views_above(stored, list_successions(version)[name].successor)
        ]
        above += find_column_obstacles(version, found)
        more = [name for name in dict.fromkeys(above) if name in waiting and name not in found]
        if not more:
            return found
        found += more
