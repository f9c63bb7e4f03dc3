"""Successors that take the place of views: a view becomes a copy of its successor, then it goes on with the successor's plan.

Each step is one commit, and what stands between them is an ordinary view over another one: a process may end anywhere. The view's
content changes in between, in one epoch that commits the difference.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Mapping

import msgspec
import pyarrow as pa

from engine.errors import GroundLost
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.alter import apply_alter
from engine.hummock.manifests.commit_merge import merge_commits
from engine.hummock.manifests.preconditions import Precondition, require, require_all
from engine.hummock.staged_store import StagedStore
from engine.hummock.transact import commit_once
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.catalog.successions import (
    SUCCESSIONS,
    Succession,
    find_succeeded_view,
    group_successions,
    list_successions,
)
from engine.meta.domains.creation import BACKFILLS, find_computed_table, list_creations
from engine.meta.domains.domain import OPTION as DOMAIN
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.failures import forget_failure, is_failing
from engine.meta.domains.mutation import CONTROLS, read_control
from engine.meta.domains.placement import place_table
from engine.meta.epochs.barrier import close_barrier
from engine.meta.epochs.content import Content
from engine.meta.epochs.time_boundary import rename_boundaries
from engine.meta.status.check_results import rename_check_results
from engine.runtime.statements.alter.index_columns import alter_indexes, list_indexes
from engine.runtime.statements.alter.rename import map_names, rename_tables
from engine.runtime.statements.create.assumption_checks import check_taken_over
from engine.runtime.statements.create.replace_view import begin_query, build_plan_change
from engine.runtime.statements.drop import build_removal, drop_unused
from engine.runtime.statements.succession.gate import ask_gate, record_held
from engine.runtime.statements.succession.look_ahead import rename_relation
from engine.runtime.statements.succession.resync import derive_fingerprint
from engine.sql.catalog import Catalog, Relation, carry_comments
from engine.sql.checks import list_companions
from engine.sql.expression.nodes import NULL, Cast, Column
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.rules import Linear
from engine.sql.plan import Project, Scan
from engine.sql.typing.types import to_arrow
from engine.verification import should_verify

_LOG = logging.getLogger(__name__)


def let_successors_take_over(store: Hummock) -> tuple[str, ...]:
    """Let successors that are whole take the place of their views, as far as that goes now.

    Returns the views whose next epoch commits the difference.
    """
    version = store.version
    if not list_successions(version):
        return ()

    def attempt() -> tuple[str, ...]:
        _finish(store)
        return _copy(store)

    # somebody may have changed the catalog meanwhile, or brought one of them on: the next run does it then
    return commit_once(store, attempt, GroundLost) or ()


def _copy(store: Hummock) -> tuple[str, ...]:
    """Plan the views as copies whose successors are whole, those together that read each other."""
    version = store.refresh()
    stored = load_catalog(version)
    waiting = {view: one for view, one in list_successions(version).items() if not one.copied}
    done: list[str] = []
    for group in group_successions(stored, waiting):
        version = store.refresh()  # those before have landed
        stored, now = load_catalog(version), list_successions(version)
        if any(now.get(view) != waiting[view] for view in group):
            continue  # another process has decided on them
        if any(waiting[view].held and not waiting[view].unasked for view in group):
            continue
        if all(_is_whole(version, stored, view, waiting[view]) for view in group):
            answers = {
                view: ask_gate(store, version, stored, view, waiting[view])
                for view in group
                if not waiting[view].approved
            }
            if not all(answer.lets_pass for answer in answers.values()):
                record_held(store, version, answers)
                continue
            for view in group:
                _hide_steps(store, version, stored, waiting[view])
            staged = StagedStore(store)
            _require_same_changes(version, group)(staged.version)
            for view in group:
                _copy_view(staged, view, waiting[view])
            staged.land()
            done += group
    return tuple(done)


def _require_same_changes(seen: Version, views: Collection[str]) -> Precondition:
    """Return the precondition that nobody has decided on the next queries of views, or changed a definition."""
    message = "the next query of {} was approved, discarded or replaced at the same time"
    same = (SUCCESSIONS.require_same(seen, view, message.format(view)) for view in views)
    return require_all(require_same_catalog(seen), *same)


def _is_whole(version: Version, stored: StoredCatalog, view: str, succession: Succession) -> bool:
    """Tell whether a successor has content at an epoch that is not before the view's; one that fails waits until it does not."""
    own = version.tables.get(view)
    if is_failing(version, find_domain_name(stored, succession.successor)):
        return False  # its next epoch would stop the view
    owners = (succession.successor, *list_companions(stored.catalog.get(succession.successor).checks))
    tables = [fragment.table for owner in owners for fragment in stored.plans[owner].fragments]
    if own is None or any(find_computed_table(version, table) is None for table in tables):
        return False
    newest = Content(version, stored.inputs).find_newest(succession.successor, version.epoch)
    return newest is not None and newest >= own.committed_epoch


