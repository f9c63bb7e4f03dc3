"""Where a sink begins: which part of a commit makes its readers hold the rows as they are, or the log from here on."""

from __future__ import annotations

import dataclasses

from engine.hummock import Commit, TableVersion, Version
from engine.hummock.preconditions import Precondition, all_of
from engine.log_store.sink import attach
from engine.meta.sinks import SinkState, begun, consumers_of, is_newest, released, state_entry, state_of
from engine.sql.catalog import Relation


def beginning(version: Version, relation: Relation, table: TableVersion, snapshot: bool) -> Commit:
    """Return the part of a commit from which on a sink begins with the rows as they are (`snapshot`), or with the next change.

    What its readers held before is let go of. The store's epoch is the number of this beginning: names of files bear it, so no
    file of one beginning is taken for one of another, nor for one of a sink that had the name before.
    """
    acks, pins = released(relation)
    part = attach(table, consumers_of(relation), snapshot)
    paused = state_of(version, relation.name).paused
    state = SinkState(table.table_id, since=version.epoch, paused=paused, start=version.epoch)
    return Commit(
        acks={**acks, **part.acks},
        pins={**pins, **part.pins},
        catalog=state_entry(relation.name, state) | begun(version.epoch),
        precondition=is_newest(version.epoch),
    )


def provided(part: Commit, check: Precondition) -> Commit:
    """Return a commit with a precondition besides its own."""
    checks = [check] if part.precondition is None else [check, part.precondition]
    return dataclasses.replace(part, precondition=all_of(*checks))
