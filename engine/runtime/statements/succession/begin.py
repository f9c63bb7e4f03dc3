"""Another query for a view that stays answered: it is built beside the view as a hidden one, which takes the view's place."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

import msgspec

from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.staged_store import StagedStore
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions, name_successor
from engine.meta.domains.domain import BACKGROUND, find_domain_name
from engine.meta.domains.domain import OPTION as DOMAIN
from engine.runtime.relations import build_name_error, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.rename import map_names, rename_tables
from engine.runtime.statements.create.relations import check_domains
from engine.runtime.statements.create.replace_view import (
    keep_rows,
    leave_out,
    plan_replacement,
)
from engine.runtime.statements.create.required_inputs import GIVE_UP, require_columns_stay
from engine.runtime.statements.create.restrictions import check_join_sides
from engine.runtime.statements.create.view_change import (
    ViewChange,
    find_rebuild_reasons,
    is_in_same_place,
)
from engine.runtime.statements.drop import build_removal
from engine.runtime.statements.succession.look_ahead import (
    find_column_obstacles,
    list_given_up,
    list_views_above,
    list_waiting,
    look_ahead,
    read_successors,
    rename_relation,
)
from engine.sql.catalog import Catalog, Relation
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.same_plan import is_same_plan
from engine.sql.statements.options.gate_bounds import GATE, parse_gate
from engine.sql.statements.statement_types import CreateMaterializedView

_OWN = (DOMAIN, BACKGROUND)
"""The options that a successor has for itself."""


def begin_succession(
    statement: CreateMaterializedView,
    context: StatementContext,
    *,
    new_columns: bool = True,
    following: Collection[str] = (),
) -> ViewChange:
    """Begin to build what a view is to be by another statement; a later run lets it take the view's place.

    What it reads it reads as that will be: of a view that has a next query itself, the rows by that. Where the statement means
    the same rows, the view has its text and options at once. An earlier change that has not taken place yet goes on if it is the
    same, and is given up else. A view that commits together with others is computed anew in their next epoch. Nothing is done
    where it would have to be made anew; without `new_columns` that is so with other columns, too. Views that are `following` get
    their next queries after this one, in the same commit; whoever makes it asks `find_column_obstacles` then. Raises SqlError for
    a statement that cannot be.
    """
    store, name = context.store, statement.name
    version = store.refresh()
    stored = load_catalog(version)
    before = resolve_relation(stored, "materialized view", name, statement.sql)
    pending = list_successions(version).get(name)
    if pending is not None and pending.copied:
        hint = "run FLUSH first; if a view fails meanwhile, correct the rows that it fails on, or drop it"
        raise build_name_error(f"{name} is taking over its last change", name, statement.sql, hint)
    is_alone = find_domain_name(stored, name) == name
    ahead, successors = look_ahead(version, stored, name) if is_alone else (stored, {})
    relation, relations, plans = plan_replacement(statement, before, ahead, context)
    is_same_query = is_same_plan(plans[name], stored.plans[name]) and is_in_same_place(before, relation)
    in_place = is_same_query or not is_alone
    if in_place and not is_same_query and GATE in relation.options:
        hint = "give the view a domain of its own, or leave the gate out"
        message = f"{name} commits together with others, and the gate of its change cannot be asked"
        raise build_name_error(message, GATE, statement.sql, hint)
    if in_place:
        relation, relations, plans = plan_replacement(statement, before, stored, context)
        check_domains(leave_out(stored, name), relations, plans)
    elif reasons := find_rebuild_reasons(
        version,
        stored,
        before,
        relation,
        plans[name],
        {*following, *list_waiting(version)} if new_columns else None,
    ):
        if GATE in relation.options:
            hint = "leave the gate out to have it made anew"
            message = (
                f"{name} would be made anew, and the gate of its change cannot be asked: {'; '.join(reasons)}"
            )
            raise build_name_error(message, GATE, statement.sql, hint)
        return ViewChange("rebuild", reasons)
    if not in_place:
        _check_gate_columns(before, relation, statement.sql)
    hidden = read_successors(*rename_to_successor(name, relations, plans), successors)
    staged = StagedStore(store)
    if pending is not None:
        if not in_place and _is_begun(stored, *hidden):
            return ViewChange("difference")
        gone = _list_replaced(stored, name, pending, statement.sql, following)
        version = staged.commit(build_removal(version, stored, gone))
    change = ViewChange("difference")
    if in_place:
        change = keep_rows(staged, relation, relations, plans)
    else:
        commit_successor(staged, version, relation, *hidden)
    if not following:
        _check_columns_stay(staged.version, name, statement.sql)
    staged.land()  # the change before goes in the manifest that brings this one
    return change


def _list_replaced(
    stored: StoredCatalog, view: str, pending: Succession, sql: str, following: Collection[str]
) -> set[str]:
    """Return the successors that go with that of a view, as they are computed from it; raises SqlError if they cannot."""
    above = list_views_above(stored, pending.successor)
    if left := [one for one in above if one not in following]:
        message = (
            f"the next query of {', '.join(left)} is computed from that of {view}, which would be another"
        )
        hint = f"run FLUSH first, or give both up: ALTER MATERIALIZED VIEW {view} DISCARD"
        raise build_name_error(message, view, sql, hint)
    return {pending.successor, *map(name_successor, above)}


def _check_columns_stay(version: Version, view: str, sql: str) -> None:
    """Raise SqlError if a view reads what another has no more once the next query of that takes over."""
    for other, reasons in find_column_obstacles(version).items():
        message = f"the next query of {other} is being built, and once it takes over {reasons[0]}"
        raise build_name_error(message, view, sql, GIVE_UP.format(other))


def _check_gate_columns(before: Relation, after: Relation, sql: str) -> None:
    """Raise SqlError for a gate that bounds the changes of a column which a view does not have yet."""
    names = {column.name.lower() for column in before.visible_columns}
    for bound in parse_gate(after.options[GATE], sql) if GATE in after.options else ():
        if bound.column and bound.column.lower() not in names:
            message = (
                f"{before.name} has no column {bound.column} yet, and the gate cannot count how it changes"
            )
            raise build_name_error(message, bound.column, sql, "leave it out of the gate of this change")


def commit_successor(
    store: Hummock,
    version: Version,
    relation: Relation,
    hidden: Mapping[str, Relation],
    hidden_plans: Mapping[str, IncrementalPlan],
) -> None:
    """Let later runs build a view as it is to be: `relation`, with these relations and plans of its successor and beside it."""
    name, stored = relation.name, load_catalog(version)
    check_join_sides(check_domains(stored, hidden, hidden_plans), name_successor(name), relation.sql)
    succession = Succession(name_successor(name), dict(relation.options), begun=uuid.uuid4().hex)
    store.commit(
        Commit(
            catalog=encode_entries(hidden, hidden_plans) | SUCCESSIONS.record(name, succession),
            precondition=require_all(
                require_same_catalog(version),
                require_columns_stay(relation.sql, hidden, hidden_plans),
                SUCCESSIONS.require_absent(name, f"{name} was changed by another process at the same time"),
            ),
        )
    )


def _is_begun(
    stored: StoredCatalog, hidden: Mapping[str, Relation], plans: Mapping[str, IncrementalPlan]
) -> bool:
    """Tell whether a successor like this, with all that comes with it, is there."""
    return all(stored.catalog.relations.get(name) == one for name, one in hidden.items()) and all(
        stored.plans.get(name) == one for name, one in plans.items()
    )


def give_up_succession(view: str, store: Hummock) -> tuple[str, ...]:
    """Drop what is built beside a view, which goes on by its query, and what cannot be without that; return the views.

    There is none where the view, or one of these, has begun to take over.
    """
    version = store.refresh()
    pending = list_successions(version)
    if view not in pending or pending[view].copied:
        return ()
    gone = list_given_up(version, view)
    stored, staged = load_catalog(version), StagedStore(store)
    behind = {
        one: msgspec.structs.replace(stored.catalog.get(one), behind=True)
        for one in gone
        if not pending[one].resync and _follows_others(stored, one, pending[one].successor)
    }
    staged.commit(Commit(catalog=encode_entries(behind, {}), precondition=require_same_catalog(version)))
    removed = {pending[one].successor for one in gone}
    staged.commit(build_removal(staged.version, load_catalog(staged.version), removed))
    staged.land()
    return tuple(gone)


def _follows_others(stored: StoredCatalog, view: str, successor: str) -> bool:
    """Tell whether the next query of a view may be another by what it reads, and not by the view's text alone."""
    before, after = stored.catalog.get(view), stored.catalog.get(successor)
    return before.sql == after.sql or bool(before.through or after.through)