def _hide_steps(store: Hummock, version: Version, stored: StoredCatalog, succession: Succession) -> None:
    """Let nobody read the steps by which a successor was built, once nothing says any more that they are such."""
    creation = list_creations(version).get(find_domain_name(stored, succession.successor))
    if creation is not None:
        tables = [
            t
            for t in creation.tables
            if t in version.tables and version.tables[t].safe_epoch < creation.epoch
        ]
        if tables:
            same = require_same_catalog(version)
            store.commit(Commit(truncate=dict.fromkeys(tables, creation.epoch), precondition=same))


def _copy_view(store: Hummock, view: str, succession: Succession) -> None:
    """Plan a view as a copy of its successor's rows, hidden columns and all; its states and checks go."""
    version = store.version
    stored = load_catalog(version)
    before, last = stored.catalog.get(view), stored.plans[succession.successor].fragments[-1]
    checks = set(list_companions(before.checks))
    if checks:
        store.commit(build_removal(version, stored, checks))
        version = store.version
        stored = load_catalog(version)
    columns = dict(last.columns)
    scan = Scan(last.table, tuple((name, name) for name in columns), last.key, last.distribution_key)
    added = [name for name in columns if name not in version.tables[view].table.schema.names]
    fields = [pa.field(name, to_arrow(columns[name])) for name in added]
    table = apply_alter(version.tables[view].table, fields)
    gone = {name: kind for name, kind in stored.plans[view].fragments[-1].columns if name not in columns}
    nulls = tuple((name, Cast(NULL, kind)) for name, kind in gone.items())
    rows = Project(scan, (*((name, Column(name)) for name in columns), *nulls)) if gone else scan
    why = f"{view} takes over the rows of its next query"
    stored_columns = (*last.columns, *gone.items())
    fragment = Fragment(view, Linear(), rows, last.key, last.distribution_key, why, columns=stored_columns)
    relation = begin_query(version, before)
    relation = msgspec.structs.replace(relation, checks=(), depends_on=(succession.successor,), through=())
    entries = encode_entries({view: relation}, {view: IncrementalPlan(view, (fragment,))})
    entries |= SUCCESSIONS.record(
        view, msgspec.structs.replace(succession, copied=True, held="", unasked=False)
    )
    change = build_plan_change(version, stored, view, entries)
    own = version.tables[view].committed_epoch
    held = dict.fromkeys(list_next_readers(stored, view, succession.successor), own)
    change = dataclasses.replace(change, acks={**change.acks, view: {**change.acks.get(view, {}), **held}})
    if not added:
        store.commit(change)
        return
    next_columns = stored.catalog.get(succession.successor).columns
    both = (*before.columns, *(one for one in next_columns if one.storage_name in added))
    indexes = alter_indexes(version, stored, msgspec.structs.replace(before, columns=both), add=fields)
    store.commit(merge_commits(dataclasses.replace(change, alter={view: table}), indexes))


def list_next_readers(stored: StoredCatalog, view: str, successor: str) -> tuple[str, ...]:
    """Return the tables that are computed from a view's successor, or from an index of it, and will be from the view."""
    read = {successor, *list_indexes(stored, successor)}
    return tuple(
        table for table, inputs in stored.inputs.items() if table != view and not read.isdisjoint(inputs)
    )


