"""Changes of what is there: a view or a sink follows another text, and several statements become visible in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.connectors.sinks.ddl import build_own_view
from engine.hummock.staged_store import StagedStore
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.replace_view import change_plain_view, change_view
from engine.runtime.statements.session.statement_parser import parse_statement
from engine.runtime.statements.statement_errors import locate_errors
from engine.runtime.statements.succession.begin import CannotGoOn, begin_succession
from engine.session import Session
from engine.sql.statements import reader as st


def alter_view(session: Session, text: str) -> bool:
    """Give a view that is there the query and options of a CREATE VIEW or CREATE MATERIALIZED VIEW.

    The rows of a materialized view stay, and so do views and sinks over it: it answers by its old query until flushes have
    computed the new one, and they follow the difference. False where that cannot be, and it would have to be made anew: its
    columns, key or partitions are others, its rows only come, or leave by a watermark. What reads a plain view is to be changed
    with it, see `commit_together`.
    """
    context = StatementContext.of(session)
    statement = parse_statement(text, None, context)
    with locate_errors(statement.sql, statement):
        if isinstance(statement, st.CreateView):
            change_plain_view(statement, context)
            return True
        assert isinstance(statement, st.CreateMaterializedView), statement
        statement = replace(statement, options={**session.settings.view_options(), **statement.options})
        try:
            begin_succession(statement, context)
        except CannotGoOn:
            return False
        return True


def alter_sink_query(session: Session, text: str) -> bool:
    """Let the view that a sink AS SELECT has for itself follow what it reads, which has changed; True for one without such.

    False where it would have to be made anew, with its sink.
    """
    context = StatementContext.of(session)
    statement = parse_statement(text, None, context)
    assert isinstance(statement, st.CreateSink), statement
    if statement.query is None:
        return True
    own = build_own_view(statement, session.catalog.get(statement.source).options)
    with locate_errors(statement.sql, statement):
        return change_view(own, context)


@contextmanager
def commit_together(session: Session) -> Iterator[None]:
    """Let what is created, changed and dropped inside become visible in one commit; nothing of it where something is refused.

    Statements inside see each other. None of them writes rows, and views are computed by a later flush.
    """
    staged, before = StagedStore(session.store), session.store
    session.store = staged
    try:
        yield
    finally:
        session.store = before
    staged.land()
