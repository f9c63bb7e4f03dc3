"""CREATE MATERIALIZED VIEW, with the Delta table that it may keep, and CREATE SINK, which may have a view of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from engine.connectors.delta.sink.view_tables import name_delta_sink, plan_delta_sink
from engine.connectors.sinks.ddl import create_sink
from engine.errors import EpochFailed, SqlError, TidelineError
from engine.hummock import Version
from engine.hummock.transact import commit_with_retry
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.domain import BACKGROUND, find_domain_name, find_rate_limit, list_domains
from engine.meta.domains.mutation import RATE_LIMIT, read_control
from engine.meta.status.sinks import list_copies
from engine.meta.status.waits import format_gate_remedy
from engine.runtime.domains.wait_for_creation import LOOK_SECONDS
from engine.runtime.epoch.mutation_run import ASK
from engine.runtime.relations import build_name_error, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.relations import create_materialized_view
from engine.runtime.statements.create.view_change import ViewChange
from engine.runtime.statements.drop import drop_relation
from engine.runtime.statements.succession.begin import begin_succession, give_up_succession
from engine.runtime.statements.succession.resync import begin_resync
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import Alter, CreateMaterializedView, Drop
from engine.sql.statements.token_reader import WAIT_SECONDS


def execute_create_materialized_view(statement: CreateMaterializedView, context: StatementContext) -> None:
    """Create a materialized view; one whose content cannot be computed at once is not there."""
    session, store, name = context.session, context.store, statement.name
    statement = replace(statement, options={**context.settings.view_options(), **statement.options})
    if statement.replaces and name in load_catalog(store.refresh()).catalog.relations:
        replace_materialized_view(statement, context)
        return
    build_sink = plan_delta_sink(statement, context) if statement.copy else None
    created = create_materialized_view(statement, context, build_sink)
    if created and build_sink is not None:
        session.notice(format_delta_notice(context.stored.catalog.get(name_delta_sink(name)), name))
    elif build_sink is not None and not list_copies(context.stored, name):
        session.notice(
            f"{name} is there and keeps no Delta table; ALTER MATERIALIZED VIEW {name} "
            "SET (connector = 'delta', path = …) gives it one"
        )
    if created and context.build and statement.options.get(BACKGROUND, "").lower() != "true":
        report = session.flush([name])
        if report.failed:
            drop_relation(store, Drop("materialized view", name, True, False, statement.sql))
            report.raise_for_errors()


def replace_materialized_view(statement: CreateMaterializedView, context: StatementContext) -> None:
    """Give a view that is there another query and options: it answers by the old ones until the new ones are computed.

    Returns once it has taken them over, with the option `background` at once. What fails in the new query leaves the view as it
    was. Raises SqlError where the view would have to be made anew.
    """
    session, name = context.session, statement.name
    before = context.stored.catalog.get(name)
    made = parse_statement(before.sql, before.dialect)
    if isinstance(made, CreateMaterializedView) and made.copy != statement.copy:
        hint = "leave it as it is here, and ALTER MATERIALIZED VIEW … SET (connector = …) first"
        raise build_name_error(f"{name} would keep another Delta table", name, statement.sql, hint)
    change = begin_succession(statement, context)
    if change.work == "rebuild":
        raise _build_refusal(before, change, statement)
    if change.work != "difference":
        session.notice(f"{name} has the same rows by this query: nothing is computed")
        return
    if name not in list_successions(context.store.version):
        session.notice(f"{name} commits together with others: their next epoch computes it by its new query")
        if context.build:
            session.flush([name]).raise_for_errors()
        return
    waits = statement.options.get(BACKGROUND, "").lower() != "true"
    if reason := _let_take_over(
        before, context, f"{name} keeps its query, as the next one fails", waits=waits
    ):
        session.notice(f"{name} answers by its last query until the next one takes over: {reason}")


def resync_materialized_view(statement: Alter, context: StatementContext) -> None:
    """Compute a view anew from its inputs alone; it answers as before until one commit brings the difference.

    Returns once that is there, with the option `background` at once. What fails leaves the view as it was. Raises SqlError where
    the inputs do not have all rows any more that the view stands for, and for a view that is being changed.
    """
    session, stored = context.session, context.stored
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return
    view = resolve_relation(stored, "materialized view", statement.name, statement.sql)
    if not commit_with_retry(
        context.store, partial(begin_resync, context.store, view.name, statement.sql), ASK
    ):
        session.notice(f"the next epoch of {view.name} computes it anew, with what commits together with it")
        if context.build:
            session.flush([view.name]).raise_for_errors()
        return
    waits = view.options.get(BACKGROUND, "").lower() != "true"
    failing = f"{view.name} keeps its rows, as computing them anew fails"
    if reason := _let_take_over(view, context, failing, waits=waits):
        session.notice(f"{view.name} keeps its rows until those that are computed anew take over: {reason}")


def _let_take_over(before: Relation, context: StatementContext, failing: str, *, waits: bool) -> str:
    """Bring the successor of a view, as it was `before`, on until it has taken over, where somebody `waits` for it.

    Returns why it has not. Gives the successor up and raises EpochFailed, with `failing` before the reason, if it fails; raises
    EpochFailed, too, if another process gives it up, or begins another one.
    """
    if not (context.build and waits):
        return "it is built by later flushes"
    begun = _find_begun(context, before.name)
    try:
        return _wait_for_take_over(before, begun, context)
    except _ChangeGone as gone:
        raise EpochFailed(str(gone)) from None
    except TidelineError as failure:
        give_up = partial(give_up_succession, before.name, context.store)
        if _find_begun(context, before.name) == begun and commit_with_retry(context.store, give_up, ASK):
            raise EpochFailed(f"{failing}: {failure}") from failure
        raise


class _ChangeGone(Exception):
    """A change that somebody waits for is none any more: another process has given it up, or begun another one."""


def _find_begun(context: StatementContext, view: str) -> str | None:
    """Return by which name the present change of a view is known, None if there is none."""
    pending = list_successions(context.store.refresh()).get(view)
    return None if pending is None else pending.begun


def _build_refusal(before: Relation, change: ViewChange, statement: CreateMaterializedView) -> SqlError:
    """Return the error for a query with which a view would have to be made anew."""
    shown = ", ".join(f"{one.name} {one.visible_type}" for one in before.visible_columns)
    message = f"{before.name} cannot go on with this query: {'; '.join(change.reasons)}"
    hint = f"its columns are {shown}; CREATE it under another name, DROP the old one, then ALTER … RENAME TO"
    return build_name_error(message, before.name, statement.sql, hint)


def _wait_for_take_over(before: Relation, begun: str | None, context: StatementContext) -> str:
    """Bring a successor and its view on until it has taken over; return why it has not, where that is for somebody else to mend.

    Raises EpochFailed if the next query fails. That the present one does is no obstacle. Raises _ChangeGone if the change that
    has `begun` is there no more and has not taken over.
    """
    store, deadline, view = context.store, time.monotonic() + WAIT_SECONDS, before.name
    text = ""
    while pending := list_successions(store.refresh()).get(view):
        if pending.begun != begun:
            raise _ChangeGone(f"{view} is getting another query than this one: another process asked for it")
        text = context.stored.catalog.get(pending.successor).sql
        if read_control(store.version, find_domain_name(context.stored, view)).paused:
            return f"{view} is paused"
        if pending.held:
            return f"{pending.held}; {format_gate_remedy(view)}"
        if not pending.copied and _is_build_paused(store.version, pending.successor):
            return f"its build is paused by {RATE_LIMIT} = 0"
        if time.monotonic() > deadline:
            return "it is being built"
        number = store.version.number
        waiting = list_successions(store.version)  # those that read each other take over together
        try:
            report = context.session.flush([*waiting, pending.successor])
        except SqlError:
            if list_successions(store.refresh()).get(view) == pending:
                raise
            continue  # one of them is not there any more
        own = {pending.successor, *((view,) if pending.copied else ())}
        report.of(own).raise_for_errors()
        if store.version.number != number:
            continue
        # another process is at work on it, or the next query of another view fails
        if held := [name for name, one in waiting.items() if one.held]:
            return f"the gate of {', '.join(held)} holds it up, too: they read each other"
        successors = {one.successor for one in waiting.values()}
        if others := [one.view for one in report.failed if one.view in successors]:
            return f"{', '.join(others)} fails, and takes over with it"
        time.sleep(LOOK_SECONDS)
    _check_has_taken_over(before, text, context)
    return ""


def _check_has_taken_over(before: Relation, text: str, context: StatementContext) -> None:
    """Raise _ChangeGone unless a view, which waits for no query any more, has the rows of the one with this text."""
    after = context.stored.catalog.relations.get(before.name)
    if after is None:
        raise _ChangeGone(f"{before.name} is not there any more: another process has dropped it")
    if after.query_since == before.query_since:  # it moves with the first rows of a next query
        raise _ChangeGone(
            f"{before.name} keeps its last query: another process has given this change up meanwhile"
        )
    if text and after.sql != text:
        raise _ChangeGone(f"{before.name} has got another query than this one: another process asked for it")


def _is_build_paused(version: Version, successor: str) -> bool:
    """Tell whether no rows are read for a successor, because somebody has set its limit to none."""
    stored = load_catalog(version)
    domain = list_domains(stored)[find_domain_name(stored, successor)]
    return find_rate_limit(domain, stored, read_control(version, domain.name)) == 0


def execute_create_sink(statement: CreateSink, context: StatementContext) -> None:
    """Create a sink, and deliver what it is to deliver first."""
    if create_sink(statement, context, execute_create_materialized_view) and context.build:
        context.session.sinks.run([statement.source])


def format_delta_notice(sink: Relation, view: str) -> str:
    """Return the notice of a view that keeps a Delta table from now on."""
    notice = f"sink {sink.name} keeps the Delta table of {view}"
    hidden = ", ".join(column.name for column in sink.columns if column.hidden)
    return f"{notice}; beside its columns the table has {hidden}, of its key" if hidden else notice