def _finish(store: Hummock) -> None:
    """Let the views that have the rows of their successors go on with the plans of these, inputs first."""
    if any(one.copied for one in list_successions(store.refresh()).values()):
        drop_unused(
            store
        )  # no index stays by a column that goes: what has looked rows up by it is planned otherwise
    version = store.refresh()
    finished = False
    pending = list_successions(version)
    order = load_catalog(version).catalog.sort_by_dependency()
    for view in sorted(pending, key=lambda one: order.index(pending[one].successor)):
        succession, version = pending[view], store.version
        stored = load_catalog(version)
        if not succession.copied or not _has_its_rows(version, view, succession.successor):
            continue
        if _reads_successors(stored, view, succession.successor):
            continue
        moved = _bring_readers_on(store, version, stored, view, succession)
        if moved is None:
            continue
        version = moved
        if should_verify():
            check_taken_over(store, version, view, succession.successor)
        if succession.resync:
            version = _keep_fingerprint(store, version, view, succession)
        store.commit(_build_takeover(version, stored, view, succession))
        finished = True
    if finished:
        drop_unused(store)


def _find_twins(stored: StoredCatalog, view: str, successor: str) -> dict[str, str]:
    """Return the indexes of a successor by columns by which the view has one, too, and these."""
    names = map_names(stored, stored.catalog.get(successor), view)
    indexes = list_indexes(stored, successor)
    return {one: names[one] for one in indexes if names[one] in stored.catalog.relations}


def _find_reach(version: Version, stored: StoredCatalog, view: str, successor: str) -> int:
    """Return the epoch from which on a view, and its indexes, have the rows of its successor and of the indexes of that."""
    used = (view, successor, *_find_twins(stored, view, successor).values())
    return max(version.tables[name].committed_epoch for name in used)


def _reads_successors(stored: StoredCatalog, view: str, successor: str) -> bool:
    """Tell whether a successor, or a check of it, reads the successor of another view."""
    names = map_names(stored, stored.catalog.get(successor), view)
    read = {one for name in names if name in stored.inputs for one in stored.inputs[name]}
    return any(find_succeeded_view(stored.owners.get(one, one)) for one in read - names.keys())


def _bring_readers_on(
    store: Hummock, version: Version, stored: StoredCatalog, view: str, succession: Succession
) -> Version | None:
    """Label what reads a view's successor so that it can read the view instead, and return the version then.

    From its own label on it reads the log of the view: that holds the difference between the two queries below, and what the
    successor's holds above. It is None where one of them lacks changes yet: the next run does it then.
    """
    twins = list(_find_twins(stored, view, succession.successor).values())
    if any(find_computed_table(version, name) is None for name in twins):
        return None
    reach = _find_reach(version, stored, view, succession.successor)
    readers = [n for n in list_next_readers(stored, view, succession.successor) if n in version.tables]
    content = Content(version, stored.inputs)
    newest = [content.find_newest(name, version.epoch) for name in (*readers, *twins)]
    if any(epoch is None or epoch < reach for epoch in newest):
        return None
    late = [name for name in readers if version.tables[name].committed_epoch < reach]
    if not late:
        return version
    same = require_all(require_same_catalog(version), _require_same_rows(version, view, succession, *twins))
    return store.commit(Commit(epochs=dict.fromkeys(late, reach), precondition=same))


def _keep_fingerprint(store: Hummock, version: Version, view: str, succession: Succession) -> Version:
    """Let a view that was computed anew keep the fingerprint of its rows, and return the version then."""
    found = derive_fingerprint(store, version, view, succession.successor)
    if found is None or found == version.tables[view].fingerprint:
        return version
    same = _require_same_rows(version, view, succession)
    return store.commit(Commit(fingerprints={view: found}, precondition=same))


def _has_its_rows(version: Version, view: str, successor: str) -> bool:
    """Tell whether a view that is a copy of its successor has been computed as one, up to the successor's last change."""
    own, other = version.tables[view], version.tables[successor]
    return view not in list_replaced_tables(version) and other.find_first_change(own.committed_epoch) is None


