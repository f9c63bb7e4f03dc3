"""Changes of what is there: a view or a sink follows another text, and several statements become visible in one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.connectors.sinks.ddl import build_own_view
from engine.hummock.staged_store import StagedStore
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.function import change_function
from engine.runtime.statements.create.replace_view import change_plain_view, change_view
from engine.runtime.statements.create.view_change import ViewChange
from engine.runtime.statements.session.statement_parser import parse_statement
from engine.runtime.statements.statement_errors import locate_errors
from engine.runtime.statements.succession.begin import begin_succession
from engine.runtime.statements.succession.look_ahead import find_column_obstacles
from engine.session import Session
from engine.sql.statements import reader as st

__all__ = [
    "alter_function",
    "alter_sink_query",
    "alter_view",
    "commit_together",
    "discard_commits",
    "find_column_obstacles",
]


def alter_view(
    session: Session, text: str, *, new_columns: bool = True, following: Collection[str] = ()
) -> ViewChange:
    """Give a view that is there the query and options of a CREATE VIEW or CREATE MATERIALIZED VIEW; returns what became of it.

    The rows of a materialized view stay, and so do views and sinks over it: it answers by its old query until flushes have
    computed the new one, and they follow the difference. Where that cannot be, nothing is done, and it would have to be made
    anew: its key or partitions are others, somebody reads a column that goes, its rows only come, or leave by a watermark.
    Without `new_columns` so it is with any other columns. What reads a plain view is to be changed with it: `commit_together`.
    Views that are `following` are given their texts after this one, in the same commit: what they read until then is no obstacle,
    and `find_column_obstacles` tells in the end whether something is.
    """
    context = StatementContext.of(session)
    statement = parse_statement(text, None, context)
    with locate_errors(statement.sql, statement):
        if isinstance(statement, st.CreateView):
            return change_plain_view(statement, context)
        assert isinstance(statement, st.CreateMaterializedView), statement
        statement = replace(statement, options={**session.settings.view_options(), **statement.options})
        return begin_succession(statement, context, new_columns=new_columns, following=following)


def alter_function(session: Session, text: str) -> ViewChange:
    """Give a function that is there the text of a CREATE FUNCTION; returns what became of it.

    What calls it has the old one until it is planned anew, which is to be in the same commit: `commit_together`.
    """
    context = StatementContext.of(session)
    statement = parse_statement(text, None, context)
    assert isinstance(statement, st.CreateFunction), statement
    with locate_errors(statement.sql, statement):
        return change_function(statement, context)


def alter_sink_query(session: Session, text: str) -> ViewChange:
    """Let the view that a sink AS SELECT has for itself follow what it reads, which has changed; returns what became of it.

    Nothing is done where it would have to be made anew, with its sink, and nothing is to be done for one without such a view.
    """
    context = StatementContext.of(session)
    statement = parse_statement(text, None, context)
    assert isinstance(statement, st.CreateSink), statement
    if statement.query is None:
        return ViewChange("nothing", is_same_query=True)
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


@contextmanager
def discard_commits(session: Session) -> Iterator[None]:
    """Let statements inside see what each other create, change, rename and drop, and the store and the world nothing of it.

    What feeds a table is not looked at, and no table is filled. Statements that write rows are refused.
    """
    before, reached_out, notices = session.store, session.reaches_out, session.notices
    session.store, session.reaches_out = StagedStore(before), False
    try:
        yield
    finally:
        session.store, session.reaches_out, session.notices = before, reached_out, notices
