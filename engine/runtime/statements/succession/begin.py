"""Another query for a view that stays answered: it is built beside the view as a hidden one, which takes the view's place."""

from __future__ import annotations

from collections.abc import Mapping

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
from engine.runtime.statements.create.required_inputs import require_columns_stay
from engine.runtime.statements.create.restrictions import check_join_sides
from engine.runtime.statements.create.view_change import (
    ViewChange,
    find_rebuild_reasons,
    is_in_same_place,
)
from engine.runtime.statements.drop import build_removal
from engine.sql.catalog import Catalog, Relation
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.same_plan import is_same_plan
from engine.sql.statements.options.gate_bounds import GATE, parse_gate
from engine.sql.statements.statement_types import CreateMaterializedView

_OWN = (DOMAIN, BACKGROUND)
"""The options that a successor has for itself."""


def begin_succession(
    statement: CreateMaterializedView, context: StatementContext, *, new_columns: bool = True
) -> ViewChange:
    """Begin to build what a view is to be by another statement; a later run lets it take the view's place.

    Where the statement means the same rows, the view has its text and options at once. An earlier change that has not taken
    place yet goes on if it is the same, and is given up else. A view that commits together with others is computed anew in their
    next epoch. Nothing is done where it would have to be made anew; without `new_columns` that is so with other columns, too.
    Raises SqlError for a statement that cannot be.
    """
    store, name = context.store, statement.name
    version = store.refresh()
    stored = load_catalog(version)
    before = resolve_relation(stored, "materialized view", name, statement.sql)
    pending = list_successions(version).get(name)
    if pending is not None and pending.copied:
        raise build_name_error(
            f"{name} is taking over its last change", name, statement.sql, "run FLUSH first"
        )
    relation, relations, plans = plan_replacement(statement, before, stored, context)
    is_same_query = is_same_plan(plans[name], stored.plans[name]) and is_in_same_place(before, relation)
    in_place = is_same_query or find_domain_name(stored, name) != name
    if in_place and not is_same_query and GATE in relation.options:
        hint = "give the view a domain of its own, or leave the gate out"
        message = f"{name} commits together with others, and the gate of its change cannot be asked"
        raise build_name_error(message, GATE, statement.sql, hint)
    if in_place:
        check_domains(leave_out(stored, name), relations, plans)
    elif reasons := find_rebuild_reasons(
        version, stored, before, relation, plans[name], new_columns=new_columns
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
    staged = StagedStore(store)
    if pending is not None:
        if _is_begun(stored, *rename_to_successor(name, relations, plans)):
            return ViewChange("difference")
        version = staged.commit(build_removal(version, stored, {pending.successor}))
        stored = load_catalog(version)
        relation, relations, plans = plan_replacement(statement, before, stored, context)
    change = ViewChange("difference")
    if in_place:
        change = keep_rows(staged, relation, relations, plans)
    else:
        commit_successor(staged, version, relation, relations, plans)
    staged.land()  # the change before goes in the manifest that brings this one
    return change


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
    relations: Mapping[str, Relation],
    plans: Mapping[str, IncrementalPlan],
) -> None:
    """Let later runs build a view as it is to be: `relation`, with these relations and plans for itself and beside it."""
    name, stored = relation.name, load_catalog(version)
    hidden, hidden_plans = rename_to_successor(name, relations, plans)
    check_join_sides(check_domains(stored, hidden, hidden_plans), name, relation.sql)
    succession = Succession(name_successor(name), dict(relation.options))
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


def give_up_succession(view: str, store: Hummock) -> bool:
    """Drop what is built beside a view, which goes on by its query; False where the view has taken it over already."""
    version = store.refresh()
    pending = list_successions(version).get(view)
    if pending is None or pending.copied:
        return False
    store.commit(build_removal(version, load_catalog(version), {pending.successor}))
    return True


def discard_change(store: Hummock, view: str, sql: str) -> None:
    """Drop what is built beside a view; raises SqlError where there is nothing, or it has taken over already."""
    if not give_up_succession(view, store):
        hint = "ALTER MATERIALIZED VIEW … AS gives it another one"
        raise build_name_error(f"{view} has no next query that waits to take over", view, sql, hint)


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


def rename_relation(relation: Relation, names: Mapping[str, str]) -> Relation:
    """Return a relation with other names of itself, of what it reads and of its checks' views; texts stay as they are."""
    return msgspec.structs.replace(
        relation,
        name=names.get(relation.name, relation.name),
        depends_on=tuple(names.get(one, one) for one in relation.depends_on),
        checks=tuple(one.rename_views(names) for one in relation.checks),
    )
