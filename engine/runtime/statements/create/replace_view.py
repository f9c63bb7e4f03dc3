"""Another query for a view that is there: its rows, and who follows their changes, stay; the next epoch brings the difference."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Table, Version
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.staged_store import StagedStore
from engine.meta.catalog.replaced_queries import mark_replaced
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.domains.creation import drop_creations
from engine.meta.domains.domain import find_domain_name, list_domains
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import read_control
from engine.meta.domains.placement import find_misplaced_tables
from engine.meta.epochs.time_boundary import forget_boundaries
from engine.meta.status.check_results import forget_check_results
from engine.runtime.relations import build_name_error
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.assumption_checks import check_unread
from engine.runtime.statements.create.check_views import plan_checks
from engine.runtime.statements.create.fit_columns import fit_columns, list_null_columns
from engine.runtime.statements.create.relations import (
    build_view_relation,
    check_domains,
    list_inlined_texts,
    plan_view,
)
from engine.runtime.statements.create.required_inputs import require_columns_stay
from engine.runtime.statements.create.restrictions import check_join_sides
from engine.runtime.statements.create.shared_index import build_shared_index
from engine.runtime.statements.create.view_change import (
    ViewChange,
    Work,
    find_rebuild_reasons,
    is_in_same_place,
)
from engine.runtime.statements.drop import build_removal, drop_unused
from engine.sql.batch.ad_hoc import query_tables
from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation, carry_comments
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.same_plan import is_same_plan
from engine.sql.statements.statement_types import CreateMaterializedView, CreateView
from engine.sql.statements.view_query import parse_view_query


def change_view(statement: CreateMaterializedView, context: StatementContext) -> ViewChange:
    """Give a materialized view the query and options of a statement, its rows stay; nothing where it would have to be made anew.

    It has to be where its columns or its key are others, where rows only come, where rows leave by a watermark, and where it is
    cut into partitions. Raises SqlError for a statement that cannot be, and nothing has changed then.
    """
    store = context.store
    stored = load_catalog(store.refresh())
    before = stored.catalog.get(statement.name)
    relation, relations, plans = plan_replacement(statement, before, stored, context)
    check_join_sides(
        check_domains(leave_out(stored, before.name), relations, plans), statement.name, statement.sql
    )
    return keep_rows(store, relation, relations, plans)


def plan_replacement(
    statement: CreateMaterializedView, before: Relation, stored: StoredCatalog, context: StatementContext
) -> tuple[Relation, dict[str, Relation], dict[str, IncrementalPlan]]:
    """Return what a view is to be by a statement, and the relations and plans of itself and of what comes with it."""
    _check_no_loop(stored, before, statement)
    catalog = leave_out(stored, before.name).catalog
    relation, plan = plan_view(statement, catalog, context)
    own = context.store.version.tables.get(before.name)
    if own is not None:
        relation, plan = fit_columns(before, relation, plan, own.table)
    check_unread(stored, before.name, list_null_columns(relation, plan))
    relations: dict[str, Relation] = {}
    plans: dict[str, IncrementalPlan] = {before.name: plan}
    for table, columns in plan.indexes:
        name = index_name(table, columns)
        if name not in catalog.relations:
            base = catalog.get(table)
            relations[name], plans[name] = build_shared_index(catalog, base, columns, context.dialect)
    checks = plan_checks(relation, plan, catalog, context)
    relation = msgspec.structs.replace(
        relation,
        checks=checks.checks,
        comment=before.comment,
        columns=carry_comments(relation, before),
        query_since=before.query_since,
    )
    return (
        relation,
        {before.name: relation, **relations, **checks.relations},
        plans | dict(checks.plans),
    )


def leave_out(stored: StoredCatalog, view: str) -> StoredCatalog:
    """Return the catalog without a view and its checks."""
    gone = {view} | {n for n in stored.catalog.list_dependents(view) if stored.catalog.get(n).kind == "check"}
    relations = {n: r for n, r in stored.catalog.relations.items() if n not in gone}
    return StoredCatalog(Catalog(relations), {n: p for n, p in stored.plans.items() if n not in gone})


def keep_rows(
    store: Hummock,
    after: Relation,
    relations: Mapping[str, Relation],
    plans: Mapping[str, IncrementalPlan],
) -> ViewChange:
    """Let a view be `after`, with these relations and plans for itself and beside it; nothing if it has to be made anew."""
    version = store.refresh()
    stored = load_catalog(version)
    before, view = stored.catalog.get(after.name), after.name
    checks = {n for n in stored.catalog.list_dependents(view) if stored.catalog.get(n).kind == "check"}
    check_views = {n for n, relation in relations.items() if relation.kind == "check"}
    is_same_query = is_same_plan(plans[view], stored.plans[view]) and is_in_same_place(before, after)
    is_same = is_same_query and checks == check_views
    if is_same and all(stored.catalog.get(n) == relations[n] and stored.plans[n] == plans[n] for n in checks):
        if after != before:
            store.commit(
                Commit(
                    catalog=encode_entries({view: after}, {}),
                    alter=_place_tables(version, stored, after),
                    precondition=require_same_catalog(version),
                )
            )
        return ViewChange(_name_work(before, after), is_same_query=True)
    if reasons := find_rebuild_reasons(version, stored, before, after, plans[view]):
        return ViewChange("rebuild", reasons, is_same_query)
    require_columns_stay(after.sql, relations, plans)(version)
    staged = StagedStore(store)
    if checks:
        version = staged.commit(build_removal(version, stored, checks))
    changed = after if is_same_query else begin_query(version, after)
    entries = encode_entries({**relations, view: changed}, plans)
    staged.commit(build_plan_change(version, stored, view, entries))
    staged.land()  # the old checks go in the manifest that brings the new ones
    drop_unused(store)
    return ViewChange("difference", is_same_query=is_same_query)


def _place_tables(version: Version, stored: StoredCatalog, after: Relation) -> dict[str, Table]:
    """Return the tables of a view that get other options by what it is to be."""
    catalog = StoredCatalog(Catalog({**stored.catalog.relations, after.name: after}), stored.plans)
    domain = list_domains(catalog)[find_domain_name(catalog, after.name)]
    return find_misplaced_tables(version, catalog, domain, read_control(version, domain.name))


def change_plain_view(statement: CreateView, context: StatementContext) -> ViewChange:
    """Give a plain view another text, whoever reads it: the readers are to be planned anew, in the same commit."""
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    before = stored.catalog.get(statement.name)
    _check_no_loop(stored, before, statement)
    relation = build_view_relation(stored.catalog, statement, context.dialect)
    relation = msgspec.structs.replace(
        relation, comment=before.comment, columns=carry_comments(relation, before)
    )
    is_same_query = _reads_the_same(before, relation, stored.catalog)
    if relation != before:
        entries = encode_entries({before.name: relation}, {})
        check = require_all(
            require_same_catalog(version), require_columns_stay(statement.sql, {before.name: relation})
        )
        store.commit(Commit(catalog=entries, precondition=check))
    return ViewChange("nothing" if relation == before else "text", is_same_query=is_same_query)


def _name_work(before: Relation, after: Relation) -> Work:
    """Return what another statement with the same plan asks for."""
    if after == before:
        return "nothing"
    return "text" if after.options == before.options else "options"


def _reads_the_same(before: Relation, after: Relation, catalog: Catalog) -> bool:
    """Tell whether two texts of a plain view mean the same query."""
    if before.columns != after.columns:
        return False
    try:
        bound = [
            bind(parse_view_query(one), catalog, dialect=one.dialect, sql=one.sql, named=True)
            for one in (before, after)
        ]
    except SqlError:  # what it reads has changed, and the old text does not fit it any more
        return False
    return bound[0].columns == bound[1].columns and is_same_plan(bound[0].plan, bound[1].plan)


def _check_no_loop(
    stored: StoredCatalog, view: Relation, statement: CreateMaterializedView | CreateView
) -> None:
    try:
        read = {
            *query_tables(statement.query, stored.catalog),
            *list_inlined_texts(statement.query, stored.catalog),
        }
    except SqlError:  # the plan is refused by what it reads, with the place
        return
    through = sorted(read & {view.name, *stored.catalog.list_dependents(view.name)})
    if through:
        path = "" if through[0] == view.name else f": {through[0]} is computed from it"
        message, hint = f"{view.name} would read itself{path}", "read what it reads"
        raise build_name_error(message, through[0], statement.sql, hint)


def begin_query(version: Version, view: Relation) -> Relation:
    """Return a view whose query holds from its next epoch on."""
    return msgspec.structs.replace(view, query_since=version.tables[view.name].committed_epoch + 1)


def build_plan_change(
    version: Version, stored: StoredCatalog, view: str, catalog: dict[str, str | None]
) -> Commit:
    """Return the commit by which a view gets another plan: its states go, and nothing holds logs for it until it is computed."""
    tables = [fragment.table for fragment in stored.plans[view].fragments]
    states = {table for table in tables if table != view}
    acks: dict[str, dict[str, int | None]] = {}
    for table in tables:
        for upstream in stored.inputs[table]:
            if upstream not in states and upstream != view:
                acks.setdefault(upstream, {})[table] = None
    changed, further = drop_creations(version, states)
    dropped = {*states, *further} & version.tables.keys()
    notes = changed | forget_boundaries(version, tables) | forget_check_results(version, [view])
    notes |= forget_failure(version, find_domain_name(stored, view)) | mark_replaced(view)
    return Commit(
        drop=tuple(sorted(dropped)),
        acks={upstream: names for upstream, names in acks.items() if upstream in version.tables},
        catalog=catalog | notes,
        precondition=require_same_catalog(version),
    )
