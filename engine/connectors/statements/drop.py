"""DROP of what may be, or take with it, a sink: its target is told that the sink is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.connectors.sinks.registry import find_sink_connector
from engine.errors import SinkError
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.sinks import is_paused_by_branch, list_sinks, read_sink_state
from engine.runtime.statement_context import StatementContext


@contextmanager
def forget_dropped_sinks(context: StatementContext) -> Iterator[None]:
    """Let the targets of sinks forget where these were, once statements of the block have dropped them.

    The drop stands whatever a target answers; what is left to do there is a notice.
    """
    before = context.store.refresh()
    sinks = list(list_sinks(load_catalog(before)))
    yield
    if not sinks:
        return
    kept = load_catalog(context.store.refresh()).catalog.relations
    for relation in sinks:
        if relation.name in kept or is_paused_by_branch(before, relation):
            continue
        try:
            connector = find_sink_connector(relation)
        except SinkError:
            continue  # the package that offered it is gone, and the sink has to be droppable all the same
        left = connector.forget(relation, read_sink_state(before, relation.name).start)
        if left:
            context.session.notice(left)