def _build_takeover(version: Version, stored: StoredCatalog, view: str, succession: Succession) -> Commit:
    """Return the commit by which a view gets the plan, the states and the checks of its successor, which goes."""
    successor = succession.successor
    before, next_one = stored.catalog.get(view), stored.catalog.get(successor)
    names = map_names(stored, next_one, view)
    twins = {old for old, new in names.items() if old != successor and new in stored.catalog.relations}
    plan = rename_tables(stored.plans[successor], names)
    relations: dict[str, Relation | None] = {}
    plans: dict[str, IncrementalPlan | None] = {}
    domain = find_domain_name(StoredCatalog(stored.catalog, {}), view)
    for old, new in names.items():
        if old in stored.catalog.relations:
            relations[old], relation = None, rename_relation(stored.catalog.get(old), names)
            if old not in twins and DOMAIN in relation.options:
                relation = msgspec.structs.replace(relation, options={**relation.options, DOMAIN: domain})
            if old not in twins:
                relations[new] = relation
        if old in stored.plans:
            plans[old] = None
            if old not in twins:
                plans[new] = rename_tables(stored.plans[old], names)
    taken = rename_relation(next_one, names)
    found = msgspec.structs.replace(
        taken,
        options=succession.options,
        comment=before.comment,
        columns=carry_comments(taken, before),
        query_since=version.tables[view].find_commit_above(before.query_since - 1),
    )
    relations[view], plans[view] = found, plan
    for name, relation in stored.catalog.relations.items():  # what has read the successor reads the view
        if name not in relations and not names.keys().isdisjoint(relation.depends_on):
            relations[name] = rename_relation(relation, names)
    for name, other_plan in stored.plans.items():
        if name not in plans and (renamed := rename_tables(other_plan, names)) is not other_plan:
            plans[name] = renamed
    moved = {old: new for old, new in names.items() if old not in {successor, *twins}} | {view: view}
    after, control = StoredCatalog(Catalog({view: found}), {}), read_control(version, domain)
    own = {view, *(fragment.table for fragment in plan.fragments)}
    tables = {old: version.tables[old].table for old in moved if old in version.tables}
    gone = [
        name for name in tables[view].schema.names if name not in version.tables[successor].table.schema.names
    ]
    tables[view] = apply_alter(tables[view], drop=gone)
    altered = {
        old: place_table(
            dataclasses.replace(tables[old], name=new),
            view if new in own else new,
            after,
            control,
        )
        for old, new in moved.items()
        if old in tables
    }
    indexes = alter_indexes(version, stored, found, drop=gone) if gone else Commit()
    own_table, other = version.tables[view], version.tables[successor]
    hidden = {find_domain_name(stored, name) for name in names if name in stored.plans}
    notes = SUCCESSIONS.remove(view) | BACKFILLS.remove_existing(version, hidden)
    notes |= CONTROLS.remove_existing(version, hidden) | close_barrier(version, domain)
    for name in hidden:
        notes |= forget_failure(version, name) | close_barrier(version, name)
    notes |= rename_boundaries(version, names) | rename_check_results(version, {successor: view})
    return Commit(
        drop=(successor, *sorted(twins & version.tables.keys())),
        epochs={view: other.committed_epoch} if own_table.committed_epoch < other.committed_epoch else {},
        alter=altered | dict(indexes.alter),
        acks=_move_acks(version, names, {successor, *twins}, successor, view)
        | _hold_indexes(version, stored, view, succession),
        catalog=encode_entries(relations, plans) | dict(indexes.catalog) | notes,
        precondition=require_all(
            require_same_catalog(version), _require_same_rows(version, view, succession)
        ),
    )


def _move_acks(
    version: Version, names: Mapping[str, str], gone: Collection[str], successor: str, view: str
) -> dict[str, dict[str, int | None]]:
    """Return what the view holds of what its successor has read, by the names that tables have then."""
    return {
        names.get(name, name): {successor: None, view: table.acks[successor]}
        for name, table in version.tables.items()
        if successor in table.acks and name not in gone
    }


def _hold_indexes(
    version: Version, stored: StoredCatalog, view: str, succession: Succession
) -> dict[str, dict[str, int | None]]:
    """Return what those who have looked rows up in indexes of a successor hold of the view's own in their place."""
    reach = _find_reach(version, stored, view, succession.successor)
    return {
        twin: {table: reach for table, inputs in stored.inputs.items() if index in inputs}
        for index, twin in _find_twins(stored, view, succession.successor).items()
    }


def _require_same_rows(seen: Version, view: str, succession: Succession, *others: str) -> Precondition:
    """Return the precondition that neither a view nor its successor has been brought on, nor `others` have."""
    names = (view, succession.successor, *others)
    at = [seen.tables[name].committed_epoch for name in names]
    message = f"{view} was brought on at the same time"

    def is_same(version: Version) -> bool:
        tables = [version.tables.get(name) for name in names]
        return [None if table is None else table.committed_epoch for table in tables] == at

    return require(is_same, message)
