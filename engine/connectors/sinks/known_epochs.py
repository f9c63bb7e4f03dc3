"""Whether what a target says of itself fits the store: a store that was put back does not know epochs that were delivered."""

from __future__ import annotations

from engine.errors import SinkError
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.meta.domains.creation import find_computed_table
from engine.meta.status.sinks import find_sink_source
from engine.sql.catalog import Relation


def require_known_epoch(store: Hummock, relation: Relation, place: str, epoch: int, after: int) -> None:
    """Raise SinkError unless the view of a sink has had an epoch, above `after`, up to which a target at `place` stands."""
    version, source = store.refresh(), find_sink_source(relation)
    table = find_computed_table(version, source)
    known = () if table is None else table.list_changes(after, table.committed_epoch)
    if not any(entry.epoch == epoch for entry in known):
        raise SinkError(
            f"sink {relation.name}: {place} stands at epoch {format_epoch(epoch)}, which {source} does not know: was the store "
            f"put back? ALTER SINK {relation.name} RESET brings the rows as they are"
        )
