"""Where a sink begins: which part of a commit makes its readers hold the rows as they are, or the log from here on."""

from __future__ import annotations

import dataclasses

from engine.hummock import Commit, TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require_all
from engine.log_store.sink import attach
from engine.meta.status.sinks import (
    SinkState,
    encode_sink_state,
    list_consumers,
    read_sink_state,
    record_sink_start,
    release_holds,
    require_newest_start,
)
from engine.sql.catalog import Relation


def build_start(version: Version, relation: Relation, table: TableVersion, snapshot: bool) -> Commit:
    """Return the part of a commit from which on a sink begins with the rows as they are (`snapshot`), or with the next change.

    What its readers held before is let go of. The store's epoch is the number of this beginning: names of files bear it, so no
    file of one beginning is taken for one of another, nor for one of a sink that had the name before.
    """
    acks, pins = release_holds(relation)
    part = attach(table, list_consumers(relation), snapshot)
    paused = read_sink_state(version, relation.name).paused
    state = SinkState(table.table_id, since=version.epoch, paused=paused, start=version.epoch)
    return Commit(
        acks={**acks, **part.acks},
        pins={**pins, **part.pins},
        catalog=encode_sink_state(relation.name, state) | record_sink_start(version.epoch),
        precondition=require_newest_start(version.epoch),
    )


def add_precondition(part: Commit, check: Precondition) -> Commit:
    """Return a commit with a precondition besides its own."""
    checks = [check] if part.precondition is None else [check, part.precondition]
    return dataclasses.replace(part, precondition=require_all(*checks))
