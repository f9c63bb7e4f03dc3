"""ALTER and COMMENT ON: what a relation is called, its columns, options, checks and comments; one commit each."""

from __future__ import annotations

import dataclasses
import re
from functools import partial

import msgspec

from engine.errors import SqlError
from engine.hummock import Commit, Version
from engine.hummock.manifests.commit_merge import merge_commits
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.transact import commit_with_retry
from engine.meta.catalog.stored_catalog import (
    RELATIONS,
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, list_creations
from engine.meta.domains.domain import find_domain_name, list_domains
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import (
    PARALLELISM,
    RATE_LIMIT,
    encode_control,
    enqueue_mutation,
    read_control,
    require_same_queue,
)
from engine.meta.domains.placement import RETENTION, find_misplaced_tables
from engine.meta.status.check_results import forget_check_results
from engine.runtime.epoch.mutation_run import ASK, request_mutation
from engine.runtime.relations import build_name_error, locate_name, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.columns import (
    add_column,
    alter_column,
    drop_column,
    find_column,
    list_column_names,
    rename_column,
    replace_column,
)
from engine.runtime.statements.alter.rename import rename_relation, swap_relations
from engine.runtime.statements.create.check_views import plan_checks
from engine.runtime.statements.create.schema import check_schema
from engine.runtime.statements.drop import build_removal
from engine.runtime.statements.succession.begin import check_not_succeeded, discard_change
from engine.runtime.statements.succession.gate import approve_change
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import OPTION as CHECKS
from engine.sql.checks import list_companions
from engine.sql.statements.options.option_text import with_option
from engine.sql.statements.options.view_options import CHANGEABLE, check_option, merge_options
from engine.sql.statements.statement_types import (
    AddColumn,
    Alter,
    AlterColumn,
    ApproveQuery,
    Comment,
    DiscardQuery,
    DropColumn,
    NoMeaning,
    RenameColumn,
    RenameTo,
    SetOptions,
    Steer,
    SwapWith,
)


def run_alter(statement: Alter, context: StatementContext) -> str:
    """Run ALTER; returns the notice that there is to give, else "".

    Raises SqlError with the place, and with the names of what reads the relation where that stands in the way.
    """
    if not isinstance(statement.action, SetOptions):
        return _run_alter(statement, context)
    # its domain may take a mutation, or be asked for one, at this moment
    return commit_with_retry(context.store, partial(_run_alter, statement, context), ASK)


def _run_alter(statement: Alter, context: StatementContext) -> str:
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    relation = resolve_relation(stored, statement.kind, statement.name, statement.sql)
    pending = list_successions(version).get(relation.name)
    throttles = isinstance(statement.action, SetOptions) and statement.action.options.keys() == {RATE_LIMIT}
    throttles_build = pending is not None and not pending.copied and throttles
    if not (isinstance(statement.action, NoMeaning | Steer | ApproveQuery | DiscardQuery) or throttles_build):
        check_not_succeeded(version, relation.name, statement.sql)
    match statement.action:
        case NoMeaning(why):
            return why
        case AlterColumn(name):
            found = find_column(relation, name, statement.sql)
            commit = alter_column(stored, relation, found, statement, context)
        case RenameTo(name):
            check_schema(stored.catalog, name, statement.sql)
            commit = rename_relation(version, stored, relation, name, statement)
        case SwapWith(name):
            check_not_succeeded(version, name, statement.sql)
            commit = swap_relations(version, stored, relation, name, statement)
        case RenameColumn(old, new):
            commit = rename_column(version, stored, relation, old, new, statement)
        case AddColumn(column, if_not_exists):
            if if_not_exists and column.name.lower() in list_column_names(relation):
                return ""
            commit = add_column(stored, relation, column, statement, context)
        case DropColumn(name, if_exists):
            if if_exists and name.lower() not in list_column_names(relation):
                return ""
            commit = drop_column(stored, relation, name, statement, context)
        case SetOptions(options) if CHECKS in options:
            commit = _change_checks(version, stored, relation, options, statement, context)
        case SetOptions(options):
            commit = _set_options(version, stored, relation, options, statement, store.clock())
            if pending is not None:
                build = _throttle_build(version, stored, relation.name, pending, statement, store.clock())
                commit = merge_commits(commit, build)
        case ApproveQuery():
            approve_change(store, relation.name, statement.sql)
            return ""
        case DiscardQuery():
            return discard_change(store, relation.name, statement.sql)
        case Steer(mutation):
            request_mutation(store, relation.name, mutation, None, store.clock())
            return ""
    precondition = commit.precondition or require_same_catalog(version)
    store.commit(dataclasses.replace(commit, precondition=precondition))
    return ""


def set_option(view: str, option: str, value: int | None, context: StatementContext) -> None:
    """Set an option of a view that is a number, None for its default."""
    text = "default" if value is None else str(value)
    sql = f"ALTER MATERIALIZED VIEW {view} SET {option} = {text}"
    run_alter(Alter("materialized view", view, SetOptions({option: text}), False, sql), context)


def execute_comment(statement: Comment, context: StatementContext) -> None:
    """Run COMMENT ON."""
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    relation = resolve_relation(stored, statement.kind, statement.name, statement.sql)
    if statement.column is None:
        changed = msgspec.structs.replace(relation, comment=statement.text)
    else:
        column = find_column(relation, statement.column, statement.sql)
        changed = replace_column(relation, column, msgspec.structs.replace(column, comment=statement.text))
    store.commit(
        Commit(
            catalog=encode_entries({relation.name: changed}, {}), precondition=require_same_catalog(version)
        )
    )


def _set_options(
    version: Version,
    stored: StoredCatalog,
    relation: Relation,
    options: dict[str, str],
    statement: Alter,
    now: float,
) -> Commit:
    """Return the commit that notes new options; what a running domain has to take up is queued in it as mutations."""
    if relation.kind != "materialized view":
        hint = "options of a materialized view can be changed"
        raise build_name_error(f"{relation.name} is a {relation.kind}", relation.name, statement.sql, hint)
    for name, value in options.items():
        found = re.search(rf"\b{re.escape(name)}\b", statement.sql, re.IGNORECASE)
        start = found.start() if found else 0
        check_option(name, value, start, statement.sql)
        if name not in CHANGEABLE:
            hint = f"DROP the view and CREATE it with the option; {', '.join(CHANGEABLE)} can be changed"
            raise build_name_error(
                f"option {name} is fixed when the view is created", name, statement.sql, hint
            )
    merged = merge_options(relation.options, options, statement.sql)
    changed = msgspec.structs.replace(relation, options=merged)
    domain = find_domain_name(stored, relation.name)
    before = read_control(version, domain)
    control = before
    if RATE_LIMIT in options:
        control = enqueue_mutation(control, "throttle", relation, _parse_number(options[RATE_LIMIT]), now)
    if PARALLELISM in options:
        control = enqueue_mutation(control, "update", relation, _parse_number(options[PARALLELISM]), now)
    catalog = Catalog({**stored.catalog.relations, relation.name: changed})
    after = StoredCatalog(catalog, stored.plans)
    tables = (
        find_misplaced_tables(version, after, list_domains(stored)[domain], before)
        if RETENTION in options
        else {}
    )
    same = require_all(require_same_catalog(version), require_same_queue(version, domain))
    entries = encode_entries({relation.name: changed}, {}) | (
        encode_control(domain, control) if control != before else {}
    )
    return Commit(catalog=entries, alter=tables, precondition=same)


def _throttle_build(
    version: Version,
    stored: StoredCatalog,
    view: str,
    succession: Succession,
    statement: Alter,
    now: float,
) -> Commit:
    """Return the commit that throttles the build of a view's next query, and gives it the option."""
    assert isinstance(statement.action, SetOptions)
    options, successor = statement.action.options, stored.catalog.get(succession.successor)
    after = msgspec.structs.replace(
        succession, options=merge_options(succession.options, options, statement.sql)
    )
    notes = Commit(catalog=SUCCESSIONS.record(view, after))
    return merge_commits(_set_options(version, stored, successor, options, statement, now), notes)


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _change_checks(
    version: Version,
    stored: StoredCatalog,
    relation: Relation,
    options: dict[str, str],
    statement: Alter,
    context: StatementContext,
) -> Commit:
    """Return the commit that gives a view other checks, asked over all of its rows by the next run; `default` takes them away."""
    line, column = locate_name(CHECKS, statement.sql)

    def build_error(message: str, hint: str) -> SqlError:
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    if relation.kind != "materialized view":
        raise build_error(f"{relation.name} is a {relation.kind}", "a materialized view can have checks")
    if len(options) > 1:
        raise build_error("checks are set by themselves", "set the other options by a statement of their own")
    made = list_creations(version).get(find_domain_name(stored, relation.name))
    if made is not None and relation.name in made.tables and made.state == CONSUMING_SNAPSHOT:
        hint = f"WAIT FOR {relation.name}, or DROP it and CREATE it with other checks"
        raise build_error(f"{relation.name} is still being created", hint)
    text = None if options[CHECKS].lower() == "default" else options[CHECKS]
    others = {name: value for name, value in relation.options.items() if name != CHECKS}
    if text is not None:
        check_option(CHECKS, text, 0, statement.sql)
        others[CHECKS] = text
    bare = msgspec.structs.replace(relation, options=others, checks=())
    gone = build_removal(version, stored, set(list_companions(relation.checks)))
    left = {n: r for n, r in stored.catalog.relations.items() if RELATIONS.key(n) not in gone.catalog}
    view = msgspec.structs.replace(bare, sql=statement.sql)
    planned = plan_checks(view, stored.plans[relation.name], Catalog(left), context)
    sql = with_option(relation.sql, relation.dialect, CHECKS, text)
    changed = msgspec.structs.replace(bare, sql=sql, checks=planned.checks)
    notes = forget_check_results(version, [relation.name]) | forget_failure(
        version, find_domain_name(stored, relation.name)
    )
    added = encode_entries({**planned.relations, relation.name: changed}, dict(planned.plans))
    return dataclasses.replace(gone, catalog={**gone.catalog, **notes, **added})