def discard_change(store: Hummock, view: str, sql: str) -> str:
    """Drop what is built beside a view, and return what to say of others whose next queries go with it.

    Raises SqlError where there is nothing, or it has taken over already.
    """
    gone = give_up_succession(view, store)
    if not gone:
        hint = "ALTER MATERIALIZED VIEW … AS gives it another one"
        raise build_name_error(f"{view} has no next query that waits to take over", view, sql, hint)
    others = ", ".join(gone[1:])
    return (
        f"the next query of {others} is given up, too: it cannot be without that of {view}" if others else ""
    )


def check_not_succeeded(version: Version, name: str, sql: str) -> None:
    """Raise SqlError for a view whose next query is being built: what is changed now would be lost when it takes over."""
    pending = list_successions(version).get(name)
    if pending is not None:
        hint = "run FLUSH first, or give it up: ALTER MATERIALIZED VIEW … DISCARD"
        what = "is being computed anew" if pending.resync else "is being built"
        of = name if pending.resync else f"the next query of {name}"
        raise build_name_error(f"{of} {what}", name, sql, hint)


def rename_to_successor(
    view: str,
    relations: Mapping[str, Relation],
    plans: Mapping[str, IncrementalPlan],
) -> tuple[dict[str, Relation], dict[str, IncrementalPlan]]:
    """Return relations and plans of a view as those of its successor, in a domain of its own that nobody waits for."""
    successor = name_successor(view)
    names = map_names(StoredCatalog(Catalog(dict(relations)), dict(plans)), relations[view], successor)
    hidden = {names.get(n, n): rename_relation(one, names) for n, one in relations.items()}
    shared = {n for n in hidden if n in relations and n not in names}
    hidden = {
        n: one if n in shared else msgspec.structs.replace(one, options=_detach(one, successor))
        for n, one in hidden.items()
    }
    return hidden, {names.get(n, n): rename_tables(one, names) for n, one in plans.items()}


def _detach(relation: Relation, successor: str) -> dict[str, str]:
    others = {key: value for key, value in relation.options.items() if key not in _OWN}
    return others | ({BACKGROUND: "true"} if relation.name == successor else {DOMAIN: successor})
